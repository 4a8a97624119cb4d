import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

from schirn.cleaning import TextRanker, find_noisy_labels
from schirn.cleaning._text_ranker import ExpertSum
from schirn.datasets import add_noise
from schirn.features import TextFeatures

WORDS = [f"w{k}" for k in range(60)]


@pytest.fixture(scope="module")
def table():
    """Texts with two words for each of their tags; one wrong tag per row, some tags dropped."""
    rng = np.random.default_rng(0)
    truth = np.zeros((600, 12), dtype=np.uint8)
    texts = []
    for i in range(600):
        labels = rng.choice(12, rng.integers(1, 4), replace=False)
        truth[i, labels] = 1
        topical = [f"t{j}{rng.choice(list('abc'))}" for j in np.repeat(labels, 2)]
        texts.append(" ".join([*topical, *rng.choice(WORDS, 5)]))
    listed = add_noise(truth, 1, random_state=0)
    listed[(rng.random(listed.shape) < 0.1) & (truth == 1)] = 0
    return texts, listed, truth


@pytest.fixture(scope="module")
def ranking(table):
    texts, listed, _ = table
    return find_noisy_labels(texts, listed, method=TextRanker())


def test_wrong_and_missing_tags_are_ranked(table, ranking):
    _, listed, truth = table
    right = truth[ranking.row, ranking.column]
    assert roc_auc_score(right, ranking.confidence) > 0.97
    missing = ranking.missing
    assert len(missing.row) == listed.sum()
    assert not listed[missing.row, missing.column].any()
    score = np.zeros(listed.shape)
    score[missing.row, missing.column] = missing.confidence
    assert roc_auc_score(truth[listed == 0], score[listed == 0]) > 0.97
    assert np.median(ranking.ranked.planted_confidence) < np.median(ranking.confidence)


def test_no_row_takes_part_in_its_own_scores():
    # A label that one group of copies lists, and no other row: nobody vouches for it.
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, 6)) for _ in range(200)]
    texts[100:110] = ["zebra " + texts[100]] * 10
    listed = np.zeros((200, 3), dtype=np.uint8)
    listed[:, :2] = rng.random((200, 2)) < 0.4
    listed[:100:20, 2] = 1
    listed[100:110, 2] = 1
    ranking = find_noisy_labels(texts, listed)
    of_copies = (ranking.column == 2) & (ranking.row >= 100)
    others = (ranking.column == 2) & (ranking.row < 100)
    assert ranking.confidence[of_copies].max() < ranking.confidence[others].max() + 0.1
    # Without copies, the rows vouch for each other.
    for i in range(100, 110):
        texts[i] = " ".join(["zebra", *rng.choice(WORDS, 6)])
    ranking = find_noisy_labels(texts, listed)
    assert ranking.confidence[of_copies].min() > ranking.confidence[others].max()


def test_the_scale_of_the_rows_makes_no_difference(table, ranking):
    texts, listed, _ = table
    X = TextFeatures().fit_transform(texts)
    for factor in (1.0, 0.01, 100.0):
        scaled = find_noisy_labels(factor * X, listed, method=TextRanker())
        np.testing.assert_allclose(scaled.confidence, ranking.confidence, atol=1e-3)


def test_known_wrong_tags_are_not_learned_and_groups_share_a_fold(table):
    texts, listed, truth = table
    known = np.where(listed == 1, np.where(truth == 1, 1, -1), 0)
    known[300:] = 0
    ranking = find_noisy_labels(texts, listed, method=TextRanker(), known=known)
    later = ranking.row >= 300
    right = truth[ranking.row, ranking.column]
    assert roc_auc_score(right[later], ranking.confidence[later]) > 0.97
    # Copies with the same wrong tag do not vouch for each other.
    copies = np.r_[np.arange(600), np.repeat(np.arange(20), 3)]
    doubled = find_noisy_labels([texts[i] for i in copies], listed[copies], method=TextRanker())
    first = doubled.row < 20
    right = truth[doubled.row[first], doubled.column[first]]
    assert roc_auc_score(right, doubled.confidence[first]) > 0.95


def test_texts_are_ranked_by_it(table, ranking):
    texts, listed, _ = table
    for options in ({}, {"groups": np.arange(600)}, {"random_state": 1}):
        default = find_noisy_labels(texts, listed, **options)
        assert default.method == "TextRanker"
        np.testing.assert_array_equal(default.confidence, ranking.confidence)
    # So are weights of words that somebody else has made; counts are not.
    weights = TfidfVectorizer().fit_transform(texts)
    assert find_noisy_labels(weights, listed).method == "TextRanker"
    assert find_noisy_labels(sp.csr_array(2 * np.eye(600)), listed).method == "Sieve"
    assert find_noisy_labels(texts, listed, method="Sieve").method == "Sieve"


def test_tags_that_occur_together_help():
    # The second label follows from the first one, which the text tells; noise hides the third.
    rng = np.random.default_rng(0)
    first = rng.random(500) < 0.4
    truth = np.c_[first, first, rng.random(500) < 0.4].astype(np.uint8)
    texts = [
        " ".join([f"yes{i % 9}" if f else "no", *rng.choice(WORDS, 4)]) for i, f in enumerate(first)
    ]
    listed = truth | (rng.random(truth.shape) < [0.0, 0.3, 0.3])
    ranking = find_noisy_labels(texts, listed)
    of_second = ranking.column == 1
    right = truth[ranking.row, ranking.column]
    assert roc_auc_score(right[of_second], ranking.confidence[of_second]) > 0.97


def test_tags_too_rare_to_be_judged(table):
    texts, listed, _ = table
    rare = np.zeros((600, 1), dtype=np.uint8)
    rare[:3] = 1
    ranking = find_noisy_labels(texts, np.hstack([listed, rare]), method=TextRanker())
    assert not ranking.judged[ranking.column == 12].any()
    assert ranking.judged[ranking.column < 12].all()
    nothing = find_noisy_labels(texts, rare, method=TextRanker())
    assert not nothing.judged.any()


def test_tags_of_rare_labels_are_suspicious_where_wrong_tags_fall_on_all_labels_alike():
    rng = np.random.default_rng(1)
    truth = (rng.random((600, 40)) < 2.0 ** np.linspace(-1.5, -7, 40)).astype(np.uint8)
    texts = []
    for labels in map(np.flatnonzero, truth):
        # Half of the correct tags leave a trace in the text.
        traces = [f"t{j}{rng.choice(list('abcd'))}" for j in labels if rng.random() < 0.5]
        texts.append(" ".join([*traces, *rng.choice(WORDS, 8)]))
    listed = add_noise(truth, 1, random_state=0)
    ranking = find_noisy_labels(texts, listed, method=TextRanker())
    right = truth[ranking.row, ranking.column]
    assert roc_auc_score(right, ranking.confidence) > 0.78


def test_a_sum_of_experts_has_the_given_spread():
    first, second = np.random.default_rng(0).normal((3, -50), (2, 10), (400, 2)).T
    both = ExpertSum([first, second], 5.0)
    total = both([first, second])
    np.testing.assert_allclose(total.std(), 5)
    # Each counts in units of its spread.
    steps = [both([first + first.std(), second]), both([first, second + second.std()])] - total
    np.testing.assert_allclose(steps[0], steps[1])
    np.testing.assert_allclose(both([first, second], 0.5), total + 2.5)
    one = ExpertSum([first], first.std())
    np.testing.assert_allclose(one([first]), first)
    same = np.zeros(5)
    np.testing.assert_array_equal(ExpertSum([same, same], 0.0)([same, same]), 0)


def test_labels_that_no_text_mentions_are_not_the_most_suspicious():
    rng = np.random.default_rng(0)
    truth = (rng.random((900, 12)) < 0.2).astype(np.uint8)
    # Nothing in the texts tells the last four labels.
    texts = [
        " ".join(
            [*(f"t{j}{rng.choice(list('ab'))}" for j in labels if j < 8), *rng.choice(WORDS, 5)]
        )
        for labels in map(np.flatnonzero, truth)
    ]
    listed = add_noise(truth, 1, random_state=0)
    ranking = find_noisy_labels(texts, listed)
    suspects = ranking.suspects(200)
    told = suspects.column < 8
    assert told.mean() > 0.9
    assert truth[suspects.row, suspects.column][told].mean() < 0.1


def test_a_few_more_rows_change_few_of_the_most_suspicious_tags(table):
    texts, listed, _ = table
    few, all_rows = find_noisy_labels(texts[:570], listed[:570]), find_noisy_labels(texts, listed)
    tops = []
    for ranking in (few, all_rows):
        order = np.argsort(np.where(ranking.row < 570, ranking.confidence, np.inf))[:100]
        tops.append(
            set(zip(ranking.row[order].tolist(), ranking.column[order].tolist(), strict=True))
        )
    assert len(tops[0] & tops[1]) >= 85


@pytest.mark.parametrize("labels", [1, 2])
def test_one_label_empty_texts_and_rows_without_tags(labels):
    texts = ["red pan", "", "blue pan", "red chair", None, "green chair"] * 10
    listed = np.zeros((60, labels), dtype=np.uint8)
    listed[::3, 0] = 1
    listed[5::7, -1] = 1
    ranking = find_noisy_labels(texts, listed)
    assert np.isfinite(ranking.confidence).all()
    assert np.isfinite(ranking.missing.confidence).all()
