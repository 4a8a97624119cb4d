"""How much of the claimed noise is believed."""

import numpy as np
import pytest
from reference.caution import plain_caution
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from schirn.noise.caution import caution
from schirn.noise.model import NoiseModel, candidate_posterior


def judged(P, Y, rate):
    """Caution and cautious confidences (n, l) of probabilities P under plain Bayes."""
    Q = candidate_posterior(P, Y, NoiseModel.independent(rate, Y.shape[1])).Q
    found = caution(logit(P), Y, Q, rate)
    i, j = np.nonzero(Y)
    confidence = np.zeros(Y.shape)
    confidence[i, j] = found.apply(Q[i, j], j)
    return found, Q, confidence


@pytest.mark.parametrize("seed", range(8))
def test_equals_the_plain_transcription(seed):
    rng = np.random.default_rng(seed)
    n, l = 120, 6
    Y = (rng.random((n, l)) < rng.uniform(0.15, 0.6, l)).astype(float)
    # Labels that few rows list, or do not list; five are enough.
    Y[:, 0], Y[:, 1] = np.arange(n) < 4 + seed % 2, np.arange(n) >= 5 - seed % 2
    strength, crowd = rng.uniform(0, 6, l), rng.random((n, 1)) > 0.8
    z = (rng.normal(size=Y.shape) + strength * (Y - 0.5)).round(int(rng.integers(0, 3)))
    # Some scores are all but certain, and once nothing is claimed to be wrong.
    z *= 1 + 9 * (seed % 2)
    Q = np.clip(rng.uniform(0.5, 1, Y.shape) - 0.4 * (seed % 3) * crowd, 0, 1) * Y
    Q = Y if seed == 3 else Q
    rate = rng.uniform(0.05, 0.6)
    found = caution(z, Y, Q, rate)
    factors, separation = plain_caution(z, Y, Q, rate)
    np.testing.assert_allclose(found.factors, factors, rtol=1e-9)
    assert found.separation == pytest.approx(separation)


def test_of_many_rows_every_kth_decides(monkeypatch):
    rng = np.random.default_rng(0)
    Y = (rng.random((300, 4)) < 0.4).astype(float)
    z, Q = rng.normal(size=Y.shape) + 1.1 * Y, 0.9 * Y
    monkeypatch.setattr("schirn.noise.caution.JUDGED_ROWS", 100)
    found, expected = caution(z, Y, Q, 0.2), caution(z[::3], Y[::3], Q[::3], 0.2)
    np.testing.assert_array_equal(found.factors, expected.factors)
    assert found.separation == expected.separation
    monkeypatch.undo()
    assert caution(z, Y, Q, 0.2).separation != found.separation


@pytest.fixture
def strong():
    """Labels that the features explain well, with a quarter of the false ones listed."""
    rng = np.random.RandomState(0)
    P = np.clip(expit(6 * rng.randn(1500, 8) - 4), 1e-4, 1 - 1e-4)
    T = rng.rand(*P.shape) < P
    return P, T, (T | (rng.rand(*P.shape) < 0.25)).astype(float)


def test_strong_features_are_believed(strong):
    P, T, Y = strong
    found, _, confidence = judged(P, Y, 0.25)
    assert found.factors.min() > 0.9
    removed = (Y == 1) & (confidence < 0.5)
    assert (~T[removed]).mean() > 0.9
    assert removed[(Y == 1) & ~T].mean() > 0.85


def test_random_scores_are_not_believed(strong):
    _, _, Y = strong
    P = np.clip(expit(np.random.RandomState(1).randn(*Y.shape) - 2), 1e-4, 1 - 1e-4)
    found, _, confidence = judged(P, Y, 0.4)
    assert found.factors.max() < 0.1
    assert not ((Y == 1) & (confidence < 0.5)).any()


def test_scores_that_say_the_opposite_separate_nothing(strong):
    P, _, Y = strong
    found = caution(-logit(P), Y, 0.5 * Y, 0.25)
    assert found.separation == 0
    assert found.factors.tolist() == [0.02] * 8


def test_one_label_that_the_features_do_not_describe_is_left_alone(strong):
    P, _, Y = strong
    rng = np.random.RandomState(2)
    P, Y = P.copy(), Y.copy()
    Y[:, 0] = rng.rand(len(Y)) < 0.4
    P[:, 0] = 0.19 + 0.02 * rng.rand(len(Y))
    found, _, confidence = judged(P, Y, 0.25)
    assert found.factors[0] <= 0.5
    assert found.factors[1:].min() > 0.8
    assert not (confidence[Y[:, 0] == 1, 0] < 0.5).any()


def test_wrong_labels_that_crowd_in_a_few_rows_are_not_believed(strong):
    P, _, _ = strong
    rng = np.random.RandomState(3)
    rows = rng.rand(len(P)) < 0.15
    T = rng.rand(*P.shape) < P
    Y = (T | (rows[:, None] & (rng.rand(*P.shape) < 0.6))).astype(float)
    rate = float(Y[~T].mean())
    crowded, _, _ = judged(P, Y, rate)
    spread = (T | (rng.rand(*P.shape) < rate)).astype(float)
    assert crowded.factors.max() < 0.6
    assert judged(P, spread, rate)[0].factors.min() > 0.8


def test_the_order_within_a_label_stays(strong):
    P, _, Y = strong
    weak = np.clip(P * 0.2 + 0.1, 1e-4, 1 - 1e-4)
    _, Q, confidence = judged(weak, Y, 0.25)
    for j in range(Y.shape[1]):
        rows = Y[:, j] == 1
        assert np.all(np.diff(confidence[rows, j][np.argsort(Q[rows, j])]) >= -1e-12)


@pytest.mark.parametrize("digits", [0, 8], ids=["ties", "no ties"])
def test_separation_is_that_of_the_auc(digits):
    """Of three labels with a fifth of the candidates wrong; equal scores count half."""
    rng = np.random.default_rng(0)
    Y = (rng.random((400, 3)) < 0.3).astype(float)
    z = (rng.normal(size=Y.shape) + 1.1 * Y).round(digits)
    auc = [roc_auc_score(y, scores) for y, scores in zip(Y.T, z.T, strict=True)]
    auc = np.average(auc, weights=Y.sum(axis=0))
    expected = ((auc - 0.1) / 0.8 - 0.7) / 0.15
    assert 0 < expected < 1
    assert caution(z, Y, np.full(Y.shape, 0.8), 0.1).separation == pytest.approx(expected)


def test_nothing_to_judge():
    for Y in (np.zeros((10, 3)), np.ones((10, 3)), np.zeros((0, 3))):
        found = caution(np.zeros(Y.shape), Y, Y, 0.3)
        assert found.factors.tolist() == [0.02] * 3
        assert found.separation == 0
        assert found.apply(np.array([0.0, 1.0]), np.array([0, 2])).min() >= 0.9


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_that_says_nothing(strong, rate):
    P, _, Y = strong
    found = caution(logit(P), Y, 0.5 * Y, rate)
    assert found.factors.tolist() == [0.02] * 8
    assert found.separation == 0


def test_the_order_of_the_labels_does_not_matter():
    rng = np.random.RandomState(0)
    z, crowd = 3 * rng.randn(300, 5), rng.rand(300, 1)
    Y = (rng.rand(300, 5) < 0.3 + 0.4 * crowd).astype(float)
    Q = np.where(crowd > 0.7, 0.2, 0.9) * Y
    order = np.array([3, 0, 4, 2, 1])
    found, other = caution(z, Y, Q, 0.2), caution(z[:, order], Y[:, order], Q[:, order], 0.2)
    np.testing.assert_allclose(other.factors, found.factors[order])
