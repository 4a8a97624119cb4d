"""The share of wrong tags by design: unbiased, whatever is asked and whatever the curve says."""

import re

import numpy as np
import pytest
from scipy import stats

from schirn.cleaning import Departed, MissingTags, NoisyLabels, _share, find_noisy_labels
from schirn.exceptions import InputError


def made_up(seed=0, n_rows=400, wrong=0.2, apart=1.0):
    """A ranking that parts right and wrong tags by `apart` deviations, and what is right."""
    rng = np.random.default_rng(seed)
    row, column = np.nonzero(rng.random((n_rows, 6)) < 0.4)
    right = rng.random(len(row)) >= wrong
    confidence = 1 / (1 + np.exp(-rng.normal(size=len(row)) - apart * right))
    judged = np.ones(len(row), dtype=bool)
    names = list("abcdef")
    ranking = NoisyLabels.from_arrays(n_rows, names, row, column, confidence, judged, "made up")
    return ranking, right


def answer(ranking, right, questions):
    return ranking.answered(questions, ranking.matrix(right)[questions.row, questions.column])


def after_rounds(ranking, right, seed, order, n_rounds=4):
    for k in range(n_rounds):
        options = {"order": order} if k and order != "tag" else {}
        options |= {"tag": "a"} if k and order == "tag" else {}
        ranking = answer(
            ranking, right, ranking.questions(25, random_state=9 * seed + k, **options)
        )
    return ranking


@pytest.mark.parametrize(
    ("p", "n_hits", "variance"),
    [
        # Observed: (8 (0.7 / 0.2)² + 12 (0.3 / 0.2)²) (1 - 0.2); predicted: 84.
        (0.3, 8, 100),
        # Predicted: 100 · 0.4 · 0.6 (1 / 0.2 - 1); observed: 84.
        (0.4, 5, 96),
    ],
)
def test_the_interval_of_one_round_by_hand(monkeypatch, p, n_hits, variance):
    """20 of 100 tags are asked about, so π = 0.2. Only the predictions p are replaced."""
    monkeypatch.setattr(_share, "cross_fitted", lambda work: np.full(len(work.row), p))
    ranking = NoisyLabels.from_arrays(
        n_rows=100,
        label_names=["a"],
        row=np.arange(100),
        column=np.zeros(100, dtype=int),
        confidence=np.linspace(0.1, 0.9, 100),
        judged=np.ones(100, dtype=bool),
        method="made up",
    )
    ranking = ranking.answered(ranking.questions(20), np.arange(20) >= n_hits)
    # Σ p + Σ (y - p) / π
    n_wrong = 100 * p + (n_hits * (1 - p) - (20 - n_hits) * p) / 0.2
    assert n_wrong == pytest.approx(5 * n_hits)
    assert ranking.wrong_share == pytest.approx(n_wrong / 100)
    # The number of wrong tags is an integer, so half a tag is added to the normal quantile.
    half = 1.645 * np.sqrt(variance) + 0.5
    interval = ((n_wrong - half) / 100, (n_wrong + half) / 100)
    assert ranking.wrong_share_interval == pytest.approx(interval)


@pytest.mark.parametrize("order", ["limit", "suspicious", "close", "tag"])
def test_the_interval_covers_the_share_in_every_order(order):
    """Of 24 audits, binomial(24, 0.9) is below 18 with a probability of 1%."""
    n_covered = 0
    errors = []
    widths = []
    for seed in range(24):
        ranking, right = made_up(seed, apart=[0.0, 1.0, 2.0, 4.0][seed % 4])
        ranking = after_rounds(ranking, right, seed, order)
        low, high = ranking.wrong_share_interval
        share = (~right).mean()
        n_covered += low <= share <= high
        errors.append(ranking.wrong_share - share)
        widths.append(high - low)
    assert n_covered >= 18
    # Unbiased: the mean of 24 errors is within three of its standard deviations.
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(24)
    # Neither too narrow nor too wide: 1.645 standard deviations on each side, and a little more,
    # because the larger variance counts. Half and twice the width are outside these limits.
    assert 1.25 < np.mean(widths) / 2 / np.std(errors) < 2.75


@pytest.mark.parametrize("wrong", [0.02, 0.97])
def test_the_interval_covers_a_share_near_a_bound(wrong):
    """With few hits or misses, their variance says nothing: a useless ranking, 50 answers."""
    n_covered = 0
    widths = []
    for seed in range(60):
        ranking, right = made_up(seed, wrong=wrong, apart=0)
        ranking = after_rounds(ranking, right, seed, "limit", n_rounds=2)
        low, high = ranking.wrong_share_interval
        n_covered += low <= (~right).mean() <= high
        widths.append(high - low)
    # Binomial(60, 0.9) is below 48 in 1% of cases; without regard to few hits, about half cover.
    assert n_covered >= 48
    # Not much wider than that of Clopper and Pearson for one hit in 30 spread answers.
    assert np.mean(widths) < 1.25 * (stats.beta.ppf(0.95, 2, 29) - stats.beta.ppf(0.05, 1, 30))


@pytest.mark.parametrize(("n", "k"), [(1, 0), (5, 0), (25, 0), (25, 3), (25, 22), (25, 25)])
def test_few_hits_have_about_the_interval_of_clopper_and_pearson(n, k):
    ranking, _ = made_up(apart=0)
    questions = ranking.questions(25).part(np.arange(25) < n)
    # A fitted curve must not make the interval narrower.
    low, high = ranking.answered(questions, np.arange(n) >= k).wrong_share_interval
    exact_low = stats.beta.ppf(0.05, k, n - k + 1) if k else 0
    exact_high = stats.beta.ppf(0.95, k + 1, n - k) if k < n else 1
    assert low <= exact_low + 0.01
    assert high >= exact_high - 0.01
    # Nor is it much wider: with few hits, only the lower bound may be that of the variance.
    assert high - low <= exact_high - exact_low + 0.04


def test_nothing_is_known_about_tags_that_are_not_ranked():
    ranking = find_noisy_labels(np.eye(40, 3), np.eye(40, dtype=int), min_count=5)
    assert not ranking.judged.any()
    assert np.isnan(ranking.wrong_share)
    assert ranking.wrong_share_interval == (0, 1)


def test_the_sentence_says_which_tags_it_is_about():
    ranking, right = made_up()
    ranking = answer(ranking, right, ranking.questions(25))
    assert "of the tags are wrong" in ranking.sentence
    judged = ranking.column > 0
    columns = (ranking.row, ranking.column, ranking.model_confidence)
    partly = NoisyLabels.from_arrays(400, list("abcdef"), *columns, judged, "made up")
    partly = answer(partly, right, partly.questions(25))
    assert f"of the {judged.sum():,} ranked tags are wrong" in partly.sentence
    ruled = partly.with_rule("b", "keep")
    assert f"of the {(ranking.column > 1).sum():,} ranked tags without a rule" in ruled.sentence


def test_rounds_estimate_without_bias_although_the_curve_is_wrong():
    """The ranking is upside down for half of the names, so that no curve fits."""
    errors = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        ranking, right = made_up(seed, apart=3)
        p = np.where(ranking.column % 2, ranking.model_confidence, 1 - ranking.model_confidence)
        values = (ranking.row, ranking.column, p, ranking.judged, "upside down")
        ranking = NoisyLabels.from_arrays(ranking.n_rows, ranking.label_names, *values)
        ranking = after_rounds(ranking, right, int(rng.integers(1000)), "suspicious")
        errors.append(ranking.wrong_share - (~right).mean())
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40)


def test_chosen_tags_change_the_bounds_only():
    ranking, right = made_up()
    suspects = ranking.suspects(40)
    chosen = answer(ranking, right, suspects)
    assert np.isnan(chosen.wrong_share)
    n_wrong = (chosen.answer == 0).sum()
    n_right = (chosen.answer == 1).sum()
    n_tags = len(chosen.row)
    assert chosen.wrong_share_interval == (n_wrong / n_tags, 1 - n_right / n_tags)
    assert "not about a random sample" in chosen.sentence
    # 40 chosen tags that are mostly wrong do not move the estimate from 25 spread ones upwards.
    spread = answer(ranking, right, ranking.questions(25))
    both = answer(spread, right, spread.suspects(40))
    assert abs(both.wrong_share - spread.wrong_share) < 0.05
    assert (both.answer == 0).sum() > (both.answer == 1).sum()


def test_every_fifth_question_of_a_later_round_checks_the_rest():
    ranking, right = made_up()
    first = ranking.questions(25)
    assert (first.round.n_spread, first.round.n_open) == (25, len(ranking.row))
    assert first.inclusion == pytest.approx(np.full(25, 25 / len(ranking.row)))
    after = answer(ranking, right, first)
    for options in ({}, {"order": "suspicious"}, {"order": "close"}, {"tag": "b"}):
        later = after.questions(25, **options)
        assert (later.round.number, later.round.n_spread, len(later)) == (2, 5, 25)
    chosen = after.questions(25, tag="b")
    np.testing.assert_array_equal(np.flatnonzero(chosen.inclusion < 1), [4, 9, 14, 19, 24])
    assert set(chosen.label[chosen.inclusion == 1]) == {"b"}


def test_inclusion_probabilities_are_those_of_the_draws():
    """How often 300 draws ask about each tag, against the probability that the round states."""
    ranking, right = made_up(n_rows=60)
    ranking = answer(ranking, right, ranking.questions(25))
    counts = np.zeros(len(ranking.row))
    stated = np.full(len(ranking.row), np.nan)
    for seed in range(300):
        asked = ranking.questions(25, order="limit", random_state=seed)
        index = ranking._index(asked.row, asked.column, "listed")
        counts[index] += 1
        stated[index] = asked.inclusion
    seen = ~np.isnan(stated)
    assert seen.sum() == len(ranking.worklist.order)
    assert abs(counts[seen] / 300 - stated[seen]).max() < 0.1
    assert (counts[seen] / 300).mean() == pytest.approx(stated[seen].mean(), rel=0.02)


def test_a_round_that_is_answered_in_part_counts_in_part():
    """Stopping in the middle of a round makes the interval wider, but not wrong."""
    errors = []
    for seed in range(40):
        ranking, right = made_up(seed, apart=2)
        ranking = answer(ranking, right, ranking.questions(25, random_state=seed))
        asked = ranking.questions(25, order="suspicious", random_state=seed)
        part = answer(ranking, right, asked.part(np.arange(25) < 12))
        errors.append(part.wrong_share - (~right).mean())
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40)
    # In two parts, a round is still one round.
    whole = answer(ranking, right, asked)
    rest = answer(part, right, asked.part(np.arange(25) >= 12))
    assert whole.wrong_share_interval == pytest.approx(rest.wrong_share_interval)
    assert len(rest.answers.samples) == 2


def test_the_same_estimate_serves_missing_tags():
    n_covered = 0
    errors = []
    widths = []
    for seed in range(30):
        listed, right = made_up(seed, wrong=0.7, apart=2)
        missing = MissingTags(listed.row, listed.column, listed.model_confidence, list("abcdef"))
        none = np.zeros(0, dtype=int)
        values = (none, none, np.zeros(0), np.zeros(0, bool), "made up")
        ranking = NoisyLabels.from_arrays(400, list("abcdef"), *values, missing=missing)
        assert ranking.missing.right_share_interval == (0, 1)
        assert np.isnan(ranking.missing.right_share)
        truth = listed.matrix(right)
        for step in range(3):
            asked = ranking.questions(25, kind="missing", random_state=100 * seed + step)
            ranking = ranking.answered(asked, truth[asked.row, asked.column])
        low, high = ranking.missing.right_share_interval
        said = re.findall(r"[0-9.]+%", ranking.missing.sentence)
        assert not any("." in share for share in said)
        n_covered += low <= right.mean() <= high
        errors.append(ranking.missing.right_share - right.mean())
        widths.append(high - low)
    assert n_covered >= 23
    assert 1.25 < np.mean(widths) / 2 / np.std(errors) < 2.75


def test_forecasts_need_answers_that_support_them():
    ranking, right = made_up(n_rows=1500, wrong=0.3, apart=3)
    assert np.isnan(ranking.expected_wrong(50))
    ranking = answer(ranking, right, ranking.questions(25))
    ranking = answer(ranking, right, ranking.questions(25))
    order = ranking.worklist.order[:50]
    assert ranking.expected_wrong(50) == pytest.approx((~right[order]).sum(), abs=10)
    # The most suspicious tags turn out to be right, which contradicts the forecast.
    suspects = ranking.suspects(12)
    assert np.isnan(ranking.answered(suspects, [True] * 12).expected_wrong(10))


def test_fifty_questions_at_once_are_two_steps():
    ranking, right = made_up(n_rows=1500, wrong=0.1, apart=2)
    asked = ranking.questions(50)
    assert (asked.round.n_spread, asked.round.n_even) == (25, 25)
    assert asked.round.n_ranks == len(ranking.row) // 10
    spread = ranking.questions(50, order="spread")
    wrong = ~ranking.matrix(right)
    n_wrong, n_wrong_spread = (wrong[q.row, q.column].sum() for q in (asked, spread))
    assert n_wrong > n_wrong_spread
    low, high = answer(ranking, right, asked).wrong_share_interval
    assert low <= (~right).mean() <= high


def test_trade_off_is_chosen_afterwards():
    ranking, right = made_up(n_rows=1500, wrong=0.3, apart=2)
    assert [line.removed for line in ranking.trade_off()] == [0] * 6
    for _ in range(3):
        ranking = answer(ranking, right, ranking.questions(25))
    lines = ranking.trade_off()
    assert [line.precision for line in lines] == [0.95, 0.9, 0.8, 0.7, 0.6, 0.5]
    assert (np.diff([line.removed for line in lines]) >= 0).all()
    assert (np.diff([line.wrong_left for line in lines]) <= 0).all()
    for line in lines:
        other = ranking.at(precision=line.precision)
        assert line.removed == other.removed.sum()
        assert other.confidence is not None
        low, high = line.right_share_interval
        assert low <= line.right_share <= high
        assert line.right_share >= line.precision - 1e-9
        assert (~right[other.removed]).mean() > line.right_share - 0.12
    last = lines[-1]
    n_left = (~right).sum() - (~right[ranking.at(precision=0.5).removed]).sum()
    low, high = ranking.wrong_share_interval
    assert abs(last.wrong_left - n_left) < (high - low) * len(right)
    with pytest.raises(InputError, match="targets"):
        ranking.trade_off([1.5])
    with pytest.raises(InputError, match="precision"):
        ranking.at(precision=0)


def test_a_target_out_of_reach_is_said_with_one_that_acts():
    ranking, right = made_up(n_rows=1500, wrong=0.4, apart=1)
    assert ranking.trade_off_sentence == ""
    for _ in range(4):
        ranking = answer(ranking, right, ranking.questions(25))
    strict = ranking.at(precision=0.99)
    assert strict.removed.sum() == (ranking.answer == 0).sum()
    sentence = strict.trade_off_sentence
    assert "At a target of 99%, only tags that you called wrong are removed" in sentence
    assert "fewer than 99% of the others are wrong" in sentence
    target = float(sentence.partition("(precision=")[2].split(" ")[0])
    acting = strict.at(precision=target)
    assert acting.removed.sum() > strict.removed.sum()
    assert acting.trade_off_sentence == ""


def test_rules_decide_all_tags_of_a_name():
    ranking, right = made_up(n_rows=800)
    for _ in range(2):
        ranking = answer(ranking, right, ranking.questions(25))
    ruled = ranking.with_rule("a", "drop").with_rule("b", "keep")
    assert ruled.rules == {"a": "drop", "b": "keep"}
    is_open = np.isnan(ruled.answer)
    a, b = ruled.label == "a", ruled.label == "b"
    assert ruled.removed[a & is_open].all()
    assert not ruled.removed[b & is_open].any()
    # An answer about one tag wins over the rule.
    np.testing.assert_array_equal(ruled.removed[~is_open], ruled.answer[~is_open] == 0)
    assert not set(ruled.questions(500).label) & {"a", "b"}
    assert len(ruled.questions(5, tag="a")) == 0
    low, high = ruled.wrong_share_interval
    others = ~(a | b)
    assert low <= (~right[others]).mean() <= high
    assert "a" not in set(ruled.remove(200).label[ruled.remove(200).policy.removals])
    # It is undone like a change.
    undone = ruled.with_rule("a", "ask").with_rule("b", "ask")
    assert undone.rules == {}
    np.testing.assert_array_equal(undone.removed, ranking.removed)
    assert undone.wrong_share_interval == ranking.wrong_share_interval
    with pytest.raises(InputError, match="there is no label 'z'"):
        ranking.with_rule("z", "keep")
    with pytest.raises(InputError, match="rule"):
        ranking.with_rule("a", "perhaps")


def test_removals_by_rule_are_no_evidence_for_a_target():
    ranking, right = made_up(n_rows=800, apart=2)
    for _ in range(2):
        ranking = answer(ranking, right, ranking.questions(25))
    ruled = ranking.with_rule("a", "drop")
    n_ruled = ruled.removed_by_rule
    assert n_ruled > 100
    wrong_there = (ruled.answer == 0) & (ruled.label == "a")
    assert wrong_there.any()
    for line in ruled.trade_off():
        assert line.by_rule == n_ruled
        assert line.removed + n_ruled == ruled.at(precision=line.precision).removed.sum()
        n_called_wrong = line.removed - line.unanswered
        n_right = n_called_wrong + line.unanswered * np.nan_to_num(line.unanswered_right_share)
        assert line.right_share == pytest.approx(n_right / line.removed)
    # An answer about a tag with a rule says nothing about the share of the others.
    (strict,) = ruled.trade_off([1.0])
    n_wrong = ruled.wrong_share * ruled.n_in_share
    assert strict.wrong_left == pytest.approx(n_wrong - strict.removed + wrong_there.sum())
    summary = ruled.summary()
    assert (summary["removed_by_rule"], summary["checked"]) == (n_ruled, False)
    assert ranking.summary()["checked"]
    kept = ranking.with_rule("b", "keep")
    assert (kept.summary()["removed_by_rule"], kept.summary()["checked"]) == (0, True)
    reasons = {change.why for change in ruled.changes() if change.confidence is None}
    assert reasons == {"a rule drops every a"}


def test_a_rule_alone_has_no_share_of_right_removals():
    ranking, _ = made_up(n_rows=200)
    (line,) = ranking.with_rule("a", "drop").trade_off([0.9])
    assert line.removed == 0
    assert line.by_rule > 0
    assert np.isnan(line.right_share)
    assert np.isnan(line.right_share_interval).all()


def test_a_rule_keeps_a_name_from_being_suggested():
    missing = MissingTags(np.arange(6), np.arange(6) % 2, np.linspace(0.4, 0.9, 6), list("ab"))
    one = np.zeros(1, dtype=int)
    values = (one, one, np.ones(1), np.ones(1, dtype=bool), "made up")
    ranking = NoisyLabels.from_arrays(6, list("ab"), *values, missing=missing)
    ruled = ranking.with_rule("b", "drop")
    assert set(ruled.questions(9, kind="missing").label) == {"a"}
    assert ruled.add(6).added.sum() == 3
    assert ranking.add(6).added.sum() == 6


def test_questions_say_why_they_are_asked():
    ranking, right = made_up(n_rows=1500, wrong=0.3, apart=2)
    reason = ranking.questions(50).reason
    assert reason.startswith("25 of the 50 questions are spread over all tags, to measure the sha")
    assert "25 are about the most suspicious tags, to find how many can be removed" in reason
    assert ranking.questions(25).reason.startswith("the questions are spread over all tags")
    later = answer(ranking, right, ranking.questions(25))
    assert later.questions(25).reason.startswith("5 of the 25 questions are spread")
    assert later.questions(25, order="suspicious").reason.endswith("the others were chosen")
    assert ranking.suspects(5).reason == ""


def test_a_lower_target_says_how_many_tags_it_really_removes():
    """Each row keeps one tag, so that fewer go than the ranking allows."""
    rng = np.random.default_rng(0)
    ranking, right = made_up(n_rows=1500, wrong=0.4, apart=1)
    strict = ranking.at(precision=0.99)
    for _ in range(4):
        strict = answer(strict, right, strict.questions(25, random_state=int(rng.integers(99))))
    more = strict.at(precision=strict.next_target).removed.sum() - strict.removed.sum()
    assert f"{more:,} more would be" in strict.trade_off_sentence


def test_the_number_of_wrong_tags_left_has_bounds():
    ranking, right = made_up(n_rows=1500, wrong=0.3, apart=2)
    assert np.isnan(ranking.trade_off([0.9])[0].wrong_left_interval).all()
    ranking = answer(ranking, right, ranking.questions(25))
    low, high = ranking.wrong_share_interval
    strict, loose = ranking.trade_off([1.0, 0.5])
    n_wrong = int((ranking.answer == 0).sum())
    bounds = (low * ranking.n_in_share - n_wrong, high * ranking.n_in_share - n_wrong)
    assert strict.wrong_left_interval == pytest.approx(bounds)
    assert loose.removed > strict.removed
    least, most = loose.wrong_left_interval
    assert 0 <= least <= loose.wrong_left <= most < strict.wrong_left_interval[1]
    n_left = (~right).sum() - (~right[ranking.at(precision=0.5).removed]).sum()
    assert least <= n_left <= most


def test_answers_that_no_target_can_act_on_say_what_helps():
    ranking, right = made_up(n_rows=1500, wrong=0.02, apart=0.1)
    for _ in range(2):
        ranking = answer(ranking, right, ranking.questions(25))
    assert ranking.next_target is None
    assert ranking.trade_off_sentence.endswith(
        "no target down to 50% would remove others: answer more, decide frequent tags by rule, or "
        "learn from more columns."
    )


@pytest.mark.parametrize("departed_are_wrong", [False, True])
def test_tags_that_have_left_the_table_may_all_be_wrong_or_none(departed_are_wrong):
    rng = np.random.default_rng(0)
    n_listed, n_departed = 600, 60
    confidence = rng.random(n_listed)
    is_wrong = rng.random(n_listed) > confidence
    ranking = NoisyLabels.from_arrays(
        n_rows=n_listed,
        label_names=["a"],
        row=np.arange(n_listed),
        column=np.zeros(n_listed, dtype=int),
        confidence=confidence,
        judged=np.ones(n_listed, dtype=bool),
        method="test",
    )
    departed = Departed(
        np.arange(n_departed),
        np.zeros(n_departed, dtype=int),
        np.full(n_departed, 0.01),
        np.ones(n_departed, dtype=bool),
        np.full(n_departed, np.nan),
    )
    ranking = ranking.with_departed(departed)
    for _ in range(3):
        asked = ranking.questions(50)
        ranking = ranking.answered(asked, ~is_wrong[asked.row])
    low, high = ranking.wrong_share_interval
    share = (is_wrong.sum() + departed_are_wrong * n_departed) / (n_listed + n_departed)
    assert low <= share <= high
    assert high - low > n_departed / (n_listed + n_departed)
    assert ranking.n_in_share == n_listed + n_departed
    assert 0 <= ranking.expected_wrong(20) <= 20
    assert len(ranking.trade_off()) == 6
