"""The parts of a forest plot: lines with a point and an interval, names left, numbers right."""

from numbers import Real

import numpy as np

from ._ratios import LARGEST_LOG, EffectAxis
from ._style import CHARACTER, MARKERS, colours_on, lay_out, shorten, size_of, text_size

LINE = 1.5  # distance of lines of numbers, in units of their size
GAP = 0.6  # more between rows of several lines
FRAME = 0.85  # inches, of the axis below the rows and the head above them
# Bounds are cut that lie farther from their estimate than so many typical half widths and, as a
# ratio, so many times the estimate, as a coefficient so many times the span of all estimates.
REACH, FAR_RATIO, FAR = 4.0, 100.0, 10.0
MARGIN = 0.04  # of the axis, on both sides of what it shows
NAMES_SHARE = 0.38  # of what the axes had without names and numbers
SMALL_RATIO = 0.1  # below which a third decimal is shown
HALF_DIGIT = 0.36  # half its height
MOST_DECIMALS = 5  # of an estimate or bound
HEADS = {"p_value": "p", "p": "p", "p_factor": "p of factor"}
KEY = 5  # characters that the marker of an entry of the legend takes, with the gap after it


class Forest:
    """Rows of one or more tables with coefficients and bounds, in the same order.

    Rows stand at integer heights that ascend downwards; those of several tables beside each other.
    """

    def __init__(self, tables, effect, xlim):
        self.tables, self.axis = tables, EffectAxis(effect)
        self.names = list(next(iter(tables.values())).index)
        self.points, self.intervals, self.arrows = {}, {}, {}
        self.limits = self._limits(xlim)

    def height(self):
        """Inches that the figure needs."""
        from matplotlib import rcParams

        size = rcParams["font.size"]
        beside = self._beside(72.0 * rcParams["figure.figsize"][0], size)
        more_keys = -(-len(self.tables) // beside) - 1  # lines of the legend after the first
        return FRAME + (len(self.names) * self._lines() + LINE * more_keys) * size / 72.0

    def _beside(self, width, size):
        """Entries of the legend that a line has room for, in points."""
        longest = KEY + max(len(str(key)) for key in self.tables)
        return int(np.clip(width / (CHARACTER * size * longest), 1, len(self.tables)))

    def _lines(self):
        """Height of a row in units of the text's."""
        return LINE * len(self.tables) + (GAP if len(self.tables) > 1 else 0.0)

    def _heights(self, key):
        place = list(self.tables).index(key) - 0.5 * (len(self.tables) - 1)
        return np.arange(len(self.names)) + place * LINE / self._lines()

    def _limits(self, xlim):
        """Limits of the axis on the scale of the coefficients."""
        is_ratio = bool(self.axis.effect)
        if xlim is not None:
            ends = np.ravel(xlim).tolist()
            if len(ends) != 2 or not ends[0] < ends[1] or (is_ratio and ends[0] <= 0):
                kind = "positive and ascending" if is_ratio else "ascending"
                raise ValueError(f"`xlim` is {xlim!r}, must be two numbers, {kind}.")
            low, high = ends
            return (np.log(low), np.log(high)) if is_ratio else (low, high)
        coef, lower, upper = np.concatenate([table.to_numpy() for table in self.tables.values()]).T
        finite = np.isfinite(coef) & (np.abs(coef) <= (LARGEST_LOG if is_ratio else np.inf))
        places = np.append(coef[finite], 0.0)  # where the line of no effect is
        halves = np.abs(np.stack([lower, upper]) - coef)
        known = halves[np.isfinite(halves)]
        typical = np.median(known) if len(known) else 1.0
        far = np.log(FAR_RATIO) if is_ratio else FAR * np.ptp(places)
        # what is cut leaves room for its arrow, and stretches the axis no further
        halves = np.where(halves > max(REACH * typical, far), typical, np.nan_to_num(halves))
        low = np.min(places[:-1] - halves[0, finite], initial=0.0)
        high = np.max(places[:-1] + halves[1, finite], initial=0.0)
        margin = MARGIN * (high - low) if high > low else 1.0
        return self.axis.limits(low - margin, high + margin)

    def draw(self, ax):
        """Draw points, intervals and the axis."""
        self.axis.set_scale(ax)
        ax.set_xlim(*self.axis.shown(np.array(self.limits)))
        self.axis.mark_no_effect(ax)
        colours = colours_on(ax)
        for i, (key, table) in enumerate(self.tables.items()):
            self._draw_table(ax, key, table, colours[i % len(colours)], MARKERS[i % len(MARKERS)])
        edge = 0.5 * (1.0 + (0.2 if len(self.names) == 1 else 0.0))
        ax.set_ylim(len(self.names) - 1 + edge, -edge)
        ax.set_xlabel(self.axis.name, parse_math=False)
        if len(self.tables) > 1:
            ax.legend(
                self.points.values(),
                self.points,
                loc="lower left",
                bbox_to_anchor=(0.0, 1.0),
                ncols=self._beside(72.0 * ax.figure.bbox.width / ax.figure.dpi, text_size(ax)),
                borderaxespad=1.5,  # above the head of the numbers
                handletextpad=0.2,
                columnspacing=1.0,
            )

    def _draw_table(self, ax, key, table, colour, marker):
        height = self._heights(key)
        coef, lower, upper = (table[name].to_numpy() for name in ("coef", "lower", "upper"))
        if np.isnan(lower).all() and np.isnan(upper).all():  # no intervals: stems from no effect
            lower, upper = np.fmin(coef, 0.0), np.fmax(coef, 0.0)
        left, right = self.limits
        ends = [np.where(np.isnan(end), coef, end) for end in (lower, upper)]
        ends = np.clip(ends, left, right)
        drawn = np.isfinite(coef)
        self.intervals[key] = ax.hlines(
            height[drawn], *self.axis.shown(ends[:, drawn]), color=colour, linewidth=1.2, zorder=2
        )
        is_inside = drawn & (coef >= left) & (coef <= right)
        self.points[key] = ax.scatter(
            self.axis.shown(coef[is_inside]),
            height[is_inside],
            s=16,
            color=colour,
            marker=marker,
            zorder=3,
        )
        for name, beyond, x, head in (
            ("lower", np.fmin(lower, coef) < left, left, "<"),
            ("upper", np.fmax(upper, coef) > right, right, ">"),
        ):
            if not beyond.any():  # a line without points would widen the figure
                continue
            [self.arrows[key, name]] = ax.plot(
                np.full(np.count_nonzero(beyond), self.axis.shown(x)),
                height[beyond],
                linestyle="none",
                marker=head,
                markersize=4,
                color=colour,
                clip_on=False,
                zorder=3,
            )

    def name_rows(self, ax):
        """Write the names of the rows, as long as there is room."""
        size = self._text_size = self._fitting_size(ax)
        longest = int(NAMES_SHARE * size_of(ax)[0] / (CHARACTER * size))
        names = shorten(self.names, longest)
        ax.set_yticks(np.arange(len(self.names)), names, size=size, parse_math=False)
        ax.tick_params(axis="y", length=0)
        ax.spines["left"].set_visible(False)

    def _fitting_size(self, ax):
        """Size of the text of a row in points, smaller where the axes are too low for the rows."""
        lay_out(ax)
        height = size_of(ax)[1]
        return min(text_size(ax), height / (1.1 * len(self.names) * self._lines() / LINE))

    def mark_axis(self, ax):
        """Numbers on the axis, once its width is known."""
        if self.axis.effect:
            lay_out(ax)
            self.axis.set_ticks(ax)

    def write_numbers(self, ax, level):
        """Write estimates, aligned right, and intervals, aligned left; after the names."""
        size = self._text_size
        rows = [
            (height, *self._in_words(*row))
            for key, table in self.tables.items()
            for height, row in zip(self._heights(key), table.to_numpy(), strict=True)
            if np.isfinite(row[0])
        ]
        rows.sort()
        room = CHARACTER * size * (1 + max(len(text) for _, text, _ in rows))
        texts = [
            (
                self._write(ax, height, estimate, room, "right", size),
                self._write(ax, height, interval, room + 0.5 * size, "left", size),
            )
            for height, estimate, interval in rows
        ]
        if any(interval for _, _, interval in rows):
            head = f"{100 * level:g} % interval" if level else "interval"
            self._head(ax, head, room + 0.5 * size, "left")
        return texts

    def _head(self, ax, text, offset, side):
        ax.annotate(
            text,
            (1.0, 1.0),
            xytext=(offset, 2.0),
            xycoords="axes fraction",
            textcoords="offset points",
            ha=side,
            size=self._text_size,
            alpha=0.7,
            parse_math=False,
        )

    def write_beside(self, ax, table):
        """Write columns of a table right of all that is there, each under its name."""
        missing = [name for name in self.names if name not in table.index]
        if missing or not table.index.is_unique:
            what = f"no line {missing[0]!r}" if missing else "two lines of one name"
            raise ValueError(f"`beside` has {what}; it needs one for each coefficient drawn.")
        size, written = self._text_size, {}
        for column in table.columns:
            lay_out(ax)
            edge = (ax.get_tightbbox().x1 - ax.bbox.x1) * 72.0 / ax.figure.dpi
            texts = [in_column(value, str(column)) for value in table.loc[self.names, column]]
            head = HEADS.get(str(column), str(column))
            offset = edge + size * (1.0 + CHARACTER * max(map(len, [head, *texts])))
            heights = np.arange(len(self.names))
            written[str(column)] = [
                self._write(ax, height, text, offset, "right", size)
                for height, text in zip(heights, texts, strict=True)
            ]
            self._head(ax, head, offset, "right")
        return written

    def _in_words(self, *row):
        """Estimate and interval of a row, with decimals that tell its bounds apart."""
        coef, lower, upper = self.axis.shown(np.array(row))
        wide = upper - lower
        if not np.isfinite(wide):  # then tell the estimate from no effect, to one digit
            wide = 10.0 * abs(coef - self.axis.shown(0.0))
        n_decimals = 2
        if wide > 0.0:
            n_decimals = int(np.clip(1.0 - np.floor(np.log10(2.0 * wide)), 2, MOST_DECIMALS))
        estimate, lower, upper = (
            number(value, bool(self.axis.effect), n_decimals) for value in (coef, lower, upper)
        )
        return estimate, "" if np.isnan(row[1:]).all() else f"({lower}, {upper})"

    def _write(self, ax, height, text, offset, side, size):
        return ax.annotate(
            text,
            (1.0, height),
            xytext=(offset, -HALF_DIGIT * size),
            xycoords=ax.get_yaxis_transform(),
            textcoords="offset points",
            ha=side,
            va="baseline",  # brackets are higher than digits: their centres differ
            size=size,
            annotation_clip=False,
        )


def in_column(value, column) -> str:
    """A value of a table in words: p-values to two digits, counts with their thousands."""
    if not isinstance(value, Real):
        return str(value)
    if np.isnan(value):
        return "" if column == "p_factor" else "–"
    if column in HEADS:
        return "< 0.001" if value < 0.001 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
    return f"{value:,.0f}" if value == np.floor(value) else number(value)


def number(value, is_ratio=False, n_decimals=2) -> str:
    """A coefficient or ratio with decimals; one more for small ratios, none for large numbers."""
    if np.isnan(value):
        return "–"
    sign = "−" if value < 0 else ""
    size = abs(value)
    if size == 0 or np.isinf(size):
        return f"{sign}∞" if size else "0"
    if size >= 1e5:
        return f"{sign}{size:.0e}"
    if size >= 100:
        return f"{sign}{size:,.0f}"
    n_decimals = max(n_decimals, 3) if is_ratio and size < SMALL_RATIO else n_decimals
    return f"{sign}{size:.{n_decimals}f}"
