import json
import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import GroupKFold, KFold

import schirn
from schirn import CandidateRidge, Sieve, find_noisy_labels
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.fixture(scope="module")
def found(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def test_removed_tags_of_the_digits_are_wrong_and_most_wrong_ones_are_found(digits, found):
    wrong = ((digits.candidates == 1) & (digits.y_true == 0))[found.row, found.column]
    assert wrong[found.removed].mean() >= 0.9
    assert found.removed[wrong].mean() >= 0.5
    assert abs(found.noise_rate - wrong.mean()) < 0.03


def test_the_arrays_list_every_tag_once_by_row(digits, found):
    np.testing.assert_array_equal(np.argwhere(digits.candidates), np.c_[found.row, found.column])
    assert found.confidence.min() >= 0
    assert found.confidence.max() <= 1
    np.testing.assert_array_equal(found.removed, found.confidence < 0.5)
    assert set(found.verdict) == {"kept", "removed"}
    names = np.array(digits.label_names)
    assert found.clean_lists()[5] == names[found.clean[5] == 1].tolist()
    np.testing.assert_array_equal(found.matrix() > 0, digits.candidates == 1)


def test_a_row_is_judged_by_models_that_have_not_seen_it(small):
    X, C = small.X, small.candidates
    found = find_noisy_labels(X, C, method="CandidateRidge", cv=4, min_count=1, random_state=3)
    expected = np.zeros(C.shape)
    for train, test in KFold(4, shuffle=True, random_state=3).split(X):
        expected[test] = CandidateRidge().fit(X[train], C[train]).disambiguate(X[test], C[test])
    np.testing.assert_allclose(found.matrix(), expected, rtol=1e-6)
    # Turning a tag of row 7 off changes no other verdict of the rows in its own fold.
    changed = C.copy()
    changed[7, np.flatnonzero(C[7])[0]] = 0
    again = find_noisy_labels(
        X, changed, method="CandidateRidge", cv=4, min_count=1, random_state=3
    )
    fold = next(t for _, t in KFold(4, shuffle=True, random_state=3).split(X) if 7 in t)
    others = fold[fold != 7]
    np.testing.assert_array_equal(again.matrix()[others], found.matrix()[others])


def test_summaries_count(found):
    whole = found.summary()
    labels = found.labels()
    assert whole["tags"] == sum(label.candidates for label in labels) == len(found.row)
    assert whole["removed"] == sum(label.removed for label in labels) == found.removed.sum()
    close = (found.confidence > 0.2) & (found.confidence < 0.8)
    assert whole["close_calls"] == close.sum()
    first = labels[0]
    assert first.removed == max(label.removed for label in labels)
    mine = found.label == first.name
    assert first.noise_rate == pytest.approx((1 - found.confidence[mine]).mean())
    assert (
        found.confidence[mine].min()
        == found.matrix()[first.worst[0], found.label_names.index(first.name)]
    )


def test_tables(found, tmp_path):
    frame = found.to_pandas()
    assert list(frame.columns) == ["row", "label", "confidence", "verdict"]
    found.to_csv(tmp_path / "tags.csv")
    again = pd.read_csv(tmp_path / "tags.csv")
    assert (again["verdict"] == frame["verdict"]).all()
    np.testing.assert_allclose(again["confidence"], frame["confidence"], rtol=1e-5)
    document = json.loads(found.to_json(tmp_path / "tags.json"))
    assert document == json.loads((tmp_path / "tags.json").read_text("utf-8"))
    assert document["summary"]["removed"] == found.removed.sum()
    assert len(document["tags"]) == len(frame)


def test_csv_labels_cannot_run_as_formulas(small, tmp_path):
    names = ["=1+1", "@b", "-c", "d", "e", "f"]
    found = find_noisy_labels(small.X, small.candidates, label_names=names, method="CandidateRidge")
    found.to_csv(tmp_path / "tags.csv")
    written = set(pd.read_csv(tmp_path / "tags.csv")["label"])
    assert written == {"'=1+1", "'@b", "'-c", "d", "e", "f"}


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_label_names_may_be_an_array_of_numbers(small, form, tmp_path):
    names = np.arange(10, 70, 10)
    C = form(small.candidates)
    found = find_noisy_labels(small.X, C, label_names=names, method="CandidateRidge")
    assert found.label_names == ["10", "20", "30", "40", "50", "60"]
    found.to_csv(tmp_path / "tags.csv")
    assert json.loads(found.to_json())["tags"][0]["label"] in found.label_names
    with pytest.raises(InputError, match="label_names holds '10' twice"):
        find_noisy_labels(small.X, C, label_names=[10] * 6)


def test_rare_and_universal_labels_are_not_judged(small):
    n = len(small.candidates)
    rare = np.zeros((n, 1), dtype=np.uint8)
    rare[:2] = 1
    C = np.hstack([small.candidates, rare, np.ones((n, 1), dtype=np.uint8)])
    found = find_noisy_labels(small.X, C, method="CandidateRidge")
    for column in (6, 7):
        tags = found.column == column
        assert set(found.verdict[tags]) == {"unjudged"}
        assert set(found.confidence[tags]) == {0.5}
    assert set(found.verdict[found.column < 6]) == {"kept", "removed"}
    rarest = next(label for label in found.labels() if label.name == "6")
    assert np.isnan(rarest.noise_rate)
    assert json.loads(found.to_json())["labels"]


def test_a_label_that_lives_in_one_fold_does_not_crash(small):
    C = np.hstack([small.candidates, np.zeros((200, 1), dtype=np.uint8)])
    C[:20, 6] = 1
    halves = [(np.arange(20, 200), np.arange(20)), (np.arange(20), np.arange(20, 200))]
    found = find_noisy_labels(small.X, C, cv=halves, method="CandidateRidge", min_count=1)
    assert set(found.verdict[found.column == 6]) == {"unjudged"}


def test_limit_per_row_removes_the_least_likely(digits, found):
    one = find_noisy_labels(digits.X, digits.candidates, max_remove_per_row=1, cv=5)
    removed = one.matrix(one.removed)
    assert removed.sum(axis=1).max() == 1
    all_removed = found.matrix(found.removed)
    np.testing.assert_array_equal(removed.any(axis=1), all_removed.any(axis=1))
    confidence = np.where(digits.candidates == 1, one.matrix(), 2)
    rows = np.flatnonzero(removed.any(axis=1))
    np.testing.assert_array_equal(confidence[rows][removed[rows]], confidence[rows].min(axis=1))


def test_known_clean_rows_and_cells_are_kept(small):
    known = np.arange(200) < 50
    found = find_noisy_labels(small.X, small.candidates, known_clean=known)
    assert (found.confidence[found.row < 50] == 1).all()
    assert not found.removed[found.row < 50].any()
    assert found.removed[found.row >= 50].any()
    cells = np.zeros(small.candidates.shape, dtype=bool)
    cells[:, 2] = True
    found = find_noisy_labels(small.X, small.candidates, known_clean=cells)
    assert not found.removed[found.column == 2].any()


def test_known_tags_stand_and_teach(small):
    X, C, truth = small.X, small.candidates, small.y_true
    checked = np.arange(200) < 80
    # Checked rows were mended; what they teach is seen on the others.
    mended = np.where(checked[:, None], truth, C)
    plain = find_noisy_labels(X, mended)
    told = find_noisy_labels(X, mended, known_clean=checked)
    others = ~checked[plain.row]
    right = truth[plain.row, plain.column] == 1

    def loss(found):
        confidence = np.where(right, found.confidence, 1 - found.confidence)[others]
        return -np.log(np.clip(confidence, 1e-6, 1)).mean()

    assert loss(told) < 0.95 * loss(plain)
    known = np.where(checked[:, None] & (mended == 1), 1, 0)
    same = find_noisy_labels(X, mended, known=sp.csr_array(known))
    np.testing.assert_array_equal(same.confidence, told.confidence)


def test_tags_known_to_be_wrong_are_removed(small):
    known = np.where(small.y_true == 1, 0, -1)
    known[50:] = 0
    for method in ("Sieve", "CandidateRidge"):
        found = find_noisy_labels(small.X, small.candidates, known=known, method=method)
        wrong = known[found.row, found.column] == -1
        assert wrong.sum() > 10
        assert (found.confidence[wrong] == 0).all()
        assert set(found.verdict[wrong]) == {"removed"}
    # Other methods do not learn from it.
    plain = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    np.testing.assert_array_equal(found.confidence[~wrong], plain.confidence[~wrong])


@pytest.mark.parametrize("change", [{"threshold": 0}, {"max_remove_per_row": 1}], ids=str)
def test_tags_known_to_be_wrong_are_removed_whatever_the_limits(small, change):
    C = small.candidates.copy()
    C[0] = 1
    known = np.zeros(C.shape)
    known[0, :4] = -1
    found = find_noisy_labels(small.X, C, known=known, method="CandidateRidge", **change)
    assert found.verdict[:6].tolist() == ["removed"] * 4 + ["kept"] * 2


def test_a_rare_tag_may_be_known(small):
    C = np.hstack([small.candidates, np.zeros((200, 1), dtype=np.uint8)])
    C[:2, 6] = 1
    known = np.zeros(C.shape)
    known[0, 6] = -1
    found = find_noisy_labels(small.X, C, known=known, method="CandidateRidge")
    assert found.verdict[found.column == 6].tolist() == ["removed", "unjudged"]


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
    found = find_noisy_labels(small.X, C, method="CandidateRidge")
    plain = find_noisy_labels(small.X, small.candidates, method="CandidateRidge")
    np.testing.assert_array_equal(found.confidence[found.column < 6], plain.confidence)
    assert (~found.judged[found.column >= 6]).all()
    assert len(found.clean_lists()[0]) == 250 + (~plain.removed)[plain.row == 0].sum()


def test_more_tags_than_memory_are_refused_with_advice(small):
    cell = 200 * 150 / 1e9
    with pytest.raises(InputError, match=r"needs about 0\.00018 GB") as refused:
        find_noisy_labels(small.X, small.candidates, method="CandidateRidge", max_memory=3.5 * cell)
    enough = int(re.search(r"min_count to (\d+) to judge only the 3 most", str(refused.value))[1])
    counts = small.candidates.sum(axis=0)
    assert (counts >= enough).sum() == 3
    # The kernel of Sieve takes 200 x 200.
    with pytest.raises(InputError, match=r"200 rows need about 0\.0011 GB"):
        find_noisy_labels(small.X, small.candidates, max_memory=3.5 * cell)
    few = Sieve(max_kernel_rows=100, n_landmarks=10, max_iter=2)
    find_noisy_labels(small.X, small.candidates, method=few, max_memory=10 * cell)


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
        with pytest.raises(InputError, match=f"{what} has a column 'x', which is no label"):
            confidence(table.rename(columns={"b": "x"}))


def test_groups_stay_together(small):
    groups = np.repeat(np.arange(100), 2)
    seen = []

    class Spy(CandidateRidge):
        def disambiguate(self, X, candidates):
            seen.append(X)
            return super().disambiguate(X, candidates)

    find_noisy_labels(small.X, small.candidates, method=Spy(), groups=groups)
    for X in seen:
        rows = [int(np.flatnonzero((small.X == x).all(axis=1))[0]) for x in X]
        _, counts = np.unique(groups[rows], return_counts=True)
        assert (counts == 2).all()


@pytest.mark.parametrize("nothing", [None, np.nan, pd.NA])
@pytest.mark.parametrize("cv", [3, GroupKFold(3)], ids=["number", "splitter"])
def test_a_row_without_a_group_stands_alone(small, nothing, cv):
    named = ["a", 2, "c", 4.5] * 25

    def confidence(groups):
        return find_noisy_labels(
            small.X, small.candidates, method="CandidateRidge", groups=groups, cv=cv
        ).confidence

    alone = [f"row {i:02}" for i in range(100)]
    np.testing.assert_array_equal(confidence(named + [nothing] * 100), confidence(named + alone))


def test_the_names_are_exported():
    assert {"find_noisy_labels", "CleanThenFit"} <= set(schirn.__all__)
