import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import roc_auc_score

from schirn import find_noisy_labels
from schirn.cleaning import RankingTask, TextRanker, model_rankers
from schirn.cleaning import find as find_module
from schirn.cleaning.text_ranker import WeightedSum, compared_with_unlisted, fold_scores
from schirn.datasets import add_noise
from schirn.labels.tags import read_tags

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
    assert np.median(ranking.planted_confidence) < np.median(ranking.confidence)


def test_no_row_takes_part_in_its_own_scores(table):
    texts, listed, _ = table
    features = find_module.read_features(texts)[0]

    def scores(tags):
        tags = read_tags(tags, None)
        task = RankingTask(tags, np.arange(12), np.zeros(len(tags.row), dtype=np.int8))
        return fold_scores(features, task, None)

    changed, fold = listed.copy(), np.arange(600) % 5
    changed[np.arange(0, 150, 5), 0] = 0
    change = np.abs(scores(listed) - scores(changed))
    # What fold 0 lists is learned by the models of the other folds alone.
    assert not change[:, fold == 0].any()
    assert change[:, fold != 0, 0].all()


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


def test_many_texts_are_ranked_by_it(table, ranking, monkeypatch):
    texts, listed, _ = table
    assert find_noisy_labels(texts, listed).method == "Sieve"
    monkeypatch.setattr(find_module, "MANY_TEXTS", 500)
    for groups in (None, np.arange(600)):
        large = find_noisy_labels(texts, listed, groups=groups)
        assert large.method == "TextRanker"
        np.testing.assert_allclose(large.confidence, ranking.confidence)
    few = find_noisy_labels(sp.csr_array(np.eye(600)), listed)
    assert few.method == "Sieve"


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


def test_a_sum_of_experts_has_the_scale_of_the_first_one_or_of_other_log_odds():
    first, second, other = np.random.default_rng(0).normal((3, -50, 1), (2, 10, 5), (400, 3)).T
    for like in (None, other):
        both, scale = WeightedSum([first, second], (1, 0.5), like), first if like is None else like
        total = both(first, second)
        np.testing.assert_allclose([total.mean(), total.std()], [scale.mean(), scale.std()])
        # Twice the weight of the first expert, each in units of its spread.
        steps = [both(first + first.std(), second), both(first, second + second.std())] - total
        np.testing.assert_allclose(steps[0], 2 * steps[1])
        np.testing.assert_allclose(both(first, second, shift=0.5), total + scale.std() / 2)
    np.testing.assert_allclose(WeightedSum([first, second], (1, 0))(first, second), first)
    same = np.zeros(5)
    np.testing.assert_array_equal(WeightedSum([same, same], (1, 1))(same, same), 0)


def test_scores_are_compared_with_those_of_unlisted_rows():
    rng = np.random.default_rng(0)
    scores, Y = rng.normal((0, 5), (1, 3), (500, 2)), np.zeros((500, 2), dtype=np.uint8)
    Y[:400, 0], Y[:5, 1] = 1, 1
    relative = compared_with_unlisted(scores, Y)
    for j, known in enumerate((400 / 405, 5 / 10)):
        unlisted = scores[Y[:, j] == 0, j]
        expected = known * (scores[:, j] - unlisted.mean()) / unlisted.std()
        np.testing.assert_allclose(relative[:, j], expected)
    # A label that all rows list has nothing to be compared with.
    assert np.isfinite(compared_with_unlisted(scores, np.ones_like(Y))).all()


def test_few_texts_have_centroids_and_ridges_as_experts(table, monkeypatch):
    texts, listed, truth = table
    ranking = find_noisy_labels(texts, listed)
    for name in ("_CENTROIDS", "_RIDGES"):
        monkeypatch.setattr(model_rankers, name, 0)
    alone = find_noisy_labels(texts, listed)
    assert ranking.method == alone.method == "Sieve"
    assert (ranking.confidence != alone.confidence).all()
    right = truth[ranking.row, ranking.column]
    assert roc_auc_score(right, ranking.confidence) > roc_auc_score(right, alone.confidence) - 0.002
    # The mean log-odds stay.
    logits = [np.log(each.confidence / (1 - each.confidence)).mean() for each in (ranking, alone)]
    np.testing.assert_allclose(*logits, rtol=1e-6)
