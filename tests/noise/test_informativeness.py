"""Whether the features say anything about the labels."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from schirn.noise.informativeness import cell_aucs, informativeness, label_aucs


@pytest.fixture
def scored():
    rng = np.random.default_rng(0)
    listed = (rng.random((300, 4)) < 0.3).astype(int)
    return rng.normal(size=listed.shape) + [0.0, 0.5, 2.0, 5.0] * listed, listed


@pytest.mark.parametrize("digits", [0, 8], ids=["ties", "no ties"])
def test_aucs_are_those_of_scikit_learn(scored, digits):
    scores = scored[0].round(digits)
    listed = scored[1]
    expected = [roc_auc_score(y, s) for y, s in zip(listed.T, scores.T, strict=True)]
    dense = label_aucs(scores, listed)
    np.testing.assert_allclose(dense.auc, expected)
    row, label = np.nonzero(listed)
    others, unlisted = np.nonzero(listed == 0)
    cells = cell_aucs(label, scores[row, label], unlisted, scores[others, unlisted], 4)
    for found, wanted in zip(cells, dense, strict=True):
        np.testing.assert_allclose(found, wanted)
    assert dense.mean() == pytest.approx(np.average(expected, weights=listed.sum(axis=0)))


def test_labels_of_few_rows_are_drawn_to_the_mean():
    rng = np.random.default_rng(0)
    listed = np.zeros((400, 3), dtype=int)
    listed[:150, 0] = 1
    listed[:150, 1] = 1
    listed[:2, 2] = 1
    scores = rng.normal(size=listed.shape) + [3.0, 0.0, -3.0] * listed
    aucs = label_aucs(scores, listed)
    drawn = aucs.drawn()
    np.testing.assert_allclose(drawn[:2], aucs.auc[:2], atol=0.02)
    assert drawn[2] > aucs.auc[2] + 0.1


def test_labels_that_differ_by_chance_are_one(scored):
    rng = np.random.default_rng(1)
    drawn = label_aucs(rng.normal(size=(300, 4)), scored[1]).drawn()
    assert np.ptp(drawn) < 0.02


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
        aucs = label_aucs(rng.normal(size=listed.shape) + listed, listed)
        assert room < aucs.mean() - aucs.least_mean() < 10 * room


def test_without_a_pair_nothing_is_said():
    for listed in (np.zeros((5, 2)), np.ones((5, 2)), np.zeros((0, 2))):
        aucs = label_aucs(np.zeros(listed.shape), listed)
        assert aucs.mean() == 0.5
        np.testing.assert_array_equal(aucs.drawn(), [0.5, 0.5])
        assert informativeness(aucs.mean(), share=1.0) == 0
