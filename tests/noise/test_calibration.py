"""Calibration of scores on candidates alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import approx_fprime
from scipy.special import expit

from schirn.noise import calibration
from schirn.noise.calibration import Calibration, calibrate, posterior


def simulated(slope, offset, rate, shape=(6000, 8), seed=0, spread=1.0, centre=0.0):
    rng = np.random.default_rng(seed)
    s = centre + spread * rng.normal(size=shape)
    truth = rng.random(shape) < expit(slope * s + offset)
    return s, truth, truth | (rng.random(shape) < rate)


@pytest.mark.parametrize(
    ("slope", "offset", "rate"),
    [(3, -2, 0.2), (4, -1, 0.05), (2.5, -3, 0.5), (5, 0, 0.0), (6, -4, 0.3)],
)
def test_recovers_known_parameters_from_candidates(slope, offset, rate):
    s, truth, listed = simulated(slope, offset, rate)
    fitted = calibrate(s, listed)
    assert fitted.slope == pytest.approx(slope, rel=0.15)
    assert fitted.offset == pytest.approx(offset, abs=0.3)
    assert fitted.noise_rate == pytest.approx(rate, abs=0.02)
    confidence = fitted.confidence(s, listed)
    assert np.abs(fitted.probability(s) - expit(slope * s + offset)).max() < 0.05
    assert confidence[listed].mean() == pytest.approx(truth[listed].mean(), abs=0.02)


@pytest.mark.parametrize(("spread", "centre"), [(1e-4, 0.0), (1e6, 3e6), (0.1, -50.0)])
def test_scores_may_have_any_scale(spread, centre):
    s, _, listed = simulated(
        3 / spread, -2 - 3 * centre / spread, 0.2, (3000, 5), 1, spread, centre
    )
    moved = calibrate(s, listed)
    plain = calibrate((s - centre) / spread, listed)
    assert moved.slope * spread == pytest.approx(plain.slope, rel=1e-3)
    assert moved.noise_rate == pytest.approx(plain.noise_rate, abs=1e-4)
    np.testing.assert_allclose(
        moved.probability(s), plain.probability((s - centre) / spread), atol=1e-3
    )


def test_a_known_rate_is_kept_and_helps():
    s, _, listed = simulated(3, -2, 0.2, (300, 5))
    fitted = calibrate(s, listed, noise_rate=0.2)
    assert fitted.noise_rate == 0.2
    assert fitted.slope == pytest.approx(3, rel=0.2)
    wrong = calibrate(s, listed, noise_rate=0.0)
    assert wrong.noise_rate == 0.0
    assert wrong.slope < fitted.slope
    assert (wrong.confidence(s, listed)[listed] == 1).all()


def plain_loss(theta, z, listed):
    """Per-cell negative log-likelihood of (log slope, offset, logit rate), pulled to slope one."""
    p, rate = expit(np.exp(theta[0]) * z + theta[1]), expit(theta[2])
    seen = p + (1 - p) * rate
    losses = -np.where(listed, np.log(seen), np.log1p(-seen))
    return (losses.sum() + theta[0] ** 2 / 2) / z.size


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("shape", "atol"), [((77, 3), 2e-5), ((500, 4), 2e-4)])
def test_likelihood_of_the_candidates_is_at_its_maximum(shape, atol, seed):
    """Exactly for few cells; many are put into bins."""
    rng = np.random.default_rng(seed)
    slope, offset, rate = rng.uniform(0.7, 3), rng.uniform(-3, 0), rng.uniform(0.1, 0.4)
    s, _, listed = simulated(slope, offset, rate, shape, seed, spread=2.0, centre=1.0)
    fitted = calibrate(s, listed)
    centre, spread = s.mean(), s.std()
    odds = fitted.noise_rate / (1 - fitted.noise_rate)
    theta = np.log(fitted.slope * spread), fitted.offset + fitted.slope * centre, np.log(odds)
    z = (s - centre) / spread
    gradient = approx_fprime(np.array(theta), plain_loss, 1e-6, z, listed)
    np.testing.assert_allclose(gradient, 0, atol=atol)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_likelihood_for_a_known_rate_is_at_its_maximum(rate):
    s, _, listed = simulated(2.0, -1.0, 0.2, (77, 3))
    fitted = calibrate(s, listed, noise_rate=rate)
    centre, spread = s.mean(), s.std()
    theta = np.array([np.log(fitted.slope * spread), fitted.offset + fitted.slope * centre])

    def loss(theta):
        return plain_loss([*theta, np.log(rate / (1 - rate))], (s - centre) / spread, listed)

    np.testing.assert_allclose(approx_fprime(theta, loss, 1e-6), 0, atol=2e-5)


def test_tensors_have_the_probabilities_of_arrays():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    s = np.linspace(-3, 3, 12).reshape(4, 3)
    found = Calibration(2.0, -0.5, 0.1).probability(torch.asarray(s))
    assert isinstance(found, torch.Tensor)
    np.testing.assert_allclose(found, expit(2 * s - 0.5), rtol=1e-12)


def finite(fitted, s):
    p = fitted.probability(s)
    assert np.isfinite(fitted).all()
    assert fitted.slope > 0
    assert 0 <= fitted.noise_rate <= 1
    assert ((p >= 0) & (p <= 1)).all()
    return p


@pytest.mark.parametrize("value", [0.0, 0.7, -1e9, 1e-20])
def test_constant_scores(value):
    s = np.full((50, 4), value)
    listed = np.random.default_rng(0).random(s.shape) < 0.3
    p = finite(calibrate(s, listed), s)
    assert np.ptp(p) < 1e-12
    assert p[0, 0] <= 0.5


@pytest.mark.parametrize("shape", [(1, 6), (6, 1), (1, 1), (2, 2)])
@pytest.mark.parametrize("listed", [0.0, 0.5, 1.0])
def test_few_cells(shape, listed):
    rng = np.random.default_rng(0)
    s = rng.normal(size=shape)
    finite(calibrate(s, rng.random(shape) < listed), s)


def test_everything_or_nothing_listed():
    s = np.random.default_rng(0).normal(size=(200, 5))
    nothing = finite(calibrate(s, np.zeros(s.shape, bool)), s)
    assert nothing.max() < 0.05
    everything = calibrate(s, np.ones(s.shape, bool))
    finite(everything, s)
    seen = everything.probability(s) + (1 - everything.probability(s)) * everything.noise_rate
    assert seen.min() > 0.8


@pytest.mark.parametrize("size", [1e12, 1e60])
def test_huge_scores(size):
    s, _, listed = simulated(3, -2, 0.2, (500, 4))
    huge = calibrate(s * size, listed)
    finite(huge, s * size)
    np.testing.assert_allclose(
        huge.probability(s * size), calibrate(s, listed).probability(s), atol=1e-3
    )


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_known_rate_at_its_limits(rate):
    s, _, listed = simulated(3, -2, 0.2, (100, 4))
    finite(calibrate(s, listed, noise_rate=rate), s)


def test_scores_of_a_few_values():
    """Bins of unlike size: most cells have the same score."""
    s, _, listed = simulated(3, -2, 0.2, (3000, 4))
    finite(calibrate(np.round(s / 3), listed), s)


def test_one_far_score_does_not_break_the_rest():
    s, _, listed = simulated(3, -2, 0.2, (500, 4))
    s[0, 0] = 1e9
    finite(calibrate(s, listed), s)


def test_scores_that_say_the_opposite():
    s, _, listed = simulated(3, -2, 0.2, (500, 4))
    fitted = calibrate(-s, listed)
    # No rising sigmoid helps, so all that is listed is noise at an even rate.
    assert finite(fitted, -s).max() < 0.01
    assert fitted.noise_rate == pytest.approx(listed.mean(), abs=0.01)


def test_single_precision():
    s, _, listed = simulated(3, -2, 0.2, (1000, 4))
    single, double = calibrate(s.astype(np.float32), listed), calibrate(s, listed)
    np.testing.assert_allclose(single, double, atol=1e-3)
    assert single.probability(s.astype(np.float32)).dtype == np.float32
    assert single.confidence(s.astype(np.float32), listed).dtype == np.float32


def test_candidate_types_and_memory_orders_agree():
    s, _, listed = simulated(3, -2, 0.2, (300, 4))
    expected = calibrate(s, listed)
    for form in (listed.astype(np.uint8), listed.astype(float), np.asfortranarray(listed)):
        assert calibrate(s, form) == expected
    assert calibrate(np.asfortranarray(s), listed) == expected


def test_rows_are_thinned_where_there_are_many(monkeypatch):
    s, _, listed = simulated(3, -2, 0.2)
    monkeypatch.setattr(calibration, "_MOST_CELLS", s.size // 5)
    thinned = calibrate(s, listed)
    assert thinned.noise_rate == pytest.approx(0.2, abs=0.03)
    monkeypatch.undo()
    assert thinned == calibrate(s[::5], listed[::5])
    assert thinned != calibrate(s, listed)


@given(st.floats(0, 1), st.floats(0, 1))
def test_posterior_is_bayes_rule(p, rate):
    got = posterior(np.array([p]), rate)[0]
    assert 0 <= got <= 1
    if p > 1e-30:
        assert got == pytest.approx(p / (p + (1 - p) * rate))
        assert got >= p - 1e-12


def test_posterior_extremes():
    p = np.array([0.0, 0.3, 1.0])
    assert posterior(p, 0.0).tolist() == [0, 1, 1]
    np.testing.assert_allclose(posterior(p, 1.0), p)
    assert posterior(p, 0.5)[[0, 2]].tolist() == [0, 1]
    np.testing.assert_allclose(posterior(np.full(2, 0.5), np.array([1.0, 0.25])), [0.5, 0.8])


def test_confidence_is_zero_outside_the_candidates():
    fitted = Calibration(slope=2.0, offset=0.0, noise_rate=0.25)
    s = np.array([[0.0, 0.0], [1.0, -1.0]])
    confidence = fitted.confidence(s, np.array([[1, 0], [0, 1]]))
    assert confidence[0].tolist() == [0.8, 0]
    assert confidence[1, 0] == 0
    assert confidence[1, 1] == pytest.approx(posterior(expit(-2.0), 0.25))
