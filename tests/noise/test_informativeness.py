"""Whether the features say anything about the labels."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from schirn.noise.informativeness import cell_aucs, informativeness


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    listed = (rng.random((300, 4)) < 0.3).astype(int)
    return rng.normal(size=listed.shape) + [0.0, 0.5, 2.0, 5.0] * listed, listed


def aucs_of(scores, listed):
    """AUCs of a matrix of scores."""
    row, label = np.nonzero(listed)
    others, unlisted = np.nonzero(listed == 0)
    return cell_aucs(label, scores[row, label], unlisted, scores[others, unlisted], listed.shape[1])


@pytest.mark.parametrize("digits", [0, 8], ids=["ties", "no ties"])
def test_aucs_are_those_of_scikit_learn(scored, digits):
    scores = scored[0].round(digits)
    listed = scored[1]
    expected = [roc_auc_score(y, s) for y, s in zip(listed.T, scores.T, strict=True)]
    aucs = aucs_of(scores, listed)
    np.testing.assert_allclose(aucs.auc, expected)
    np.testing.assert_array_equal(aucs.n_listed, listed.sum(axis=0))
    np.testing.assert_array_equal(aucs.n_unlisted, (listed == 0).sum(axis=0))
    assert aucs.mean() == pytest.approx(np.average(expected, weights=listed.sum(axis=0)))


def test_standard_errors_are_those_of_uninformative_scores():
    rng = np.random.default_rng(0)
    listed = (np.arange(60) < 20).astype(int)[:, None]
    draws = [aucs_of(rng.normal(size=listed.shape), listed).auc[0] for _ in range(2000)]
    error = aucs_of(np.zeros(listed.shape), listed).standard_errors()[0]
    assert np.std(draws) == pytest.approx(error, rel=0.1)


def test_the_range_of_aucs_can_be_chosen():
    assert informativeness(0.6) == 0
    assert informativeness(0.65, auc_range=(0.5, 0.8)) == pytest.approx(0.5)


def test_wrong_labels_hide_what_the_features_say(scored):
    """Of labels that score perfectly and are half wrong, the AUC is three quarters."""
    assert informativeness(0.75, share=0.5) == 1
    assert informativeness(0.75) == 0
    assert 0 < informativeness(0.82) < informativeness(0.88) < 1
    np.testing.assert_array_equal(informativeness(np.array([0.5, 0.99])), [0, 1])


def test_what_few_rows_measure_may_be_chance():
    rng = np.random.default_rng(0)
    for n, room in ((20, 0.05), (20_000, 0.001)):
        listed = rng.random((n, 2)) < 0.3
        aucs = aucs_of(rng.normal(size=listed.shape) + listed, listed)
        assert room < aucs.mean() - aucs.least_mean() < 10 * room


def test_without_a_pair_nothing_is_said():
    for listed in (np.zeros((5, 2)), np.ones((5, 2)), np.zeros((0, 2))):
        aucs = aucs_of(np.zeros(listed.shape), listed)
        assert aucs.mean() == 0.5
        assert aucs.least_mean() <= 0.5
        assert informativeness(aucs.mean(), share=1.0) == 0
