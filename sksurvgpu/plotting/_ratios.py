"""Axes of effects: coefficients, or their ratios in plain numbers on a logarithmic axis."""

import numpy as np

from ._style import CHARACTER, GUIDE, size_of, text_size

MOST_TICKS, LEAST_TICKS = 6, 3
APART = 1.2  # between numbers on an axis, in units of their size
LARGEST_LOG = 230.0  # ratios of 1e100: twice as many decades on, ticks would be infinite
RATIO_STEPS = (  # from dense to sparse, within a decade
    (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0),
    (1.0, 1.5, 2.0, 3.0, 5.0, 7.0),
    (1.0, 2.0, 3.0, 5.0),
    (1.0, 2.0, 5.0),
    (1.0, 3.0),
    (1.0,),
)


class EffectAxis:
    """Axis of coefficients, or of ratios exp(coef) where these have a name, `effect`."""

    def __init__(self, effect):
        self.effect = effect
        self.name = effect or "coefficient"

    def shown(self, coefs):
        """Coefficients as the axis has them."""
        with np.errstate(over="ignore"):
            return np.exp(coefs) if self.effect else np.asarray(coefs)

    def limits(self, low, high):
        """Limits of coefficients, cut where the axis cannot show their ratios."""
        return within_floats(low, high) if self.effect else (low, high)

    def set_scale(self, ax):
        """Make the axis logarithmic for ratios."""
        if self.effect:
            show_logarithmic(ax)

    def mark_no_effect(self, ax):
        """Draw a vertical line at no effect."""
        return ax.axvline(self.shown(0.0), **GUIDE)

    def set_ticks(self, ax):
        """Choose numbers for the ratios, as many as the axes, now laid out, have room for."""
        if self.effect:
            show_ratios(ax)


def within_floats(low, high):
    """Limits of coefficients whose ratios an axis can show."""
    return max(low, -LARGEST_LOG), min(high, LARGEST_LOG)


def show_logarithmic(ax, side="x"):
    """Logarithmic axis with plain numbers; matplotlib's own are formulas."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    ax.set(**{f"{side}scale": "log"})
    axis = {"x": ax.xaxis, "y": ax.yaxis}[side]
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def show_ratios(ax, side="x"):
    """Numbers like 0.5, 1, 2 on a logarithmic axis, as many as have room."""
    from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator, NullLocator

    axis = {"x": ax.xaxis, "y": ax.yaxis}[side]
    low, high = sorted(axis.get_view_interval())
    for steps in RATIO_STEPS:
        locator = LogLocator(base=10.0, subs=steps, numticks=MOST_TICKS + 3)
        ticks = locator.tick_values(low, high)
        ticks = ticks[(ticks >= low) & (ticks <= high)]
        # Over many decades matplotlib gives no ticks between them.
        if 0 < len(ticks) <= _most_ticks(ax, ticks, side):
            break
    else:
        decades = np.arange(np.ceil(np.log10(low)), np.floor(np.log10(high)) + 1.0)
        every = -(-len(decades) // max(1, _most_ticks(ax, ticks, side)))  # second, ... decade
        locator = FixedLocator(10.0 ** decades[decades % every == 0])
    if len(ticks) < LEAST_TICKS and high < 10.0 * low:
        locator = MaxNLocator(LEAST_TICKS, steps=[1, 2, 2.5, 5, 10])
        ticks = 1.0 + locator.tick_values(low - 1.0, high - 1.0)  # 1 is one of them
        locator = FixedLocator(ticks[ticks > 0])
    axis.set_major_locator(locator)
    axis.set_minor_locator(NullLocator())


def _most_ticks(ax, ticks, side):
    """Numbers as long as the longest of these that an axis has room for."""
    longest = max((len(f"{tick:g}") for tick in ticks), default=1)
    width = CHARACTER * longest if side == "x" else 1.0
    return min(MOST_TICKS, int(size_of(ax)["xy".index(side)] / (text_size(ax) * (width + APART))))
