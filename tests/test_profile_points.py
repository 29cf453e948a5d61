"""Points of profiles begin with what the points before have found."""

import numpy as np
from scipy import stats

from sksurvgpu import CoxLassoCCD, profile_likelihood
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.inference._profiler import Profile
from sksurvgpu.inference.curve import ProfileCurve
from sksurvgpu.solver.way import Way


def test_a_point_starts_on_the_line_through_its_neighbours():
    curve = ProfileCurve(0.0, 0.0, 1.0)
    profile = Profile(0, curve, [np.array([0.0, 1.0, 0.0, 2.0])], [], stats.norm)
    np.testing.assert_array_equal(profile.start_at(0.5), [0.5, 1.0, 0.0, 2.0])
    curve.add(1.0, 1.0)
    profile.coefs.append(np.array([1.0, 3.0, 4.0, 0.0]))
    np.testing.assert_array_equal(profile.start_at(0.25), [0.25, 1.5, 0.0, 1.5])
    np.testing.assert_array_equal(profile.start_at(2.0), [2.0, 5.0, 8.0, 0.0])
    # no farther than the points are apart, and zeros of the nearest stay
    np.testing.assert_array_equal(profile.start_at(9.0), [9.0, 5.0, 8.0, 0.0])
    np.testing.assert_array_equal(profile.start_at(-9.0), [-9.0, -1.0, 0.0, 4.0])


def test_points_borrow_the_model_of_the_free_fit(monkeypatch):
    borrowed, borrow = [], Way.borrow

    def counting(self, loan, *args):
        borrowed.append(loan)
        borrow(self, loan, *args)

    monkeypatch.setattr(Way, "borrow", counting)
    data = simulate_cox(2_000, 30, random_state=0)
    model = CoxLassoCCD(alpha=0.01, penalty_factor={0: 0.0})
    curves = profile_likelihood(model, data.X, data.y, [0, 1]).curves
    assert (
        len(borrowed) >= len(curves) - 2
    )  # each curve's first point is the free fit, or starts one
    assert all(loan is borrowed[0] for loan in borrowed)
