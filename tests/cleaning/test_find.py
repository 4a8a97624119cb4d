import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.special import expit, logit
from sklearn.linear_model import LinearRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GroupKFold, KFold

from schirn import CandidateRidge, OracleRidge, Sieve, find_noisy_labels
from schirn.cleaning import votes_to_candidates
from schirn.datasets import load_digits_attributes, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.labels.matrix import label_lists
from schirn.noise.scored_tags import unclaimed_shares
from schirn.scale import RowFile


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.fixture(scope="module")
def ranking(digits):
    ranking = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
    return ranking.remove(below=0.5)


def test_removed_tags_of_the_digits_are_wrong_and_most_wrong_ones_are_found(digits, ranking):
    wrong = ((digits.candidates == 1) & (digits.y_true == 0))[ranking.row, ranking.column]
    assert wrong[ranking.removed].mean() >= 0.9
    assert ranking.removed[wrong].mean() >= 0.5


def test_a_row_is_judged_by_models_trained_without_it(small):
    X, C = small.X, small.candidates
    ranking = find_noisy_labels(X, C, method="CandidateRidge", cv=4, min_count=1, random_state=3)
    expected = np.zeros(C.shape)
    for train, test in KFold(4, shuffle=True, random_state=3).split(X):
        expected[test] = CandidateRidge().fit(X[train], C[train]).disambiguate(X[test], C[test])
    np.testing.assert_allclose(ranking.matrix(), expected, rtol=1e-6)
    # Turning a tag of row 7 off changes no other verdict of the rows in its own fold.
    changed = C.copy()
    changed[7, np.flatnonzero(C[7])[0]] = 0
    again = find_noisy_labels(
        X, changed, method="CandidateRidge", cv=4, min_count=1, random_state=3
    )
    fold = next(t for _, t in KFold(4, shuffle=True, random_state=3).split(X) if 7 in t)
    others = fold[fold != 7]
    np.testing.assert_array_equal(again.matrix()[others], ranking.matrix()[others])


def confidence_of(model, C):
    """What a fit says about each tag, and about labels as frequent."""
    confidence, cells = np.clip(model.label_confidence_, 1e-7, 1 - 1e-7), np.nonzero(C)
    log_odds = logit(confidence)
    shares = unclaimed_shares(model.training_log_odds_, C, *cells, confidence[cells])
    labels = -2 * shares * np.ones(C.shape)
    labels -= labels[C == 1].mean()
    return C * expit(log_odds + log_odds[C == 1].std() * labels)


def test_sieve_judges_all_tags_by_one_fit(small):
    X, C = small.X, small.candidates
    ranking = find_noisy_labels(X, C)
    np.testing.assert_allclose(ranking.matrix(), confidence_of(Sieve().fit(X, C), C), rtol=1e-6)
    assert not ranking.removed.any()
    assert np.isnan(ranking.wrong_share)


def test_missing_tags_of_rare_labels_are_ranked(small):
    X, C = small.X.copy(), np.c_[small.candidates, np.zeros(200)].astype(np.uint8)
    # Six rows that resemble each other; four of them list the rare label.
    X[:6] += 10
    C[:4, 6] = 1
    ranking = find_noisy_labels(X, C)
    assert not ranking.judged[ranking.column == 6].any()
    missing = ranking.missing
    rows = missing.row[missing.column == 6]
    best = np.argsort(-missing.confidence[missing.column == 6])[:2]
    assert set(rows[best]) == {4, 5}


def test_sieve_judges_in_folds_if_they_are_given(small):
    X, C = small.X, small.candidates
    ranking = find_noisy_labels(X, C)
    folds = find_noisy_labels(X, C, cv=4, random_state=3)
    expected = np.zeros(C.shape)
    for train, test in KFold(4, shuffle=True, random_state=3).split(X):
        expected[test] = Sieve().fit(X[train], C[train]).disambiguate(X[test], C[test])
    np.testing.assert_allclose(folds.matrix(), expected, rtol=1e-6)
    assert np.corrcoef(folds.confidence, ranking.confidence)[0, 1] > 0.8


def test_copies_do_not_vouch_for_each_other(digits):
    X, C, truth = digits.X[:400], digits.y_true[:400].copy(), digits.y_true[:400]
    rng = np.random.default_rng(0)
    rows = rng.choice(400, 40, replace=False)
    wrong = np.array([rng.choice(np.flatnonzero(truth[i] == 0)) for i in rows])
    C[rows, wrong] = 1
    # Each of these rows three times more, with its wrong tag.
    copies = np.r_[np.arange(400), np.repeat(rows, 3)]
    for form in (np.asarray, sp.csr_array):
        ranking = find_noisy_labels(form(X[copies]), C[copies]).remove(below=0.5)
        removed = ranking.matrix(ranking.removed)
        assert removed[rows, wrong].mean() > 0.85
        for k in range(3):
            np.testing.assert_array_equal(removed[400 + k : 520 : 3], removed[rows])
    alone = Sieve().fit(X[copies], C[copies])
    assert alone.noise_[rows, wrong].mean() < 0.5


def test_rows_with_equal_features_but_other_tags_are_no_copies(small):
    # One feature with four values says as much about the tags of a row as the other rows do.
    X = (np.arange(200) % 4).astype(float)[:, None]
    C = np.zeros((200, 4), dtype=np.uint8)
    C[np.arange(200), np.arange(200) % 4] = 1
    C[np.arange(0, 200, 10), (np.arange(0, 200, 10) + 1) % 4] = 1
    C[np.arange(7, 200, 10), (np.arange(7, 200, 10) + 2) % 4] = 1
    C[np.arange(5, 200, 10), (np.arange(5, 200, 10) + 3) % 4] = 1
    ranking = find_noisy_labels(np.eye(4)[X[:, 0].astype(int)], C)
    right = ranking.column == ranking.row % 4
    assert roc_auc_score(right, ranking.confidence) > 0.95


def test_rows_of_a_group_are_left_out_together(small):
    X, C = small.X, small.candidates
    groups = np.repeat(np.arange(100), 2)
    ranking = find_noisy_labels(X, C, groups=groups)
    expected = confidence_of(Sieve().fit(X, C, groups=groups), C)
    np.testing.assert_allclose(ranking.matrix(), expected, rtol=1e-6)
    assert not np.allclose(ranking.confidence, find_noisy_labels(X, C).confidence)
    # Copies join the groups of their rows, and a row without a group stands alone.
    doubled, tags = np.vstack([X, X[:1]]), np.vstack([C, C[:1]])
    joined = find_noisy_labels(doubled, tags, groups=[*groups, None])
    expected = confidence_of(Sieve().fit(doubled, tags, groups=[*groups, 0]), tags)
    np.testing.assert_allclose(joined.matrix(), expected, rtol=1e-6)


def test_many_rows_with_groups_are_judged_in_folds(small):
    few = Sieve(max_kernel_rows=100, n_landmarks=50)
    groups = np.repeat(np.arange(100), 2)

    def confidence(**options):
        return find_noisy_labels(small.X, small.candidates, method=few, **options).confidence

    np.testing.assert_array_equal(confidence(groups=groups), confidence(groups=groups, cv=5))
    expected = confidence_of(few.fit(small.X, small.candidates), small.candidates)
    ranking = find_noisy_labels(small.X, small.candidates, method=few)
    np.testing.assert_allclose(ranking.matrix(), expected, rtol=1e-6)


def test_a_tag_needs_other_rows_to_be_judged(small):
    C = np.hstack([small.candidates, np.zeros((200, 2), dtype=np.uint8)])
    C[:5, 6], C[:4, 7] = 1, 1
    ranking = find_noisy_labels(small.X, C)
    assert ranking.judged[ranking.column == 6].all()
    assert not ranking.judged[ranking.column == 7].any()
    # Rows of its own group do not count.
    together = find_noisy_labels(small.X, C, groups=["a", "a", *range(198)])
    assert together.judged[together.column == 6].tolist() == [False, False, True, True, True]


@pytest.fixture(scope="module")
def crowd(digits):
    """Votes of three careful and three careless annotators, and the truth."""
    rng = np.random.default_rng(0)
    X, truth = digits.X[:400], digits.y_true[:400]
    quality = [(0.9, 0.03)] * 3 + [(0.5, 0.35)] * 3
    ballots = [
        (i, f"worker {w}", j)
        for w, (hit, false) in enumerate(quality)
        for i, j in np.argwhere(rng.random(truth.shape) < np.where(truth, hit, false))
    ]
    votes = votes_to_candidates(*zip(*ballots, strict=True), order=range(400))
    # Few pixels: the image alone says too little.
    return X[:, 20:28], votes, truth


def test_votes_and_features_together_are_best(crowd):
    X, votes, truth = crowd

    def auc(**options):
        ranking = find_noisy_labels(X, votes.candidates, **options)
        return roc_auc_score(truth[ranking.row, ranking.column], ranking.confidence)

    features, prior = auc(), auc(prior=votes.prior)
    counted, named = auc(votes=(votes.counts, 6)), auc(votes=votes)
    assert counted > max(features, prior)
    assert 1 - named < (1 - counted) / 2


def test_annotators_are_reported(crowd):
    X, votes, _ = crowd
    ranking = find_noisy_labels(X, votes.candidates, votes=votes)
    assert [annotator.name for annotator in ranking.annotators] == votes.workers
    best, worst = ranking.annotators[:3], ranking.annotators[3:]
    assert sum(a.ballots for a in ranking.annotators) == len(votes.ballots.row)
    assert min(a.sensitivity for a in best) > max(a.sensitivity for a in worst)
    assert max(a.false_factor for a in best) < min(a.false_factor for a in worst)
    assert find_noisy_labels(X, votes.candidates, votes=(votes.counts, 6)).annotators is None


def test_votes_follow_the_tags_that_are_judged(crowd):
    X, votes, _ = crowd
    ranking = find_noisy_labels(X, votes.candidates, votes=votes)
    # A tag of all rows, which is not judged, moves the columns of the others by one.
    common = np.ones((400, 1), dtype=np.int64)
    C, counts = np.hstack([common, votes.candidates]), np.hstack([common, votes.counts])
    moved = find_noisy_labels(X, C, votes=(counts, 6))
    plain = find_noisy_labels(X, votes.candidates, votes=(votes.counts, np.full(400, 6)))
    np.testing.assert_allclose(moved.confidence[moved.column > 0], plain.confidence)
    names = votes.label_names
    table = pd.DataFrame(votes.candidates, columns=names)[names[::-1]]
    turned = find_noisy_labels(X, table, votes=votes)
    assert turned.label_names == names[::-1]
    np.testing.assert_allclose(turned.matrix()[:, ::-1], ranking.matrix(), atol=1e-3)


def test_votes_that_cannot_be_used_raise(crowd):
    X, votes, _ = crowd
    for options, words in (
        ({"votes": votes, "method": "CandidateRidge"}, "CandidateRidge takes no votes"),
        ({"votes": votes, "cv": 5}, "votes are used in a single fit, not in folds"),
        ({"votes": (votes.counts[:3], 6)}, "votes has counts of shape"),
        ({"votes": 3}, "votes must be what votes_to_candidates returns"),
    ):
        with pytest.raises(InputError, match=words) as refused:
            find_noisy_labels(X, votes.candidates, **options)
        assert refused.value.parameter == "votes"


def test_missing_tags_are_ranked(digits):
    rng = np.random.default_rng(0)
    dropped = (digits.y_true == 1) & (rng.random(digits.y_true.shape) < 0.25)
    tags = np.where(dropped, 0, digits.candidates)
    ranking = find_noisy_labels(digits.X, tags, label_names=digits.label_names)
    missing = ranking.missing
    assert (np.diff(missing.row) >= 0).all()
    assert not tags[missing.row, missing.column].any()
    likely = missing.above()
    assert digits.y_true[likely.row, likely.column].mean() > 0.9
    assert dropped[likely.row, likely.column].sum() > 0.4 * dropped.sum()
    assert len(missing) > len(likely)
    assert not ranking.added.any()
    assert missing.label[0] == digits.label_names[missing.column[0]]
    # Nobody asks about a tag that is known to be wrong.
    known = np.zeros(tags.shape)
    known[missing.row[0], missing.column[0]] = -1
    again = find_noisy_labels(digits.X, tags, known=known).missing
    assert (missing.row[0], missing.column[0]) not in set(zip(again.row, again.column, strict=True))


def test_missing_tags_of_complete_tables_and_other_methods_are_ranked_too(digits, small):
    for data, method in ((digits, None), (small, "CandidateRidge")):
        missing = find_noisy_labels(data.X, data.y_true, method=method).missing
        assert len(np.unique(missing.confidence)) > 0.5 * len(missing) > 50


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_random_features_say_nothing(digits, form):
    X = np.random.default_rng(0).random((600, 20))
    ranking = find_noisy_labels(form(X), digits.y_true[:600])
    assert not ranking.removed.any()
    assert ranking.planted_among_suspects() < 0.25


def test_rare_and_universal_labels_are_not_judged(small):
    n = len(small.candidates)
    rare = np.zeros((n, 1), dtype=np.uint8)
    rare[:2] = 1
    C = np.hstack([small.candidates, rare, np.ones((n, 1), dtype=np.uint8)])
    ranking = find_noisy_labels(small.X, C, method="CandidateRidge").remove(below=0.5)
    for column in (6, 7):
        tags = ranking.column == column
        assert set(ranking.verdict[tags]) == {"unjudged"}
        assert set(ranking.confidence[tags]) == {0.5}
    assert set(ranking.verdict[ranking.column < 6]) == {"kept", "removed"}
    rarest = next(label for label in ranking.labels() if label["name"] == "6")
    assert (rarest["candidates"], rarest["judged"]) == (2, 0)


def test_a_label_that_occurs_in_one_fold_only_is_not_judged(small):
    C = np.hstack([small.candidates, np.zeros((200, 1), dtype=np.uint8)])
    C[:20, 6] = 1
    halves = [(np.arange(20, 200), np.arange(20)), (np.arange(20), np.arange(20, 200))]
    ranking = find_noisy_labels(small.X, C, cv=halves, method="CandidateRidge", min_count=1)
    assert set(ranking.verdict[ranking.column == 6]) == {"unjudged"}


def test_known_clean_rows_and_cells_are_kept(small):
    known = np.arange(200) < 50
    ranking = find_noisy_labels(small.X, small.candidates, known_clean=known).remove(below=0.5)
    assert (ranking.confidence[ranking.row < 50] == 1).all()
    assert not ranking.removed[ranking.row < 50].any()
    assert ranking.removed[ranking.row >= 50].any()
    cells = np.zeros(small.candidates.shape, dtype=bool)
    cells[:, 2] = True
    ranking = find_noisy_labels(small.X, small.candidates, known_clean=cells).remove(below=0.9)
    assert not ranking.removed[ranking.column == 2].any()


def test_known_tags_are_final_and_sieve_learns_from_them(small):
    X, C, truth = small.X, small.candidates, small.y_true
    checked = np.arange(200) < 80
    # The tags of checked rows are corrected; the others show what is learned from them.
    corrected = np.where(checked[:, None], truth, C)
    plain = find_noisy_labels(X, corrected)
    informed = find_noisy_labels(X, corrected, known_clean=checked)
    others = ~checked[plain.row]
    right = truth[plain.row, plain.column] == 1

    def loss(ranking):
        confidence = np.where(right, ranking.confidence, 1 - ranking.confidence)[others]
        return -np.log(np.clip(confidence, 1e-6, 1)).mean()

    assert loss(informed) < 0.95 * loss(plain)
    known = np.where(checked[:, None] & (corrected == 1), 1, 0)
    same = find_noisy_labels(X, corrected, known=sp.csr_array(known))
    np.testing.assert_array_equal(same.confidence, informed.confidence)


def test_tags_known_to_be_wrong_are_removed(small):
    known = np.where(small.y_true == 1, 0, -1)
    known[50:] = 0
    for method in ("Sieve", "CandidateRidge"):
        ranking = find_noisy_labels(small.X, small.candidates, known=known, method=method)
        wrong = known[ranking.row, ranking.column] == -1
        assert wrong.sum() > 10
        assert (ranking.confidence[wrong] == 0).all()
        assert set(ranking.verdict[wrong]) == {"removed"}
    # Other methods do not learn from it.
    plain = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    np.testing.assert_array_equal(ranking.confidence[~wrong], plain.confidence[~wrong])


def test_tags_known_to_be_wrong_are_removed_whatever_is_ordered(small):
    C = small.candidates.copy()
    C[0] = 1
    known = np.zeros(C.shape)
    known[0, :4] = -1
    ranking = find_noisy_labels(small.X, C, known=known, method="CandidateRidge").remove(k=0)
    assert ranking.verdict[:6].tolist() == ["removed"] * 4 + ["kept"] * 2


def test_a_rare_tag_may_be_known(small):
    C = np.hstack([small.candidates, np.zeros((200, 1), dtype=np.uint8)])
    C[:2, 6] = 1
    known = np.zeros(C.shape)
    known[0, 6] = -1
    ranking = find_noisy_labels(small.X, C, known=known, method="CandidateRidge")
    assert ranking.verdict[ranking.column == 6].tolist() == ["removed", "unjudged"]


def test_known_and_known_clean_must_agree(small):
    i, j = np.argwhere(small.candidates == 1)[0]
    known = np.zeros(small.candidates.shape)
    known[i, j] = -1
    with pytest.raises(InputError, match=f"row {i}, label '{j}' is wrong by known but correct"):
        find_noisy_labels(small.X, small.candidates, known=known, known_clean=np.ones(200))


def test_fifty_thousand_rare_tags_need_no_columns(small):
    rare = sp.coo_array(
        (np.ones(50_000), (np.arange(50_000) % 200, np.arange(50_000))), shape=(200, 50_000)
    )
    C = sp.hstack([sp.csr_array(small.candidates), rare])
    ranking = find_noisy_labels(small.X, C, method="CandidateRidge")
    plain = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    np.testing.assert_array_equal(ranking.confidence[ranking.column < 6], plain.confidence)
    assert (~ranking.judged[ranking.column >= 6]).all()
    assert (
        len(label_lists(ranking.clean, ranking.label_names)[0])
        == 250 + (~plain.removed)[plain.row == 0].sum()
    )


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_little_memory_changes_no_verdict(small, monkeypatch, storage):
    few = Sieve(max_kernel_rows=100, n_landmarks=20, max_iter=2)
    X = storage(small.X)
    plain = find_noisy_labels(X, small.candidates, method=few)
    made = []

    def recording(*blocks):
        made.append(RowFile(*blocks))
        return made[-1]

    monkeypatch.setattr("schirn.cleaning.find.RowFile", recording)
    # 200 rows x (6 labels x 75 bytes + 20 landmarks x 4 bytes) are 106 kB.
    scarce = find_noisy_labels(X, small.candidates, method=few, max_memory=1e-4)
    assert len(made) == 1
    np.testing.assert_allclose(scarce.confidence, plain.confidence, atol=1e-5)
    np.testing.assert_array_equal(scarce.removed, plain.removed)
    with_room = find_noisy_labels(X, small.candidates, method=few, max_memory=1.0)
    np.testing.assert_array_equal(with_room.confidence, plain.confidence)
    assert len(made) == 1


@pytest.mark.parametrize("kind", ["memmap", "file", "files"])
def test_features_in_files_get_the_verdicts_of_those_in_memory(small, kind, tmp_path):
    few = Sieve(max_kernel_rows=100, n_landmarks=20, max_iter=2)
    path = tmp_path / "X.npy"
    np.save(path, small.X.astype(np.float32))
    expected = find_noisy_labels(small.X.astype(np.float32), small.candidates, method=few)
    X = np.load(path, mmap_mode="r")
    if kind == "file":
        X = RowFile(path, block_rows=30)
    elif kind == "files":
        paths = [tmp_path / "first.npy", tmp_path / "second.npy"]
        np.save(paths[0], X[:90])
        np.save(paths[1], X[90:])
        X = RowFile(paths)
    ranking = find_noisy_labels(X, small.candidates, method=few)
    np.testing.assert_allclose(ranking.confidence, expected.confidence, atol=1e-5)
    np.testing.assert_array_equal(ranking.removed, expected.removed)
    np.testing.assert_array_equal(ranking.missing.row, expected.missing.row)
    assert ranking.planted_among_suspects() == expected.planted_among_suspects()
    # What a file is not enough for is done in memory.
    groups = np.arange(200) // 2
    expected = find_noisy_labels(small.X.astype(np.float32), small.candidates, groups=groups)
    ranking = find_noisy_labels(X, small.candidates, groups=groups)
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)


def test_what_does_not_fit_into_memory_is_named(small):
    words = r"features of 1.9e-05 GB needs 9e-05 GB of memory, but 4.8e-05 GB are free; clean fewer"
    with pytest.raises(InputError, match=words):
        find_noisy_labels(small.X, small.candidates, max_memory=200 * 6 * 40 / 1e9)


def test_prior_multiplies_the_odds(small):
    plain = find_noisy_labels(small.X, small.candidates)
    half = np.full(small.candidates.shape, 0.5)
    np.testing.assert_allclose(
        find_noisy_labels(small.X, small.candidates, prior=half).confidence, plain.confidence
    )
    half[3] = 0.9
    lifted = find_noisy_labels(small.X, small.candidates, prior=half)
    mine = plain.row == 3
    c = plain.confidence[mine]
    np.testing.assert_allclose(lifted.confidence[mine], 9 * c / (9 * c + 1 - c))
    np.testing.assert_allclose(lifted.confidence[~mine], plain.confidence[~mine])


def test_columns_of_prior_and_known_clean_are_matched_by_name(small):
    names = list("abcdef")
    tags = pd.DataFrame(small.candidates, columns=names)
    prior = np.random.default_rng(0).uniform(0.1, 0.9, size=tags.shape)
    checked = np.zeros(tags.shape, dtype=bool)
    checked[:50, :2] = True
    for what, cells, default in (("prior", prior, 0.5), ("known_clean", checked, 0)):

        def confidence(given, what=what):
            return find_noisy_labels(
                small.X, tags, method="CandidateRidge", **{what: given}
            ).confidence

        expected = confidence(cells)
        table = pd.DataFrame(cells, columns=names)
        np.testing.assert_array_equal(confidence(table[names[::-1]]), expected)
        np.testing.assert_array_equal(confidence(sp.csr_array(cells)), expected)
        filled = cells.copy()
        filled[:, 1:] = default
        np.testing.assert_array_equal(confidence(table[["a"]]), confidence(filled))
        with pytest.raises(InputError, match=f"{what} must not have a column 'x', which"):
            confidence(table.rename(columns={"b": "x"}))


def test_groups_stay_together(small):
    groups = np.repeat(np.arange(100), 2)
    tested = []

    class Spy(CandidateRidge):
        def disambiguate(self, X, candidates):
            tested.append(X)
            return super().disambiguate(X, candidates)

    find_noisy_labels(small.X, small.candidates, method=Spy(), groups=groups)
    # Every second call judges planted tags.
    for X in tested[::2]:
        rows = [int(np.flatnonzero((small.X == x).all(axis=1))[0]) for x in X]
        _, counts = np.unique(groups[rows], return_counts=True)
        assert (counts == 2).all()


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("cv", [3, GroupKFold(3)], ids=["number", "splitter"])
def test_a_row_without_a_group_is_a_group_of_its_own(small, nothing, cv):
    named = ["a", 2, "c", 4.5] * 25

    def confidence(groups):
        return find_noisy_labels(
            small.X, small.candidates, method="CandidateRidge", groups=groups, cv=cv
        ).confidence

    alone = [f"row {i:02}" for i in range(100)]
    np.testing.assert_array_equal(confidence(named + [nothing] * 100), confidence(named + alone))


def test_sparse_tags_are_checked(small):
    with pytest.raises(InputError, match="row 0, label 1 holds 2"):
        find_noisy_labels(small.X, sp.csr_array(np.array([[0, 2]] * 200)))
    with pytest.raises(InputError, match="6 label columns, but label_names has 2"):
        find_noisy_labels(small.X, sp.csr_array(small.candidates), label_names=["a", "b"])
    with pytest.raises(InputError, match="names the label 'dog', which is not among the known"):
        find_noisy_labels(small.X, [["dog"]] * 200, label_names=["a", "b"])
    with pytest.raises(InputError, match="row 1 of the tags is 3, not a list"):
        find_noisy_labels(small.X[:2], [["dog"], 3])


def test_texts_and_joined_tags():
    rng = np.random.default_rng(0)
    words = {"dog": "bark tail paw", "sea": "wave sand salt", "car": "wheel road fuel"}
    texts, tags, truth = [], [], []
    for i in range(150):
        true = list(words)[i % 3]
        texts.append(" ".join(rng.permutation(words[true].split())) + f" item {i % 7}")
        other = rng.choice([w for w in words if w != true]) if i % 4 == 0 else None
        truth.append(true)
        tags.append(true if other is None else f"{other} | {true}")
    ranking = find_noisy_labels(texts, tags, separator="|").remove(below=0.5)
    assert ranking.label_names == ["car", "dog", "sea"]
    assert label_lists(ranking.clean, ranking.label_names) == [[t] for t in truth]
    series = find_noisy_labels(pd.Series(texts), pd.Series(tags), separator="|")
    np.testing.assert_array_equal(series.confidence, ranking.confidence)


@pytest.mark.parametrize("row", [0, 5])
def test_missing_texts_and_tags_are_empty(row):
    texts, tags = ["bark tail", "wave sand"] * 15, ["dog", "sea"] * 10 + ["dog;sea"] * 10
    texts[row], tags[row] = "", ""

    def confidence(texts, tags):
        return find_noisy_labels(texts, tags, method="CandidateRidge", cv=3).confidence

    expected = confidence(texts, tags)
    lists = [tag.split(";") if tag else [] for tag in tags]
    for nothing in (None, np.nan, pd.NA):
        gaps = [[*rows[:row], nothing, *rows[row + 1 :]] for rows in (texts, tags, lists)]
        np.testing.assert_array_equal(confidence(gaps[0], gaps[1]), expected)
        np.testing.assert_array_equal(confidence(gaps[0], gaps[2]), expected)
        series = [pd.Series(rows, dtype="string") for rows in gaps[:2]]
        np.testing.assert_array_equal(confidence(*series), expected)


def test_containers_agree(small):
    dense = find_noisy_labels(small.X, small.candidates, method=Sieve(features="none"))
    for X, C in (
        (pd.DataFrame(small.X), pd.DataFrame(small.candidates)),
        (sp.csr_array(small.X), sp.csr_array(small.candidates)),
    ):
        other = find_noisy_labels(X, C, method=Sieve(features="none"))
        np.testing.assert_allclose(other.confidence, dense.confidence, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "Siev"}, "there is no method 'Siev'"),
        ({"method": LinearRegression()}, "classifier that has predict_proba, not LinearRegression"),
        ({"method": OracleRidge()}, "OracleRidge needs the true labels"),
        ({"cv": 1}, "200 rows can be split into 2 to 200 folds, not 1"),
        ({"cv": 201}, "2 to 200 folds, not 201"),
        ({"cv": [(np.arange(100), np.arange(100, 200))]}, "row 0 is in 0"),
        ({"cv": 5.0}, "cv must be a number of folds, a splitter or .* not 5.0"),
        ({"cv": "five"}, "cv must be a number of folds, a splitter or .* not 'five'"),
        ({"precision": 1.5}, "precision must be a number of more than 0 and at most 1, got 1.5"),
        ({"precision": "a"}, "precision must be .* got 'a'"),
        ({"min_count": 0}, "min_count must be an integer of at least 1, got 0"),
        ({"min_count": 1.5}, "min_count must be an integer of at least 1, got 1.5"),
        ({"keep_one": 3}, "keep_one must be one of True, False, got 3"),
        ({"scaled": "x"}, "scaled must be one of True, False, got 'x'"),
        ({"random_state": -1}, "random_state must be an integer of at least 0 .* got -1"),
        ({"random_state": "a"}, "random_state must be an integer .* got 'a'"),
        ({"label_names": ["a", "", *"cdef"]}, "label_names must hold one name per label, not ''"),
        ({"label_names": ["a", None, *"cdef"]}, "label_names must hold one name .* not None"),
        ({"label_names": "abcdef"}, "label_names must hold one name .* not 'abcdef'"),
        ({"label_names": ["a", "a", *"cdef"]}, "label_names holds 'a' twice"),
        ({"min_count": "a"}, "min_count must be .* got 'a'"),
        ({"separator": ""}, "separator must be a text of at least one character, not ''"),
        ({"max_memory": "a"}, "max_memory must be .* got 'a'"),
        ({"prior": np.ones((3, 3))}, "prior has shape"),
        ({"prior": np.full((200, 6), 1.5)}, "row 0, label"),
        ({"known_clean": [1, 2]}, "known_clean must hold"),
        ({"known": [1, 2]}, "known must hold one value per row and label"),
        ({"max_memory": 0}, "max_memory must be a number of more than 0 or None, got 0"),
        ({"groups": [1]}, "groups has 1 values for 200 rows"),
        ({"groups": [[1]] * 200}, "groups must hold one text or number per row"),
    ],
)
def test_bad_arguments_raise(small, change, words):
    with pytest.raises(InputError, match=words):
        find_noisy_labels(small.X, small.candidates, **change)


def test_bad_data_raise(small):
    with pytest.raises(InputError, match="no row has a tag"):
        find_noisy_labels(small.X, np.zeros_like(small.candidates))
    with pytest.raises(InputError, match="tags for 3 rows"):
        find_noisy_labels(small.X, small.candidates[:3])
    with pytest.raises(InputError, match="no words"):
        find_noisy_labels(["", "!"] * 10, ["a", "b"] * 10)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, pd.DataFrame, np.ndarray.tolist])
def test_booleans_are_numbers(small, form):
    X = small.X > 0
    expected = find_noisy_labels(form(X.astype(float)), small.candidates)
    ranking = find_noisy_labels(form(X), small.candidates)
    np.testing.assert_array_equal(ranking.confidence, expected.confidence)


def _pointing_outside(matrix):
    matrix = sp.csr_array(matrix)
    matrix.indices[3] = 10**6
    return matrix


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (lambda X: X + 1j, "X holds complex numbers"),
        (lambda X: X.astype("M8[s]"), "X holds dates"),
        (lambda X: pd.DataFrame(X.astype("m8[s]")), "X holds durations"),
        (lambda X: np.ma.masked_array(X, X > 1), "X is a masked array"),
        (lambda X: X[:, :0], "X has no columns"),
        (lambda X: X * 1e40, "at row 0, column 0, which is too large"),
        (lambda X: np.full(X.shape, 10**400, dtype=object), "X holds a number that is too large"),
        (lambda X: None, "X must hold the features of every row, not None"),
        (_pointing_outside, "X is not a valid sparse matrix"),
    ],
)
def test_features_that_would_be_misread_raise(small, form, words):
    with pytest.raises(InputError, match=words):
        find_noisy_labels(form(small.X), small.candidates)


def test_tags_that_would_be_misread_raise(small):
    tags = small.candidates
    with pytest.raises(InputError, match="candidates is not a valid sparse matrix"):
        find_noisy_labels(small.X, _pointing_outside(tags))
    with pytest.raises(InputError, match="known is not a valid sparse matrix"):
        find_noisy_labels(small.X, tags, known=_pointing_outside(tags))
    with pytest.raises(InputError, match="candidates is a masked array"):
        find_noisy_labels(small.X, np.ma.masked_array(tags, tags == 1))
    with pytest.raises(InputError, match="candidates must hold the tags of every row, not None"):
        find_noisy_labels(small.X, None)


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
def test_a_missing_tag_is_no_tag(small, nothing):
    votes = votes_to_candidates("ppq", [1, 2, 1], ["dog", nothing, "cat"])
    assert votes.label_names == ["cat", "dog"]
    np.testing.assert_allclose(votes.prior, [[0, 2 / 4], [2 / 3, 0]])
    lists = [["dog", nothing], ["cat"]] * 100
    assert find_noisy_labels(small.X, lists, method="CandidateRidge").label_names == ["cat", "dog"]


def test_cells_of_tags_may_be_missing_or_lists(small):
    names = [[f"t{j}" for j in np.flatnonzero(row)] for row in small.candidates]
    names[3] = []
    lists = find_noisy_labels(small.X, names, method=CandidateRidge())
    mixed = [";".join(row) if i % 2 else row for i, row in enumerate(names)]
    for missing in (None, float("nan"), ""):
        mixed[3] = missing
        ranking = find_noisy_labels(small.X, mixed, method=CandidateRidge())
        assert ranking.label_names == lists.label_names
        np.testing.assert_array_equal(ranking.confidence, lists.confidence)


def test_repeated_cells_of_a_sparse_matrix_are_added():
    data = make_partial_multilabel(n_samples=80, n_features=6, n_labels=4, r=1, random_state=0)
    X = sp.csr_array(np.where(data.X > 0, data.X, 0))
    halves = sp.csr_array(
        (np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr), shape=X.shape
    )
    size = halves.nnz
    ranking = find_noisy_labels(halves, data.candidates)
    expected = find_noisy_labels(X, data.candidates)
    np.testing.assert_allclose(ranking.confidence, expected.confidence, atol=1e-9)
    assert halves.nnz == size


ROWS = np.random.default_rng(0).standard_normal((40, 3))
TAGS = [["a"], ["a", "b"]] * 20
DEGENERATE = {
    "two distinct rows": ([[0.0], [1.0]] * 20, TAGS),
    "two distinct texts": (["word", "other"] * 20, TAGS),
    "constant features": (np.ones((40, 3)), TAGS),
    "equal rows and tags": (np.ones((40, 3)), [["a", "b"]] * 40),
    "one label": (ROWS, [["a"]] * 40),
    "one label in half of the rows": (ROWS, [["a"], []] * 20),
    "one row": (ROWS[:1], [["a", "b"]]),
    "two rows": (ROWS[:2], [["a"], ["b"]]),
    "a label in all rows": (ROWS, TAGS),
    "all labels in all rows": (ROWS, np.ones((40, 3), dtype=int)),
    "a label in no row": (ROWS, np.tile([[1, 0, 0], [0, 1, 0]], (20, 1))),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables_are_ranked(name):
    X, tags = DEGENERATE[name]
    ranking = find_noisy_labels(X, tags)
    assert np.isfinite(ranking.confidence).all()
    assert np.isfinite(ranking.missing.confidence).all()
    assert np.isin(ranking.questions(1, random_state=0).row, np.arange(len(tags))).all()


def test_the_only_label_of_all_rows_is_as_likely_wrong_in_one_as_in_another():
    ranking = find_noisy_labels([[0.0], [1.0]] * 20, TAGS)
    assert np.ptp(ranking.confidence[ranking.label == "a"]) == 0


@pytest.mark.parametrize("method", ["Sieve", "Schirn"])
@pytest.mark.parametrize("shape", [(40, 0), (0, 3), (40, 3)])
def test_tables_without_a_tag_are_refused_in_one_sentence(method, shape):
    with pytest.raises(InputError, match=r"no row has a tag|must have rows and label columns"):
        find_noisy_labels(ROWS[: shape[0]], np.zeros(shape), method=method)


def test_tags_are_no_features():
    frame = pd.DataFrame({"title": ["red pan", "blue pan"] * 20, "tags": ["red;pan", "pan"] * 20})
    with pytest.raises(InputError, match="X has the column 'tags', which holds the tags"):
        find_noisy_labels(frame, frame["tags"])
    with pytest.raises(InputError, match="not the text 'tags'; pass the column itself"):
        find_noisy_labels(frame, "tags")
    assert find_noisy_labels(frame[["title"]], frame["tags"]).n_rows == 40


def test_tags_of_rows_without_text_are_not_judged():
    titles = ["steel pan", "red pan", "oak chair", "wood chair"] * 10
    titles[4] = ""
    titles[9] = "?!"
    tags = [["pan", "chair"], ["pan"], ["chair"], ["chair", "pan"]] * 10
    ranking = find_noisy_labels(titles, tags)
    is_empty = np.isin(ranking.row, [4, 9])
    np.testing.assert_array_equal(ranking.judged, ~is_empty)
    everything = ranking.questions(1000)
    assert not np.isin(everything.row, [4, 9]).any()
    assert not np.isin(ranking.missing.row, [4, 9]).any()
    ranking = ranking.answered(everything, np.zeros(len(everything), dtype=bool))
    assert not ranking.removed[is_empty].any()
    # A prior is evidence that needs no text.
    prior = np.full((40, 2), 0.5)
    assert find_noisy_labels(titles, tags, prior=prior).judged.all()
