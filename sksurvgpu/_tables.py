"""Results show themselves: what they are in a line, and the first rows of a table below it."""

from dataclasses import replace
from html import escape
from typing import Any, ClassVar

from pandas import DataFrame, Index, MultiIndex

from ._versioned import Versioned

MOST_ROWS, MOST_OF_A_FIT = 10, 40  # the latter of what R prints whole
LONGEST = 40  # letters of a name or text
SHOWN = "attrition", "groups", "table"  # the first of these that a result has


class Result(Versioned):
    """Base of returned results: text in a terminal, and a table in a notebook.

    Classes have a `_title`. What is shown is one of their tables, `SHOWN`, or the `summary` of the
    first parts of some attributes, `_arrays`; others have a `_head`. It makes the rows that are
    shown and no others: there may be 100,000.
    """

    _arrays: ClassVar[tuple[str, ...]] = ()
    _most_rows: ClassVar[int] = MOST_ROWS
    _effect: str | None  # what exp(coef) is called, of results with `_arrays`

    def _title(self) -> str:
        raise NotImplementedError

    def _head(self, n: int) -> tuple[Any, int] | None:
        """The first `n` rows and how many there are; None where the title says all."""
        if self._arrays:
            part = replace(self, **{name: getattr(self, name)[:n] for name in self._arrays})
            return in_brief(part.summary(), part._effect), len(getattr(self, self._arrays[0]))
        frames = (getattr(self, name, None) for name in SHOWN)
        frame = next((frame for frame in frames if frame is not None), None)
        return None if frame is None else (frame.head(n), len(frame))

    def _notes(self) -> list[str]:
        return []

    def __repr__(self) -> str:
        table, n_more = self._table()
        lines = [f"<{self._title()}>", *self._notes()]
        if table is not None:
            lines.append(table.to_string())
        return "\n".join([*lines, *_more(n_more)])

    def _repr_html_(self) -> str:
        table, n_more = self._table()
        title, *others = self._title().splitlines()
        lines = [f"<p><strong>{escape(title)}</strong></p>"]
        lines += [f"<p>{escape(line)}</p>" for line in (*others, *self._notes())]
        if table is not None:
            lines.append(table.to_html(border=0))
        lines += [f"<p>{line}</p>" for line in _more(n_more)]
        return f"<div>{''.join(lines)}</div>"

    def _table(self):
        """Table of texts, or None, and how many rows it leaves out."""
        found = self._head(self._most_rows)
        if found is None:
            return None, 0
        frame, n_rows = found
        return as_text(frame), n_rows - len(frame)


class Report(Result):
    """Base of counts of what was read and left out: `_begin` says what there is, `COUNTED` more.

    That is, by the name of an attribute, what it counts; what did not occur is not said.
    """

    COUNTED: ClassVar[dict[str, str]] = {}

    def _begin(self) -> list[str]:
        raise NotImplementedError

    def _title(self) -> str:
        counts = ((getattr(self, name), what) for name, what in self.COUNTED.items())
        return "\n".join([*self._begin(), *(f"{n:,} {what}" for n, what in counts if n)])

    def __repr__(self) -> str:
        return self._title()


def in_brief(table, effect):
    """Columns of a table of coefficients without those that ratios say again."""
    if effect is None:
        return table
    return table.drop(columns=["lower", "upper", "z", "t"], errors="ignore")


def _more(n_rows):
    return [f"and {counted(n_rows, 'more rows')}"] if n_rows else []


def counted(n, unit):
    """A number of things whose plural is the unit."""
    singular = f"{unit[:-3]}y" if unit.endswith("ies") else unit[:-1]
    return f"{n:,} {singular if n == 1 else unit}"


def as_text(frame):
    """A table of texts, short enough to be shown."""
    columns = [list(map(_cell, frame.iloc[:, j].tolist())) for j in range(frame.shape[1])]
    rows = list(zip(*columns, strict=True))
    return DataFrame(rows, _labels(frame.index), _labels(frame.columns))


def _labels(index):
    """Names of rows or columns as texts; of one level without its own name."""
    if index.nlevels == 1:
        return Index(list(map(_label, index)), dtype=object)
    levels = [list(map(_label, index.get_level_values(i))) for i in range(index.nlevels)]
    return MultiIndex.from_arrays(levels, names=index.names)


def _label(value):
    return str(value) if isinstance(value, int) else _cell(value)  # perhaps that of a person


def _cell(value):
    if isinstance(value, float):
        return f"{value:,.0f}" if 9999.5 <= abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
