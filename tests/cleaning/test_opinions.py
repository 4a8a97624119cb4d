"""Opinions of others: experts of the ranking, never answers."""

import numpy as np
import pandas as pd
import pytest

from schirn import find_noisy_labels
from schirn.cleaning import MissingTags, NoisyLabels, parse_opinion
from schirn.exceptions import InputError


def made_up(seed=0, n_rows=400, apart=1.0):
    rng = np.random.default_rng(seed)
    row, column = np.nonzero(rng.random((n_rows, 5)) < 0.5)
    right = rng.random(len(row)) >= 0.25
    confidence = 1 / (1 + np.exp(-rng.normal(size=len(row)) - apart * right))
    judged = np.ones(len(row), dtype=bool)
    names = list("abcde")
    ranking = NoisyLabels.from_arrays(n_rows, names, row, column, confidence, judged, "made up")
    return ranking, right


def auc(ranking, right):
    """Share of pairs of an open wrong tag and an open right one that are in order."""
    order = ranking.worklist.order
    is_right = right[order]
    n_wrong_before = np.cumsum(~is_right)
    return n_wrong_before[is_right].sum() / (is_right.sum() * (~is_right).sum())


def voice(right, seed, quality):
    """Opinions that are the truth in a share of the cells."""
    rng = np.random.default_rng(100 + seed)
    return np.where(rng.random(len(right)) < quality, right, rng.random(len(right)) < 0.75)


def answered(ranking, right, n=25, **options):
    asked = ranking.questions(n, **options)
    return ranking.answered(asked, ranking.matrix(right)[asked.row, asked.column])


def matrix(ranking, values):
    array = np.full((ranking.n_rows, 5), np.nan)
    array[ranking.row, ranking.column] = values
    return array


def test_a_good_voice_helps_and_a_random_one_does_not_hurt():
    gains, losses = [], []
    for seed in range(6):
        ranking, right = made_up(seed)
        good = ranking.with_opinions(matrix(ranking, voice(right, seed, 0.7)))
        chance = ranking.with_opinions(matrix(ranking, voice(right, seed, 0)))
        gains.append(auc(good, right) - auc(ranking, right))
        losses.append(auc(ranking, right) - auc(chance, right))
        assert good.voices()[0].weight > 0.7
    assert min(gains) > 0.05
    assert np.mean(losses) < 0.002


def test_answers_teach_how_much_a_voice_is_worth():
    """The ranker knows nothing here, so nothing but answers tells that the voice is good."""
    ranking, right = made_up(apart=0.0)
    heard = ranking.with_opinions({"model": matrix(ranking, voice(right, 0, 0.9))})
    assert heard.voices()[0].weight == 0
    before = auc(heard, right)
    after = answered(answered(heard, right), right)
    assert auc(after, right) > before + 0.2
    told = after.voices()[0]
    assert (told.who, told.n_answered) == ("model", 50)
    low, high = told.agreement_interval
    assert low < told.agreement < high
    assert told.agreement == told.n_agree / 50
    assert low > 0.6


def test_a_voice_says_how_good_it_was_and_whether_it_counts():
    ranking, right = made_up(apart=0.0)
    heard = ranking.with_opinions({"model": matrix(ranking, voice(right, 0, 0.9))})
    (before,) = heard.voices()
    assert not before.is_heard
    start = (
        f"model: {len(right):,} opinions, none about an answered tag yet, without influence, since"
    )
    assert before.sentence.startswith(f"{start} they agree with the ranking no more than chance")
    (after,) = answered(answered(heard, right), right).voices()
    assert after.is_heard
    share = f"({after.agreement:.0%}; 90%"
    assert f"{after.n_agree} of 50 agree with your answers {share}" in after.sentence
    assert "without influence" not in after.sentence


def test_opinions_are_never_answers():
    ranking, right = made_up()
    heard = ranking.with_opinions(matrix(ranking, right))
    assert not heard.removed.any()
    assert heard.n_answers == 0
    assert np.isnan(heard.wrong_share)
    assert heard.wrong_share_interval == (0, 1)
    np.testing.assert_array_equal(np.sort(heard.confidence), np.sort(ranking.confidence))
    suspects = heard.suspects(60)
    wrong = ~ranking.matrix(right)[suspects.row, suspects.column]
    assert wrong.mean() > 0.9


def test_all_forms_say_the_same():
    ranking, right = made_up(n_rows=60)
    values = voice(right, 0, 0.8)
    array = matrix(ranking, values)
    rows, names = ranking.row.tolist(), ranking.label.tolist()
    records = [
        (i, name, value, "Ada") for i, name, value in zip(rows, names, values.tolist(), strict=True)
    ]
    words = [(i, name, "yes" if value else "No ", who) for i, name, value, who in records]
    frame = pd.DataFrame(records, columns=["row", "tag", "opinion", "who"])
    expected = ranking.with_opinions({"Ada": array})
    for form in (records, words, frame, pd.DataFrame(array)):
        heard = ranking.with_opinions(form, who="Ada")
        np.testing.assert_array_equal(heard.confidence, expected.confidence)
        assert heard.voices() == expected.voices()
    # Later opinions of a voice replace its earlier ones; others add up.
    both = expected.with_opinions({"Bob": array, "Ada": 1 - array})
    assert [each.who for each in both.voices()] == ["Ada", "Bob"]


def test_a_voice_may_judge_some_cells_and_missing_tags():
    rng = np.random.default_rng(0)
    row, column = np.repeat(np.arange(200), 2), np.tile([0, 1], 200)
    p = rng.random(400)
    right = rng.random(400) < p
    missing = MissingTags(row, column + 1, p, list("abc"))
    none = np.zeros(0, dtype=int)
    values = (none, none, np.zeros(0), np.zeros(0, bool), "made up")
    ranking = NoisyLabels.from_arrays(200, list("abc"), *values, missing=missing)
    cells = zip(row.tolist(), right.tolist(), column.tolist(), strict=True)
    heard = ranking.with_opinions(
        [(i, "abc"[j + 1], value, "model") for i, value, j in cells if i < 100]
    )
    first = heard.missing.worklist.order[:50]
    assert (row[first] < 100).mean() > 0.6
    assert right[first].mean() > 0.9
    wider = heard.with_suggestions([(3, "new"), (4, "a")])
    assert wider.voices()[0].n_opinions == heard.voices()[0].n_opinions == 200


def test_find_noisy_labels_takes_opinions(small):
    opinions = small.y_true.astype(float)
    direct = find_noisy_labels(small.X, small.candidates, opinions=opinions)
    later = find_noisy_labels(small.X, small.candidates).with_opinions(opinions)
    np.testing.assert_array_equal(direct.confidence, later.confidence)
    assert direct.voices()[0].who == "opinion"


def test_voices_without_variety_or_cells_have_no_weight():
    ranking, right = made_up(n_rows=30)
    for values in (np.ones(len(right)), np.full(len(right), np.nan)):
        heard = ranking.with_opinions(matrix(ranking, values))
        assert heard.voices()[0].weight == 0
        np.testing.assert_array_equal(heard.worklist.order, ranking.worklist.order)
        after = answered(heard, right, order="spread")
        assert np.isfinite(after.confidence).all()
    assert ranking.with_opinions([]).voices() == []


def test_bad_opinions_raise():
    ranking, _ = made_up(n_rows=10)
    for opinions, message in (
        (np.zeros((3, 5)), "have shape"),
        (np.full((10, 5), 2.0), "probabilities from 0 to 1"),
        ([(0, "z", 1, "Ada")], "there is no label 'z'"),
        ([(10, "a", 1, "Ada")], "row must be a number from 0 to 9"),
        ([(0, "a", "perhaps", "Ada")], "must be yes, no or a probability"),
        ([(0, "a", 1)], "must be .row, tag, opinion, who."),
    ):
        with pytest.raises(InputError, match=message):
            ranking.with_opinions(opinions)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yes", 1),
        ("Yes, the text mentions a coat.", 1),
        ("**No**", 0),
        ("no - it is a jacket", 0),
        ("The tag is correct.", 1),
        ("The tag is not correct.", 0),
        ("Incorrect", 0),
        ("0.35", 0.35),
        ("It could be right or wrong.", None),
        ("I cannot say.", None),
        ("It is not wrong", None),
        ("", None),
        ("7", None),
    ],
)
def test_opinions_are_read_out_of_prose(text, expected):
    assert parse_opinion(text) == expected
