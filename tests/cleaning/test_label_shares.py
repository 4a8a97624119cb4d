import numpy as np
import pytest

from schirn import find_noisy_labels
from schirn.cleaning.label_shares import is_below, label_shares, shares_by_scores


def scored(counts, wrong, n_rows=2000, seed=0):
    """Scores (n, l): 3 for correct tags, 0 for all other cells, with normal noise."""
    rng = np.random.default_rng(seed)
    listed = np.zeros((n_rows, len(counts)), dtype=np.uint8)
    scores = rng.normal(size=listed.shape)
    for j, (count, share) in enumerate(zip(counts, wrong, strict=True)):
        rows = rng.choice(n_rows, count, replace=False)
        listed[rows, j] = 1
        scores[rows[round(share * count) :], j] += 3
    return scores, listed


def test_shares_of_wrong_tags_are_estimated_from_the_order_of_the_scores():
    counts, wrong = np.repeat([800, 60], [2, 20]), np.r_[0.1, 0.5, np.full(20, 0.8)]
    scores, listed = scored(counts, wrong)
    shares = shares_by_scores(scores, listed, *np.nonzero(listed))
    np.testing.assert_allclose(shares.each, wrong, atol=0.15)
    assert shares.total == pytest.approx((counts * wrong).sum() / counts.sum(), abs=0.05)
    # Any rising function of the scores tells the same.
    again = shares_by_scores(np.exp(scores), listed, *np.nonzero(listed))
    np.testing.assert_allclose(again.each, shares.each)
    assert (shares.log_odds[2:] < 0).all()
    assert shares.log_odds[0] > 0


def test_few_tags_are_pulled_towards_labels_as_frequent():
    scores, listed = scored([30] * 40, [0.5] * 40)
    shares = shares_by_scores(scores, listed, *np.nonzero(listed))
    row, column = np.nonzero(listed)
    below = is_below(scores[row, column], np.zeros(len(row)))
    plain = 2 * np.bincount(column, below) / 30
    assert np.std(shares.each) < 0.5 * np.std(plain)


def test_a_label_without_tags_gets_the_share_of_its_group():
    below, label = np.array([0.0, 1.0, 0.0, 0.0, 0.5]), np.array([0, 0, 1, 1, 1])
    shares = label_shares(below, label, np.array([9, 9, 9]))
    assert shares.each[2] == shares.groups[shares.group[2]] == pytest.approx(2 * 1.5 / 5)


def test_wrong_tags_of_rare_labels_are_suspicious():
    # Two frequent labels that the features tell, and rare ones that are listed at random.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    tags = np.c_[X[:, :2] > 0, np.zeros((600, 30))].astype(np.uint8)
    tags[np.arange(600), rng.integers(2, 32, size=600)] = 1
    ranking = find_noisy_labels(X, tags)
    is_rare = ranking.column >= 2
    assert ranking.confidence[is_rare].max() < np.median(ranking.confidence[~is_rare])
