"""How much of the claimed noise is believed."""

import numpy as np
import pytest
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
        assert found.factors.shape == (3,)
        assert found.apply(np.array([0.0, 1.0]), np.array([0, 2])).min() >= 0.9


def test_the_order_of_the_labels_does_not_matter():
    rng = np.random.RandomState(0)
    z, crowd = 3 * rng.randn(300, 5), rng.rand(300, 1)
    Y = (rng.rand(300, 5) < 0.3 + 0.4 * crowd).astype(float)
    Q = np.where(crowd > 0.7, 0.2, 0.9) * Y
    order = np.array([3, 0, 4, 2, 1])
    found, other = caution(z, Y, Q, 0.2), caution(z[:, order], Y[:, order], Q[:, order], 0.2)
    np.testing.assert_allclose(other.factors, found.factors[order])
