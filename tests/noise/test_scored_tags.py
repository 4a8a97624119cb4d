import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.metrics import roc_auc_score

from schirn import find_noisy_labels
from schirn.labels.tags import Tags
from schirn.noise.scored_tags import (
    ScoredCells,
    fit_score_model,
    label_informativeness,
    listing_rates,
    sample_unlisted,
    unclaimed_shares,
)


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


def wrong_shares(scores, listed, row, column):
    """Shares of wrong tags where every tag is believed."""
    return unclaimed_shares(scores, listed, row, column, np.ones(len(row)))


def test_shares_of_wrong_tags_follow_the_order_of_the_scores():
    wrong = np.r_[0.1, 0.2, np.full(20, 0.8)]
    scores, listed = scored(np.repeat([800, 60], [2, 20]), wrong)
    shares = wrong_shares(scores, listed, *np.nonzero(listed))
    np.testing.assert_allclose(shares, np.r_[0.15, 0.15, np.full(20, 0.8)], atol=0.06)
    # Any rising function of the scores tells the same.
    again = wrong_shares(np.exp(scores), listed, *np.nonzero(listed))
    np.testing.assert_allclose(again, shares)


def test_confidences_that_claim_the_wrong_tags_leave_nothing():
    wrong = np.r_[0.1, 0.2, np.full(20, 0.8)]
    scores, listed = scored(np.repeat([800, 60], [2, 20]), wrong)
    row, column = np.nonzero(listed)
    right = scores[row, column] > 1.5
    np.testing.assert_allclose(unclaimed_shares(scores, listed, row, column, right), 0, atol=0.08)
    # Confidences that claim too much give negative shares.
    too_low = unclaimed_shares(scores, listed, row, column, np.zeros(len(row)))
    np.testing.assert_allclose(too_low, wrong_shares(scores, listed, row, column) - 1)


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


def generated(counts, wrong, n_unlisted=50, seed=0):
    """Cells of some labels, scored like those of `scored`, and which tags are correct."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(len(counts)), counts)
    correct = rng.random(len(label)) >= np.repeat(wrong, counts)
    unlisted_label = np.repeat(np.arange(len(counts)), np.maximum(counts, n_unlisted))
    score, unlisted = rng.normal(3 * correct), rng.normal(size=len(unlisted_label))
    return ScoredCells(label, score, unlisted_label, unlisted), correct


def transformed(cells, function):
    """The same cells with other scores."""
    return ScoredCells(
        cells.label, function(cells.score), cells.unlisted_label, function(cells.unlisted_score)
    )


@pytest.mark.parametrize("share", [0.2, 0.7])
def test_the_law_tells_the_share_of_wrong_tags_and_how_likely_each_is(share):
    cells, correct = generated(np.full(200, 50), np.full(200, share))
    law = fit_score_model(cells, 200)
    np.testing.assert_allclose(law.typical_shares, share, atol=0.04)
    # Labels that do not differ have shares that hardly differ.
    np.testing.assert_allclose(law.shares, share, atol=0.1)
    p = expit(law.log_odds(cells.score, cells.label))
    order = np.argsort(p)
    for part in np.array_split(order, 8):
        assert p[part].mean() == pytest.approx(correct[part].mean(), abs=0.1)
    # Both densities are known, and so are the odds. Low ones are differences of similar numbers.
    scores = np.linspace(1.25, 2.5, 7)
    known = 3 * scores - 4.5 + np.log((1 - share) / share)
    np.testing.assert_allclose(law.log_odds(scores, np.zeros(7, dtype=int)), known, atol=1.2)


def test_rare_and_frequent_labels_have_their_own_law():
    counts, wrong = np.repeat([8, 500], [300, 10]), np.repeat([0.7, 0.1], [300, 10])
    cells, correct = generated(counts, wrong)
    law = fit_score_model(cells, len(counts))
    np.testing.assert_allclose(law.typical_shares, wrong, atol=0.06)
    p = expit(law.log_odds(cells.score, cells.label))
    for labels in (cells.label < 300, cells.label >= 300):
        assert p[labels].mean() == pytest.approx(correct[labels].mean(), abs=0.08)


def test_the_law_follows_the_order_of_the_scores():
    cells, _ = generated(np.repeat([400, 30], [5, 60]), np.repeat([0.2, 0.6], [5, 60]))
    expected = fit_score_model(cells, 65).log_odds(cells.score, cells.label)
    for function in (lambda s: 5 * s - 2, np.exp, np.arctan):
        again = transformed(cells, function)
        log_odds = fit_score_model(again, 65).log_odds(again.score, again.label)
        # Ratios are interpolated between scores, where the function bends them.
        assert np.quantile(np.abs(log_odds - expected), 0.99) < 0.2
    order = np.lexsort((cells.score, cells.label))
    same = np.diff(cells.label[order]) == 0
    assert (np.diff(expected[order])[same] >= 0).all()


def test_own_shares_follow_labels_that_differ():
    wrong = np.tile([0.1, 0.7], 20)
    cells, _ = generated(np.full(40, 300), wrong, n_unlisted=300)
    law = fit_score_model(cells, 40)
    np.testing.assert_allclose(law.typical_shares, 0.4, atol=0.03)
    np.testing.assert_allclose(law.shares, wrong, atol=0.25)
    # The same score tells more where fewer tags are wrong.
    good, bad = law.log_odds(np.ones(2), np.arange(2))
    assert good > bad + 1


def no_cells():
    return np.zeros(0, dtype=np.int64), np.zeros(0)


@pytest.mark.parametrize(
    "cells",
    [
        ScoredCells(*no_cells(), *no_cells()),
        ScoredCells(*no_cells(), np.arange(3), np.arange(3.0)),
        ScoredCells(np.arange(3), np.arange(3.0), *no_cells()),
        # Tags of one label, cells of another.
        ScoredCells(
            np.zeros(2, dtype=np.int64), np.ones(2), np.ones(2, dtype=np.int64), np.zeros(2)
        ),
    ],
)
def test_with_nothing_to_compare_all_scores_tell_the_same(cells):
    law = fit_score_model(cells, 3)
    log_odds = law.log_odds(np.array([-1.0, 0.0, 5.0]), np.arange(3))
    assert np.isfinite(log_odds).all()
    assert np.ptp(log_odds) == 0


def test_a_label_without_cells_to_compare_changes_nothing_for_others():
    cells, _ = generated([80, 80], [0.3, 0.3])
    more = ScoredCells(
        np.r_[cells.label, np.full(40, 2)],
        np.r_[cells.score, np.full(40, -9.0)],
        cells.unlisted_label,
        cells.unlisted_score,
    )
    alone, law = fit_score_model(cells, 3), fit_score_model(more, 3)
    expected = alone.log_odds(cells.score, cells.label)
    np.testing.assert_array_equal(law.log_odds(cells.score, cells.label), expected)


@pytest.mark.parametrize("counts", [[1], [40], [5, 0, 30]])
def test_equal_scores_leave_only_the_shares(counts):
    cells, _ = generated(counts, np.zeros(len(counts)))
    cells = transformed(cells, np.zeros_like)
    law = fit_score_model(cells, len(counts))
    # All tags are at the median, like rows that do not list the label.
    np.testing.assert_allclose(law.shares, 0.99)
    labels = np.arange(len(counts))
    log_odds = law.log_odds(np.zeros(len(counts)), labels)
    np.testing.assert_allclose(expit(log_odds), 0.01, atol=1e-3)


def tags_of(listed):
    row, column = np.nonzero(listed)
    return Tags(row, column, len(listed), [f"tag {j}" for j in range(listed.shape[1])])


def test_sampled_cells_are_not_listed():
    rng = np.random.default_rng(0)
    listed = rng.random((300, 12)) < np.linspace(0.02, 0.95, 12)
    listed[:, 3] = True
    columns = np.array([0, 3, 5, 11])
    row, column = sample_unlisted(tags_of(listed), columns, 20)
    assert not listed[row, column].any()
    counts, n_tags = np.bincount(column, minlength=12), listed.sum(axis=0)
    assert n_tags[0] < 20 < n_tags[5]
    assert counts[[0, 5]].tolist() == [20, n_tags[5]]
    # Hardly any row lacks the last label, and none the one that all rows list.
    assert 20 < counts[11] <= n_tags[11]
    assert counts.sum() == counts[[0, 5, 11]].sum()
    # All rows without the label are as likely.
    rows = np.bincount(row[column == 5], minlength=300)
    assert rows.max() < 10
    assert row[column == 5].mean() == pytest.approx(150, abs=25)


def test_sampled_cells_hardly_change_with_a_few_more_rows():
    rng = np.random.default_rng(0)
    listed = rng.random((1050, 30)) < 0.1
    columns = np.arange(30)
    before = sample_unlisted(tags_of(listed[:1000]), columns, 20)
    # No seed, and nothing that an earlier call left behind.
    again = sample_unlisted(tags_of(listed[:1000]), columns, 20)
    np.testing.assert_array_equal(again, before)
    after = sample_unlisted(tags_of(listed), columns, 20)
    first, second = (
        set(zip(row.tolist(), column.tolist(), strict=True)) for row, column in (before, after)
    )
    assert len(first & second) > 0.9 * len(first)
    assert any(row >= 1000 for row, _ in second)
    # A label is sampled alone as it is with others.
    row, _ = sample_unlisted(tags_of(listed), columns[7:8], 20)
    np.testing.assert_array_equal(row, after[0][after[1] == 7])


def listed_by_rate(rates, n=4000, seed=0):
    """Cells with the log-odds of being listed, where a third of the rows have each label."""
    rng = np.random.default_rng(seed)
    p = np.where(rng.random((n, len(rates))) < 0.33, 0.7, 1e-3)
    chance = p + (1 - p) * rates
    listed = rng.random(p.shape) < chance
    (row, label), (other, unlisted) = np.nonzero(listed), np.nonzero(~listed)
    cells = ScoredCells(label, logit(chance[row, label]), unlisted, logit(chance[other, unlisted]))
    return cells, listed.sum(axis=0)


def test_labels_that_are_listed_at_random_have_the_higher_rates():
    rates = np.repeat([0.02, 0.15], 10)
    cells, counts = listed_by_rate(rates)
    estimate = listing_rates(cells, counts, 4000)
    assert estimate[10:].min() > 2 * estimate[:10].max()
    # A sample of the unlisted cells tells nearly the same.
    some = np.random.default_rng(1).random(len(cells.unlisted_label)) < 0.1
    sampled = ScoredCells(
        cells.label, cells.score, cells.unlisted_label[some], cells.unlisted_score[some]
    )
    np.testing.assert_allclose(listing_rates(sampled, counts, 4000), estimate, rtol=0.03)


def test_rates_written_out():
    cells, counts = listed_by_rate(np.array([0.02, 0.1, 0.3]), n=60)
    p = expit(cells.score)
    rates = [expit(cells.unlisted_score).mean()] * 3
    for _ in range(3):
        wrong, lacking = [0.0] * 3, [60.0] * 3
        for k, j in enumerate(cells.label):
            q = p[k] / (p[k] + (1 - p[k]) * rates[j])
            wrong[j] += 1 - q
            lacking[j] -= q
        common = sum(wrong) / sum(lacking)
        rates = [(w + 5) / (m + 5 / common) for w, m in zip(wrong, lacking, strict=True)]
    np.testing.assert_allclose(listing_rates(cells, counts, 60), rates)


@pytest.mark.parametrize("cells", [0, 2])
def test_rates_of_labels_without_tags_are_finite(cells):
    label = np.zeros(cells, dtype=np.int64)
    scores = ScoredCells(label, np.zeros(cells), label[:0], np.zeros(0))
    rates = listing_rates(scores, np.array([cells, 0]), 2)
    assert np.isfinite(rates).all()
    assert (rates > 0).all()


def test_labels_are_told_as_far_as_their_scores_separate():
    rng = np.random.default_rng(0)
    apart = np.array([3.0, 0.0, 0.5, 0.0])
    counts = np.array([400, 400, 400, 6])
    label, unlisted = np.repeat(np.arange(4), counts), np.repeat(np.arange(4), 500)
    cells = ScoredCells(label, rng.normal(apart[label]), unlisted, rng.normal(size=2000))
    told = label_informativeness(cells, 5)
    # Few tags have the benefit of the doubt, and so has a label without any.
    np.testing.assert_array_equal(told[[0, 3, 4]], 1)
    assert told[1] < 0.5 < told[2]
    # As scikit-learn counts pairs, also where scores are equal.
    ties = ScoredCells(label, np.round(cells.score), unlisted, np.round(cells.unlisted_score))
    for j in (1, 2):
        scores = [x[y == j] for x, y in ((ties.score, label), (ties.unlisted_score, unlisted))]
        auc = roc_auc_score(np.r_[np.ones(400), np.zeros(500)], np.concatenate(scores))
        doubt = 6 * np.sqrt((1 / 400 + 1 / 500) / 12)
        assert label_informativeness(ties, 4)[j] == pytest.approx((auc + doubt - 0.5) / 0.3)
