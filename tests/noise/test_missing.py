"""Missing labels: the rate is found where it is clear, and zero where candidates are complete."""

import numpy as np
import pytest
from scipy.special import expit

from schirn.noise.missing import missing_probability, missing_rate


def simulate(dropped, seed=0):
    rng = np.random.RandomState(seed)
    z = 5 * rng.randn(2000, 6) - 3
    truth = rng.rand(*z.shape) < expit(z)
    listed = truth & (rng.rand(*z.shape) >= dropped)
    return z, truth, (listed | (rng.rand(*z.shape) < 0.1)).astype(float)


@pytest.mark.parametrize("dropped", [0.15, 0.3, 0.5])
def test_the_rate_is_found(dropped):
    z, _, Y = simulate(dropped)
    assert 0.75 * dropped < missing_rate(z, Y, 0.1) < 1.1 * dropped


def test_complete_candidates_miss_nothing():
    z, _, Y = simulate(0.0)
    assert missing_rate(z, Y, 0.1) == 0


def test_the_probabilities_are_calibrated():
    z, truth, Y = simulate(0.3)
    p = missing_probability(z, 0.1, 0.3)
    unlisted = Y == 0
    for low, high in ((0.0, 0.2), (0.2, 0.6), (0.6, 1.0)):
        some = unlisted & (p >= low) & (p < high)
        assert abs(p[some].mean() - truth[some].mean()) < 0.05


@pytest.mark.parametrize("Y", [np.zeros((0, 3)), np.zeros((4, 3)), np.ones((4, 3))])
def test_nothing_to_look_at(Y):
    assert 0 <= missing_rate(np.zeros(Y.shape), Y, 0.2) <= 1
