"""Who is left after each step of a study, and whom it left out."""

from textwrap import fill

import numpy as np

from ._display import Display, wrong_type
from ._style import MUTED, count_of

WIDEST = 34  # letters of a line in a box
ROW = 0.75  # inches of a step
LEFT, RIGHT = 0.28, 0.75  # where boxes are, of the width of the axes


class AttritionDisplay(Display):
    r"""Flow chart of a cohort: persons left after each step, and beside it those left out.

    Parameters
    ----------
    attrition : DataFrame
        A line for each step, in their order: how many are left, and of what kinds these are. What
        a column ``left_out`` does not say is the difference from the line before.

    Attributes
    ----------
    <<ax_>>
    boxes_ : list of matplotlib Annotation
        Those who are left.
    left_out_ : list of matplotlib Annotation
        Those who are not, of the steps that left somebody out.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import AttritionDisplay
    >>> from sksurvgpu.cohort import Cohort, match, trim
    >>> rng = np.random.default_rng(0)
    >>> persons = pd.DataFrame({"id": range(500), "score": rng.beta(2, 3, 500)})
    >>> persons["treatment"] = rng.random(500) < persons["score"]
    >>> cohort = match(trim(Cohort.of(persons), bounds=(0.1, 0.9)), caliper=0.2)
    >>> display = AttritionDisplay.from_result(cohort)
    >>> [box.get_text() for box in display.left_out_]
    ['25 left out:\nscore in [0.1, 0.9]', '147 left out:\nmatched']
    """

    def __init__(self, attrition):
        self.attrition = attrition

    def _shows(self):
        return count_of(self.attrition, "step")

    @classmethod
    def from_result(cls, result, *, ax=None):
        """Draw the steps of a cohort.

        Parameters
        ----------
        result : Cohort, CaseSeriesData or another result with ``attrition``
            What was left.
        <<ax>>

        <<drawn>>
        """
        attrition = getattr(result, "attrition", None)
        if attrition is None:
            raise wrong_type("result", result, ", which has no `attrition`; pass a Cohort")
        return cls(attrition).plot(ax)

    def plot(self, ax=None):
        """Draw the boxes.

        Parameters
        ----------
        <<ax>>

        <<display>>
        """
        table = self.attrition
        kept = table.drop(columns="left_out", errors="ignore")
        total = kept.iloc[:, 0]
        gone = table["left_out"] if "left_out" in table else -total.diff().fillna(0.0)
        is_shown = np.asarray(gone != 0).copy()  # a step that left out nobody has no box
        is_shown[:1] = True
        kept, gone = kept[is_shown], gone[is_shown]
        box = {"boxstyle": "round,pad=0.4", "facecolor": "none", "edgecolor": MUTED}
        style = {"ha": "center", "va": "center", "bbox": box}
        line = {"arrowstyle": "<-", "color": MUTED, "shrinkB": 0}
        with self._on_axes(ax, lambda: ROW * len(kept)) as ax:
            ax.set(xlim=(0, 1), ylim=(len(kept) - 0.5, -0.5))
            ax.axis("off")
            self.boxes_, self.left_out_ = [], []
            for k, (step, n_gone) in enumerate(gone.items()):
                place = {"xytext": (LEFT, k), "arrowprops": line if k else None}
                text = _describe(kept.iloc[k])
                self.boxes_.append(ax.annotate(text, (LEFT, max(k - 0.75, 0)), **place, **style))
                if k and n_gone:
                    text = f"{int(n_gone):,} left out:\n{fill(str(step), WIDEST)}"
                    place = {"xytext": (RIGHT, k - 0.5), "arrowprops": line}
                    self.left_out_.append(ax.annotate(text, (LEFT, k - 0.5), **place, **style))
        return self


def _describe(counts):
    """Number of those who are left, and of their kinds."""
    first, *kinds = (f"{int(n):,} {name}" for name, n in counts.items())
    return first + (f"\n({', '.join(kinds)})" if kinds else "")
