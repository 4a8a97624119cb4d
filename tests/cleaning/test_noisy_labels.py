"""A ranking: suspects, questions, answers, removals, and the tables made of them."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from schirn import CandidateRidge, find_noisy_labels
from schirn.cleaning import MissingTags, NoisyLabels
from schirn.datasets import load_digits_attributes
from schirn.exceptions import InputError
from schirn.labels.matrix import label_lists


@pytest.fixture(scope="module")
def digits():
    return load_digits_attributes(r=2)


@pytest.fixture(scope="module")
def ranking(digits):
    return find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)


def ask(ranking, data, n=25, **options):
    asked = ranking.questions(n, **options)
    return ranking.answered(asked, data.y_true[asked.row, asked.column] == 1)


@pytest.fixture(scope="module")
def answered(ranking, digits):
    return ask(ask(ranking, digits), digits)


def wrong(ranking, data, mask):
    return data.y_true[ranking.row[mask], ranking.column[mask]] == 0


def test_without_answers_nothing_is_removed_or_claimed(digits, ranking):
    np.testing.assert_array_equal(
        np.argwhere(digits.candidates), np.c_[ranking.row, ranking.column]
    )
    assert not ranking.removed.any()
    assert not ranking.added.any()
    assert ranking.is_checked
    assert set(ranking.verdict) == {"kept"}
    assert np.isnan(ranking.wrong_share)
    assert ranking.wrong_share_interval == (0, 1)
    assert "cannot be known" in ranking.sentence
    assert np.isnan(ranking.expected_wrong(10))
    assert ranking.summary()["wrong_share"] is None
    np.testing.assert_array_equal(ranking.clean, digits.candidates)
    np.testing.assert_array_equal(ranking.matrix() > 0, digits.candidates == 1)
    # About a third of the tags are wrong.
    assert 0.2 < ranking.planted_among_suspects() <= 1


def test_suspects_are_the_least_likely_first(digits, ranking):
    suspects = ranking.suspects(200)
    assert len(suspects) == 200
    assert suspects.kind == "listed"
    assert (np.diff(suspects.confidence) >= 0).all()
    assert suspects.confidence[-1] <= np.sort(ranking.confidence)[199] + 1e-12
    assert (digits.y_true[suspects.row, suspects.column] == 0).mean() > 0.9
    assert len(ranking.suspects(0)) == 0
    assert len(ranking.suspects(10**6)) == len(ranking.row)


def test_fifty_answers_remove_wrong_tags(digits, answered):
    assert answered.n_answers == 50
    open_tags = answered.removed & np.isnan(answered.answer)
    assert open_tags.sum() > 1000
    assert wrong(answered, digits, open_tags).mean() > 0.9
    share = wrong(answered, digits, answered.judged).mean()
    low, high = answered.wrong_share_interval
    assert low < share < high
    assert low < answered.wrong_share < high
    assert high - low < 0.25
    assert answered.sentence.startswith("Based on 50 answers, about")
    next_wrong = wrong(answered, digits, answered.worklist.order[:100]).sum()
    assert abs(answered.expected_wrong(100) - next_wrong) < 10


def test_a_few_answers_say_nothing_about_the_share(ranking, digits):
    asked = ranking.questions(25)
    right = digits.y_true[asked.row, asked.column] == 1

    def after(n):
        first = ranking.questions(25)
        return ranking.answered(first, [*right[:n].tolist(), *[None] * (25 - n)])

    for n in (1, 2):
        few = after(n)
        low, high = few.wrong_share_interval
        assert high - low >= 0.5
        assert few.is_share_vague
        assert "too little about the share of wrong tags" in few.sentence
        assert few.trade_off_sentence == ""
        # The figures are there for those who ask.
        assert few.summary()["wrong_share"] == few.wrong_share
    assert after(1).sentence.startswith("1 answer says")
    assert not after(10).is_share_vague
    assert after(10).sentence.startswith("Based on 10 answers, about")


def test_questions_come_in_two_steps_and_never_twice(ranking, digits):
    def ranks_of(ranking, asked):
        order = ranking.worklist.order
        cells = zip(ranking.row[order], ranking.column[order], strict=True)
        place = {cell: k for k, cell in enumerate(cells)}
        return np.array([place[cell] for cell in zip(asked.row, asked.column, strict=True)])

    first = ranking.questions(25)
    share = np.sort(ranks_of(ranking, first)) / len(ranking.row)
    np.testing.assert_array_equal(np.floor(share * 25), np.arange(25))
    same, other = ranking.questions(25), ranking.questions(25, random_state=1)
    assert (same.row == first.row).all()
    assert (other.row != first.row).any()
    after = ranking.answered(first, digits.y_true[first.row, first.column] == 1)
    limit = after.worklist.limit(0.9)
    second = after.questions(30)
    assert second.round.n_spread == 6
    ranks = np.sort(ranks_of(after, second))
    even = ranks[ranks < second.round.n_ranks]
    assert second.round.n_ranks >= limit
    assert len(even) >= 24
    assert np.diff(even).max() <= 2 * second.round.n_ranks / 24
    cells = {
        *zip(first.row, first.column, strict=True),
        *zip(second.row, second.column, strict=True),
    }
    assert len(cells) == 55


def test_a_larger_second_step_asks_about_possible_removals(ranking, digits):
    first = ranking.questions(25)
    after = ranking.answered(first, digits.y_true[first.row, first.column] == 1)
    by_default, along_limit = after.questions(40), after.questions(40, order="limit")
    np.testing.assert_array_equal(by_default.row, along_limit.row)


@pytest.mark.parametrize("n_rows", [150, 300])
def test_fifty_answers_find_most_wrong_tags_of_small_easy_tables(n_rows):
    recall, precision = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        row, column = (x.ravel() for x in np.indices((n_rows, 2)))
        column += 2 * rng.integers(0, 2, len(row))
        right = rng.random(len(row)) >= 0.2
        confidence = 1 / (1 + np.exp(-rng.normal(size=len(row)) - 5 * right))
        judged = np.ones(len(row), dtype=bool)
        ranking = NoisyLabels.from_arrays(
            n_rows, list("abcd"), row, column, confidence, judged, "scores"
        )
        truth = ranking.matrix(right)
        for _ in range(2):
            asked = ranking.questions(25, random_state=seed)
            ranking = ranking.answered(asked, truth[asked.row, asked.column])
        unasked = np.isnan(ranking.answer)
        recall.append(ranking.removed[unasked & ~right].mean())
        precision.append((~right)[ranking.removed & unasked].mean())
    assert np.mean(recall) >= 0.75
    assert np.mean(precision) >= 0.9


@pytest.mark.parametrize("order", ["spread", "limit", "suspicious", "close"])
@pytest.mark.parametrize("kind", ["listed", "missing"])
def test_all_orders_ask_until_nothing_is_left(small, order, kind):
    ranking = find_noisy_labels(small.X, small.candidates)
    tags = ranking if kind == "listed" else ranking.missing
    total = 0
    while len(asked := ranking.questions(90, kind=kind, order=order)):
        cells = zip(asked.row.tolist(), asked.column.tolist(), strict=True)
        total += len(set(cells))
        told = small.y_true[asked.row, asked.column] == 1
        ranking = ranking.answered(asked, told)
    assert total == len(tags.row)
    truth = small.y_true[tags.row, tags.column]
    if kind == "listed":
        np.testing.assert_array_equal(ranking.removed, truth == 0)
        assert ranking.wrong_share == pytest.approx((truth == 0).mean())
        assert ranking.wrong_share_interval == pytest.approx((ranking.wrong_share,) * 2)
    else:
        np.testing.assert_array_equal(ranking.added, truth == 1)


def test_orders_do_what_they_say(answered):
    suspicious = answered.questions(10, order="suspicious")
    # Every fifth question checks the rest.
    is_chosen = np.arange(10) % 5 != 4
    assert (suspicious.inclusion[is_chosen] == 1).all()
    assert (suspicious.inclusion[~is_chosen] < 0.01).all()
    np.testing.assert_array_equal(suspicious.row[is_chosen], answered.suspects(8).row)
    close = answered.questions(10, order="close")
    open_tags = answered.confidence[answered.worklist.order]
    largest = np.sort(np.abs(open_tags - 0.5))[9]
    assert (np.abs(close.confidence[is_chosen] - 0.5) <= largest + 1e-9).all()


def test_answers_add_up_in_any_order(ranking, digits):
    first, second = ranking.questions(20), ranking.questions(40, random_state=3)
    told = [digits.y_true[q.row, q.column] == 1 for q in (first, second)]
    one = ranking.answered(first, told[0]).answered(second, told[1])
    other = ranking.answered(second, told[1]).answered(first, told[0])
    np.testing.assert_array_equal(one.removed, other.removed)
    np.testing.assert_array_equal(one.confidence, other.confidence)
    assert ranking.n_answers == 0
    again = one.answered(first, told[0])
    np.testing.assert_array_equal(again.confidence, one.confidence)
    with pytest.raises(InputError, match="was answered both right and wrong"):
        one.answered(first, ~told[0])


def test_a_repeated_question_counts_once(ranking):
    asked = ranking.questions(25)
    once = ranking.answered(asked.part([0, 1]), [False, True])
    again = ranking.answered(asked.part([0, 1] * 12), [False, True] * 12)
    assert again.n_answers == 2
    assert again.wrong_share_interval == once.wrong_share_interval
    with pytest.raises(InputError, match="was answered both right and wrong"):
        ranking.answered(asked.part([0, 0]), [True, False])


@pytest.mark.parametrize("inclusion", [0, -0.1, 1.5, np.nan])
def test_an_inclusion_probability_is_above_0_and_at_most_1(ranking, inclusion):
    asked = ranking.questions(3)
    edited = replace(asked, inclusion=np.array([0.5, inclusion, 0.5]))
    with pytest.raises(InputError, match="question 1 has the inclusion probability"):
        ranking.answered(edited, [True] * 3)


def test_unsure_tags_are_kept_and_say_nothing(ranking, digits):
    asked = ranking.questions(40)
    told = (digits.y_true[asked.row, asked.column] == 1).tolist()
    half = [value if k % 2 else None for k, value in enumerate(told)]
    unsure = ranking.answered(asked, half)
    cells = list(zip(asked.row.tolist(), asked.label.tolist(), strict=True))
    only = ranking.answered(ranking.questions_about(cells[1::2]), told[1::2])
    assert unsure.n_answers == only.n_answers == 20
    skipped = unsure.questions_about(cells[::2])
    assert not unsure.remove(10**6).removed[unsure.answer == 0.5].any()
    assert unsure.worklist.posterior.share_interval(500) == pytest.approx(
        only.worklist.posterior.share_interval(500), rel=0.05
    )
    # They are not asked again, but a definite answer counts, and "unsure" takes none away.
    later = unsure.questions(500, order="spread")
    assert not set(zip(later.row.tolist(), later.label.tolist(), strict=True)) & set(cells)
    whole = unsure.answered(skipped, told[::2])
    assert whole.n_answers == 40 == whole.answered(skipped, [None] * 20).n_answers


def test_answers_change_the_ranking_by_what_they_teach():
    """One name is always wrong, which the ranker does not know."""
    rng = np.random.default_rng(0)
    row, column = np.nonzero(rng.random((400, 10)) < 0.4)
    ranking = NoisyLabels.from_arrays(
        400, list("abcdefghij"), row, column, rng.random(len(row)), np.ones(len(row), bool), "none"
    )
    asked = ranking.questions(150)
    after = ranking.answered(asked, asked.label != "c")
    assert (after.suspects(60).label == "c").mean() > 0.9
    assert (ranking.suspects(60).label == "c").mean() < 0.3


def test_ordered_removals_are_not_checked(digits, ranking, answered, tmp_path):
    removed = ranking.remove(200)
    assert removed.removed.sum() == 200
    assert not removed.is_checked
    assert removed.confidence[removed.removed].max() <= np.sort(ranking.confidence)[220]
    assert "not checked" in repr(removed)
    assert not removed.summary()["checked"]
    removed.changes().write(tmp_path / "changes.csv")
    assert pd.read_csv(tmp_path / "changes.csv")["why"].str.contains("not checked").all()
    below = ranking.remove(below=0.3)
    assert below.confidence[below.removed].max() < 0.3
    assert not answered.changes().changes[0].why.endswith("not checked)")
    # Answers win over orders.
    suspects = removed.suspects(5)
    assert removed.answered(suspects, [True] * 5).removed.sum() == 195
    assert ranking.remove(0).removed.sum() == 0
    for arguments in ({}, {"k": 3, "below": 0.5}):
        with pytest.raises(InputError, match="either a number of tags or below"):
            ranking.remove(**arguments)


def test_limits_of_a_row(ranking):
    free = ranking.at(keep_one=False).remove(below=0.9).clean.sum(axis=1)
    one_left = ranking.remove(below=0.9).clean.sum(axis=1)
    assert free.min() == 0 < one_left.min()


def test_missing_tags_are_ranked_asked_and_added(digits):
    rng = np.random.default_rng(0)
    given = digits.y_true * (rng.random(digits.y_true.shape) > 0.1)
    ranking = find_noisy_labels(digits.X, given)
    missing = ranking.missing
    truth = digits.y_true[missing.row, missing.column] == 1
    best = np.argsort(-missing.confidence)[:100]
    assert truth[best].mean() > 0.9
    assert not ranking.added.any()
    for _ in range(2):
        ranking = ask(ranking, digits, kind="missing")
    added = ranking.added
    assert truth[added].mean() > 0.85
    assert truth[added].sum() > 0.5 * truth.sum()
    assert (ranking.clean.sum(), ranking.clean_sparse.sum()) == (given.sum() + added.sum(),) * 2
    assert {change.change for change in ranking.changes()} == {"addition"}
    ordered = find_noisy_labels(digits.X, given).add(above=0.9)
    assert ordered.added.any()
    assert not ordered.is_checked
    assert ordered.missing.confidence[ordered.added].min() >= 0.9
    certificate = ranking.certify(0.8, of="added")
    assert certificate.n_tags == (added & np.isnan(ranking.missing.answer)).sum()


def test_apply_returns_the_container_that_came_in(small):
    names = [f"t{j}" for j in range(small.candidates.shape[1])]
    ranking = find_noisy_labels(small.X, small.candidates, label_names=names).remove(40)
    C, expected = small.candidates, ranking.clean
    np.testing.assert_array_equal(ranking.apply(C), expected)
    assert ranking.apply(C.astype(bool)).dtype == bool
    assert (ranking.apply(sp.csr_array(C)) != sp.csr_array(expected)).nnz == 0
    frame = pd.DataFrame(C, columns=names)[names[::-1]]
    cleaned = ranking.apply(frame)
    np.testing.assert_array_equal(cleaned[names].to_numpy(), expected)
    assert list(cleaned.columns) == names[::-1]
    lists = [[names[j] for j in np.flatnonzero(row)] for row in C]
    assert ranking.apply(lists) == label_lists(ranking.clean, ranking.label_names)
    texts = pd.Series([";".join(tags) for tags in lists], index=np.arange(len(lists)) + 7)
    series = ranking.apply(texts)
    assert series.index[0] == 7
    assert series.tolist() == list(map(";".join, label_lists(ranking.clean, ranking.label_names)))


def test_summaries_and_tables(answered):
    whole, labels = answered.summary(), answered.labels()
    assert whole["tags"] == sum(label["candidates"] for label in labels) == len(answered.row)
    assert whole["removed"] == sum(label["removed"] for label in labels) == answered.removed.sum()
    assert labels[0]["removed"] == max(label["removed"] for label in labels)
    frame = answered.to_pandas()
    assert answered.to_polars().to_dicts() == frame.to_dict("records")
    assert list(frame.columns) == ["row", "label", "confidence", "verdict"]
    assert frame["label"].tolist() == answered.label.tolist()
    json.dumps(whole, allow_nan=False)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_label_names_may_be_an_array_of_numbers(small, form):
    names = np.arange(10, 70, 10)
    C = form(small.candidates)
    ranking = find_noisy_labels(small.X, C, label_names=names, method="CandidateRidge")
    assert ranking.label_names == ["10", "20", "30", "40", "50", "60"]
    assert ranking.label[0] in ranking.label_names
    with pytest.raises(InputError, match="label_names holds '10' twice"):
        find_noisy_labels(small.X, C, label_names=np.full(6, 10))


def test_bad_questions_and_answers_raise(ranking):
    asked = ranking.questions(3)
    for right in ([True] * 2, ["maybe"] * 3, "yes", True, [2, 0, 1], [[True] * 3]):
        with pytest.raises(InputError, match="right must hold"):
            ranking.answered(asked, right)
    with pytest.raises(InputError, match="questions must be what"):
        ranking.answered([(0, 1)], [True])
    with pytest.raises(InputError, match="there is no label 'nothing'"):
        ranking.questions_about([(0, "nothing")])
    absent = next(
        name
        for name in ranking.label_names
        if name not in label_lists(ranking.clean, ranking.label_names)[0]
    )
    with pytest.raises(InputError, match="row 0 has no listed tag in column"):
        ranking.questions_about([(0, absent)])
    for options in ({"n": 0}, {"kind": "all"}, {"order": "best"}):
        with pytest.raises(InputError):
            ranking.questions(**options)


def test_a_table_that_cannot_be_ranked():
    ranking = find_noisy_labels(np.eye(3), [["a"], ["b"], ["c"]])
    assert not ranking.judged.any()
    assert len(ranking.questions(5)) == 0
    assert len(ranking.suspects()) == 0
    assert ranking.wrong_share_interval == (0, 1)
    assert "none is ranked" in ranking.sentence
    assert np.isnan(ranking.planted_among_suspects())
    assert ranking.summary()["removed"] == 0
    assert len(ranking.questions(5, kind="missing")) == 0
    empty = ranking.answered(ranking.suspects(), [])
    assert empty.n_answers == 0
    assert not empty.removed.any()


def test_tags_have_the_index_of_their_frame():
    X = np.random.default_rng(0).normal(size=(20, 3))
    tags = pd.Series(["a;b", "b"] * 10, index=[f"photo {i}" for i in range(20)])
    ranking = find_noisy_labels(X, tags, method=CandidateRidge())
    frame = ranking.remove(3).to_pandas()
    assert frame.index.tolist() == tags.index[frame.row].tolist()
    assert frame.loc["photo 0", "label"].tolist() == ["a", "b"]


def test_frames_of_any_library_come_back():
    X = np.random.default_rng(0).normal(size=(60, 3))
    values = np.random.default_rng(1).random((60, 3)) < 0.5
    columns = dict(zip("abc", values.T, strict=True))
    polars, arrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    for frame in (pd.DataFrame(columns), polars.DataFrame(columns), arrow.table(columns)):
        ranking = find_noisy_labels(X, frame, method=CandidateRidge()).remove(5)
        copy = ranking.apply(frame)
        assert type(copy) is type(frame)
        cells = np.column_stack([np.asarray(copy[name]) for name in "abc"])
        assert cells.dtype == bool
        assert (cells == ranking.clean).all()
        assert values.sum() - cells.sum() == 5


def test_the_second_questions_are_about_suspects_even_if_somebody_was_unsure():
    digits = load_digits_attributes(r=1).subset(range(400))
    ranking = find_noisy_labels(digits.X, digits.candidates)
    asked = ranking.questions(25)
    right = (digits.y_true[asked.row, asked.column] == 1).tolist()
    second = ranking.answered(asked, [None, *right[1:]]).questions(25)
    assert second.confidence.max() < np.median(ranking.confidence)


def test_answers_may_be_words():
    ranking = NoisyLabels.from_arrays(
        4, ["a"], np.arange(4), np.zeros(4, int), np.full(4, 0.5), np.ones(4, bool), "test"
    )
    asked = ranking.questions_about((row, "a") for row in range(4))
    words = ranking.answered(asked, ["yes", "No", "?", " wrong "])
    assert words.answer.tolist() == [1, 0, 0.5, 0]
    for wrong in ("perhaps", ""):
        with pytest.raises(InputError, match="must hold True, False or None, or yes, no or"):
            ranking.answered(asked, ["yes", "yes", wrong, "no"])


def test_questions_and_missing_tags_are_tables():
    pytest.importorskip("pandas")
    missing = MissingTags(np.array([1]), np.array([0]), np.array([0.75]), ["a"])
    ranking = NoisyLabels.from_arrays(
        2, ["a"], np.array([0]), np.array([0]), np.array([0.25]), np.ones(1, bool), "test",
        missing=missing,
    )  # fmt: skip
    expected = {"row": [0], "label": ["a"], "confidence": [0.25]}
    assert ranking.suspects(5).to_pandas().to_dict("list") == expected
    expected = {"row": [1], "label": ["a"], "confidence": [0.75]}
    assert ranking.missing.to_pandas().to_dict("list") == expected
