import numpy as np

from schirn import find_noisy_labels
from schirn.cleaning.law import wrong_shares


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


def test_shares_of_wrong_tags_follow_the_order_of_the_scores():
    wrong = np.r_[0.1, 0.2, np.full(20, 0.8)]
    scores, listed = scored(np.repeat([800, 60], [2, 20]), wrong)
    shares = wrong_shares(scores, listed, *np.nonzero(listed))
    np.testing.assert_allclose(shares, np.r_[0.15, 0.15, np.full(20, 0.8)], atol=0.06)
    # Any rising function of the scores tells the same.
    again = wrong_shares(np.exp(scores), listed, *np.nonzero(listed))
    np.testing.assert_allclose(again, shares)


def test_labels_as_frequent_share_their_tags():
    scores, listed = scored([60, 60, 60], [0.0, 0.5, 1.0])
    shares = wrong_shares(scores, listed, *np.nonzero(listed))
    assert np.ptp(shares) == 0
    # Tags that are not counted change nothing, and their label is as good as others.
    row, column = np.nonzero(listed[:, :2])
    np.testing.assert_allclose(wrong_shares(scores, listed, row, column)[:2], 0.25, atol=0.1)


def test_scores_at_the_median_count_half():
    listed = np.zeros((40, 1), dtype=np.uint8)
    listed[:20] = 1
    assert wrong_shares(np.ones((40, 1)), listed, *np.nonzero(listed)) == 1


def test_wrong_tags_of_rare_labels_are_suspicious():
    # Two frequent labels that the features tell, and rare ones that are listed at random.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 8))
    tags = np.c_[X[:, :2] > 0, np.zeros((600, 30))].astype(np.uint8)
    tags[np.arange(600), rng.integers(2, 32, size=600)] = 1
    ranking = find_noisy_labels(X, tags)
    is_rare = ranking.column >= 2
    assert ranking.confidence[is_rare].max() < np.median(ranking.confidence[~is_rare])
