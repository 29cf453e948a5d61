"""Newton's method for modes of densities: steps that are halved until they go up."""

MOST_STEPS, MOST_HALVINGS = 100, 40  # of the method, and of a step of it
# Where the likelihood rises for ever, Newton steps gain less and less, and each moves some
# predictor by about 1.  No step near a mode moves one as far as this.
STILL = 1e-2


def search_line(value_and_gradient, position, value, step, gain, rounding):
    """Halve a step until it gains half of what it promises, as far as digits tell.

    Returns the new position, value and gradient; None where the step does not go up.
    """
    for halvings in range(MOST_HALVINGS):
        share = 0.5**halvings
        trial = position + share * step
        found, gradient = value_and_gradient(trial)
        if gain <= rounding or found >= value + 0.5 * share * gain - rounding:
            return trial, found, gradient
    return None
