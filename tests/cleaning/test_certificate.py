"""Certificates: the e-process, its bound, the order of drawing, files and checks."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from schirn.cleaning import Certificate, NoisyLabels
from schirn.cleaning.certificate import e_values, tags_digest
from schirn.exceptions import InputError
from tests.reference.rank_posterior import EProcess


def ranking_of(n_rows=40, n_labels=5, seed=0):
    """A ranking of made-up confidences, and whether each tag is right."""
    rng = np.random.default_rng(seed)
    row, column = np.nonzero(rng.random((n_rows, n_labels)) < 0.6)
    confidence = rng.random(len(row))
    names = [f"tag {j}" for j in range(n_labels)]
    judged = np.ones(len(row), bool)
    ranking = NoisyLabels.from_arrays(n_rows, names, row, column, confidence, judged, "made up")
    return ranking, rng.random(len(row)) < confidence


def answer(certificate, right, n):
    """Answer the next n questions by the truth."""
    ranking, asked = certificate.ranking, certificate.questions(n)
    place = {cell: k for k, cell in enumerate(zip(ranking.row, ranking.column, strict=True))}
    told = [bool(right[place[cell]]) for cell in zip(asked.row, asked.column, strict=True)]
    return certificate.answered(asked, told)


def tags_of(ranking, mask):
    return set(zip(ranking.row[mask].tolist(), ranking.label[mask].tolist(), strict=True))


def check(certificate, ranking, removed=None):
    """Check a certificate against the copy that a ranking would make."""
    names = (ranking.n_rows, ranking.label_names, ranking.row, ranking.column)
    removed = tags_of(ranking, ranking.removed) if removed is None else removed
    certificate.verify(tags_digest(*names), tags_of(ranking, ranking.row >= 0), removed)


@pytest.fixture
def certified():
    """A certificate of 60 removals that are all wrong."""
    ranking = ranking_of()[0].remove(60)
    certificate = ranking.certify(0.9)
    while not certificate.certified:
        certificate = answer(certificate, np.zeros(len(ranking.row)), 5)
    return certificate


@pytest.mark.parametrize("target", [0.55, 0.9, 0.96])
def test_e_values_are_those_of_the_plain_transcription(target):
    rng = np.random.default_rng(1)
    for n_tags, n_answers, rate in ((50, 50, 0.05), (300, 120, 0.02), (20, 20, 1.0), (9, 9, 0)):
        is_miss = rng.random(n_answers) < rate
        plain, expected = EProcess(n_tags, target), []
        for miss in is_miss.tolist():
            plain.add(miss)
            expected.append(plain.value)
        misses = n_tags * (1 - target)
        values = np.minimum(e_values(is_miss, n_tags, misses), 1e100)
        np.testing.assert_allclose(values, np.minimum(expected, 1e100), rtol=1e-7)
        largest = e_values(is_miss, n_tags, np.array([misses])).max(axis=1, initial=1)
        largest = np.minimum(largest, 1e100)
        np.testing.assert_allclose(largest, min(plain.largest, 1e100), rtol=1e-7)


def test_certifies_at_any_time_and_seldom_wrongly():
    """Sets with exactly 90% wrong tags, watched after every answer and drawn again ten times."""
    rng, false = np.random.default_rng(0), 0
    needed = [1 / (0.05 * (0.9 if not r else 0.1 / r / (r + 1))) for r in range(10)]
    for _ in range(300):
        is_miss = np.arange(200) < 20
        draws = (e_values(rng.permutation(is_miss), 200, 20.0).max() for _ in range(10))
        false += any(largest >= least for largest, least in zip(draws, needed, strict=True))
    assert false <= 0.05 * 300 + 2 * np.sqrt(300 * 0.05 * 0.95)


@pytest.mark.parametrize("way", ["delete lines", "repeat", "other removals"])
def test_no_way_to_answer_gives_more_false_certificates(way):
    """120 simulated people with 100 removals of which exactly 90 are wrong."""
    false = 0
    for seed in range(120):
        ranking = ranking_of(60, 5, seed)[0].at(keep_one=False)
        suspects = ranking.worklist.order
        right = np.zeros(len(ranking.row), dtype=bool)
        right[np.random.default_rng(seed).permutation(suspects[:100])[:10]] = True
        right[suspects[100:]] = True
        certificate = ranking.remove(100).certify(0.9)
        asked = certificate.questions(100)
        told = ranking.matrix(right)[asked.row, asked.column]
        if way == "delete lines":
            # Only the answers that speak for the claim.
            tags = list(zip(asked.row[~told].tolist(), asked.label[~told].tolist(), strict=True))
            chosen = ranking.questions_about(tags)
            certificate = certificate.answered(chosen, np.zeros(len(chosen), dtype=bool))
        elif way == "repeat":
            certificate = certificate.answered(asked, told).answered(asked, told)
        else:
            first = certificate.questions(30)
            ranking = ranking.answered(replace(first, draw=0), told[:30])
            certificate = answer(ranking.remove(70).certify(0.9), right, 70)
            assert certificate.draw == 1
            removed = certificate.ranking.removed & np.isnan(ranking.worklist.answer)
            if right[removed].mean() < 0.1:
                continue
        false += certificate.certified
    assert false <= 6


def test_number_of_the_draw_costs_evidence():
    ranking, _ = ranking_of()
    ranking = ranking.remove(60)
    needed = [ranking.certify(random_state=r).needed for r in range(200)]
    assert needed[0] == pytest.approx(1 / 0.045)
    assert sum(1 / e for e in needed) < 0.05
    # Answers of a certificate that go back into the ranking use up its draw.
    certificate = ranking.certify()
    asked = certificate.questions(3)
    again = ranking.answered(asked, [False] * 3).certify()
    assert again.draw == 1
    assert again.n_tags == 57
    assert not set(again.order) & set(zip(asked.row, asked.label, strict=True))


def test_the_order_follows_from_the_table_and_the_set():
    ranking, _ = ranking_of()
    first, same = (ranking.remove(60).certify(t).order for t in (0.8, 0.9))
    assert first == same != ranking.remove(60).certify(random_state=1).order
    fewer = ranking.remove(55).certify().order
    assert set(fewer) < set(first)
    assert [tag for tag in first if tag in fewer] != fewer


def test_known_misses_that_leave_the_set_do_not_let_known_hits_come_first():
    """The first answers are truthful, and the misses among them are given to the first ranking."""
    n_false = 0
    for seed in range(60):
        ranking = ranking_of(100, 5, seed)[0].at(keep_one=False)
        suspects = ranking.worklist.order
        right = np.zeros(len(ranking.row), dtype=bool)
        # A quarter of the 200 suspects is right.
        right[np.random.default_rng(seed).permutation(suspects[:200])[:50]] = True
        tags = suspects[:200]
        place = ranking.matrix(np.arange(len(right)))
        known = ranking
        for attempt in range(3):
            # Tags called right leave the set; those called wrong are not given back.
            ordered = known.with_orders(np.isin(np.arange(len(right)), tags))
            certificate = ordered.certify(0.9)
            assert certificate.draw == attempt
            asked = certificate.questions(60)
            told = right[place[asked.row, asked.column]]
            certificate = certificate.answered(asked, told)
            n_false += certificate.certified
            misses = list(zip(asked.row[told].tolist(), asked.label[told].tolist(), strict=True))
            known = known.answered(known.questions_about(misses), [True] * len(misses))
    assert n_false <= 3


def test_a_draw_counts_in_all_rankings_of_the_same_tags():
    ranking, right = ranking_of()
    first = ranking.remove(60).certify()
    assert ranking.remove(50).certify().draw == 0
    answer(first, right, 5)
    # The same set stays the same draw, and another one needs more evidence.
    assert ranking.remove(60).certify().order == first.order
    other = ranking.at(precision=0.8).remove(50).certify()
    assert other.draw == 1
    assert other.needed > 10 * first.needed
    # Answers that do not count use up no draw.
    third = ranking.remove(40).certify()
    last = ranking.questions_about(third.order[-1:])
    third.answered(last, [False])
    assert ranking.remove(30).certify().draw == 1


def test_the_ledger_shows_the_draws_that_count():
    ranking, right = ranking_of()
    first = ranking.remove(60).certify()
    assert ranking.ledger.used == {}
    answered = answer(first, right, 5)
    assert ranking.ledger.used == {first.tags_sha256: 0}
    assert answered.ranking.ledger.used is ranking.ledger.used
    # Only the ranking with the answers counts their draw as an earlier one.
    assert (ranking.draws, answered.ranking.draws) == (0, 1)
    assert ranking.remove(60).certify(random_state=2).draw == 2
    # Draws of a file of decisions count only in the ranking that was made with them.
    with_file = replace(ranking, ledger=ranking.ledger.after(3))
    assert with_file.remove(60).certify().draw == 3
    assert ranking.remove(60).certify().draw == 0
    answer(with_file.remove(50).certify(), right, 5)
    assert ranking.remove(40).certify().draw == 4
    # The same tags, ranked again, begin a new ledger.
    assert ranking_of()[0].remove(40).certify().draw == 0


def test_certificates_of_another_order_of_drawing_are_refused(certified):
    values = json.loads(certified.to_json()) | {"version": 2}
    with pytest.raises(InputError, match=r"version 2, whose order of drawing .* certify .* again"):
        Certificate.from_json(json.dumps(values))


def test_bound_grows_and_never_exceeds_the_truth_when_all_is_known():
    ranking, right = ranking_of(seed=3)
    certificate = ranking.remove(50).certify(0.5)
    removed = certificate.ranking.removed.copy()
    assert certificate.precision_at_least == 0
    assert not certificate.certified
    bounds = []
    for _ in range(10):
        certificate = answer(certificate, right, 5)
        bounds.append(certificate.precision_at_least)
    assert bounds == sorted(bounds)
    assert bounds[-1] <= 1 - right[removed].mean() + 1e-9
    assert len(certificate.questions(5)) == 0


def test_the_share_in_words_is_not_above_the_certified_one():
    ranking = ranking_of()[0].remove(60)
    certificate = ranking.certify(0.9)
    shown = []
    while certificate.n_answers < 60:
        certificate = answer(certificate, np.zeros(len(ranking.row)), 1)
        words = str(certificate) if certificate.certified else certificate.progress
        found = re.findall(r"certify ([\d.]+)%|at least ([\d.]+)% of 60", words)
        shown += [float("".join(numbers)) / 100 for numbers in found]
        assert all(share <= max(certificate.precision_at_least, 0.9) for share in shown[-1:])
    assert shown[-1] == 1
    assert len(set(shown)) > 5


def test_unsure_counts_against_the_claim():
    ranking = ranking_of()[0].remove(60)
    start = ranking.certify()
    asked = start.questions(4)
    unsure = start.answered(asked, [False, None, False, False])
    right = start.answered(asked, [False, True, False, False])
    assert unsure.e_value == right.e_value
    assert "1 of them unsure" in str(unsure)
    # The tag is kept, and a definite answer may follow.
    assert unsure.ranking.removed.sum() == 59
    again = unsure.answered(asked, [False] * 4)
    assert again.e_value == start.answered(asked, [False] * 4).e_value
    assert again.ranking.removed.sum() == 60


def test_answers_count_without_gaps():
    start = ranking_of()[0].remove(60).certify()
    asked, questions_about = start.questions(4), start.ranking.questions_about
    tags = list(zip(asked.row.tolist(), asked.label.tolist(), strict=True))
    later = start.answered(questions_about(tags[1:]), [False] * 3)
    assert later.e_value == 1
    assert later.questions(1).label[0] == asked.label[0]
    whole = later.answered(questions_about(tags[:1]), [False])
    assert whole.e_value == start.answered(asked, [False] * 4).e_value > 1
    kept = questions_about(sorted(tags_of(start.ranking, ~start.ranking.removed))[:1])
    with pytest.raises(InputError, match="is not in the certified set"):
        start.answered(kept, [False])


def test_kinds_of_certificates():
    ranking, right = ranking_of(n_rows=100, seed=5)
    suspects = answer(ranking.certify(0.55, of="suspects", k=40), right, 40)
    assert suspects.n_tags == 40
    assert suspects.certified
    assert "most suspicious tags are wrong" in str(suspects)
    remaining = ranking.remove(below=0.9).certify(0.8, of="remaining")
    everything = answer(remaining, np.ones(len(right)), 60)
    assert everything.certified
    assert "remaining tags are right" in str(everything)
    wrong = answer(remaining, np.zeros(len(right)), 5)
    assert wrong.ranking.removed.sum() == remaining.ranking.removed.sum() + 5
    with pytest.raises(InputError, match="k is the number of suspects"):
        ranking.certify(of="suspects")


def test_nothing_to_certify():
    certificate = ranking_of()[0].certify()
    assert certificate.n_tags == 0
    assert not certificate.certified
    assert certificate.more_answers is None
    assert len(certificate.questions()) == 0
    with pytest.raises(InputError, match="no question of the certificate is answered"):
        check(certificate, certificate.ranking)


def test_more_answers_is_about_right():
    start = ranking_of(n_rows=200)[0].remove(300).certify(0.9)
    none_wrong = answer(start, np.zeros(10**4), 20)
    planned, count = none_wrong.more_answers, 0
    while not none_wrong.certified:
        none_wrong, count = answer(none_wrong, np.zeros(10**4), 1), count + 1
    assert abs(planned - count) <= 12
    assert none_wrong.more_answers == 0
    assert answer(start, np.ones(10**4), 30).more_answers is None


def test_round_trip(certified, tmp_path):
    text = certified.to_json(tmp_path / "c.json")
    read = Certificate.from_json((tmp_path / "c.json").read_text("utf-8"))
    assert read.certified
    assert read.to_json() == text
    assert str(read) == str(certified)
    check(read, certified.ranking)
    with pytest.raises(InputError, match="asks no questions"):
        read.questions()


def test_other_removals_tables_and_answers_are_not_verified(certified):
    ranking = certified.ranking
    read = Certificate.from_json(certified.to_json())
    removed, listed = tags_of(ranking, ranking.removed), tags_of(ranking, ranking.row >= 0)
    spare = sorted(listed - removed)[0]
    answered = set(certified.answers)
    for other in (removed - {sorted(removed - answered)[0]}, removed | {spare}):
        with pytest.raises(InputError, match="other tags were removed"):
            check(read, ranking, other)
    with pytest.raises(InputError, match="contradicts its answer"):
        check(read, ranking, removed - {sorted(answered)[0]})
    with pytest.raises(InputError, match="does not hold the tags"):
        check(read, ranking_of(seed=1)[0], removed)


def test_forged_and_shortened_certificates(certified):
    values = json.loads(certified.to_json())

    def changed(**new):
        return json.dumps({**values, **new})

    for new in ({"e_value": 99.0}, {"precision_at_least": 0.99}, {"certified": False}):
        with pytest.raises(InputError, match="but its answers give"):
            Certificate.from_json(changed(**new))
    with pytest.raises(InputError, match="but its answers give"):
        Certificate.from_json(changed(answers=values["answers"][1:]))
    for new in ({"answers": 3}, {"answers": [[1, 2]]}, {"n_tags": -1}, {"of": "x"}, {"target": 2}):
        with pytest.raises(InputError):
            Certificate.from_json(changed(**new))
    for text in ("", "[]", "{}", "{", changed(version=1), changed(format="x")):
        with pytest.raises(InputError):
            Certificate.from_json(text)
    # Numbers that fit, with a tag that was never drawn in the place of one that was.
    drawn = {(row, label) for row, label, _ in values["answers"]}
    spare = next(tag for tag in reversed(certified.order) if tag not in drawn)
    swapped = [[*spare, False], *values["answers"][1:]]
    with pytest.raises(InputError, match="were not drawn by this program"):
        check(Certificate.from_json(changed(answers=swapped)), certified.ranking)


def test_answers_for_a_certificate_say_nothing_about_the_share_of_wrong_tags():
    ranking, right = ranking_of(n_rows=200)
    asked = ranking.questions(25)
    place = {cell: k for k, cell in enumerate(zip(ranking.row, ranking.column, strict=True))}
    told = [bool(right[place[cell]]) for cell in zip(asked.row, asked.column, strict=True)]
    ranking = ranking.answered(asked, told)
    certified = answer(ranking.certify(of="suspects", k=60), right, 40).ranking
    assert certified.n_answers == 65
    # The answers narrow what is possible, but no round of questions is added.
    rounds = [sample.round for sample in certified.answers.samples if sample.round.reaches_all]
    assert rounds == [sample.round for sample in ranking.answers.samples]
    low, high = certified.wrong_share_interval
    assert low <= (~right).mean() <= high
    # Without any other answer, nothing is known about all tags.
    only = answer(ranking_of()[0].certify(of="suspects", k=30), right, 20).ranking
    n_tags = len(only.row)
    n_wrong, n_right = (only.answer == 0).sum(), (only.answer == 1).sum()
    assert only.wrong_share_interval == (n_wrong / n_tags, 1 - n_right / n_tags)
    assert only.summary()["wrong_share"] is None
    assert "not about a random sample" in only.sentence


def test_a_certificate_of_nothing_says_why():
    ranking, right = ranking_of(n_rows=200)
    nothing = ranking.certify()
    assert nothing.n_tags == 0
    assert not nothing.certified
    assert "no tag is to be removed without an answer" in str(nothing)
    assert nothing.progress == nothing.problem != ""
    assert "no tag is to be added" in ranking.certify(of="added").problem
    place = {cell: k for k, cell in enumerate(zip(ranking.row, ranking.column, strict=True))}
    for _ in range(3):
        asked = ranking.questions(25)
        told = [bool(right[place[cell]]) for cell in zip(asked.row, asked.column, strict=True)]
        ranking = ranking.answered(asked, told)
    # The next target that acts is part of the reason.
    strict = ranking.at(precision=0.99).certify()
    assert strict.n_tags == 0
    assert "There is nothing to certify. At a target of 99%" in strict.sentence
    assert ranking.remove(30).certify().problem == ""


def test_a_share_reaches_the_target_exactly_if_it_is_certified():
    ranking = ranking_of()[0].remove(60)
    certificate = ranking.certify(0.9)
    right = np.zeros(len(ranking.row))
    for n_misses in range(1, 8):
        asked = certificate.questions(n_misses)
        each = certificate.answered(asked, [True] * n_misses)
        while each.n_answers < 60:
            each = answer(each, right, 6)
            assert (each.precision_at_least >= 0.9) == each.certified


def test_a_target_in_words_is_rounded_down():
    certificate = ranking_of()[0].remove(60).certify(0.999)
    assert "at least 99.9% of the 60" in certificate.progress


@pytest.mark.parametrize(
    "new",
    [
        {"confidence": 0.999},
        {"confidence": 0.5},
        {"date": "2099-99-99"},
        {"date": "today"},
        {"n_changed": 61},
    ],
)
def test_what_no_answer_supports_is_refused(certified, new):
    values = json.loads(certified.to_json())
    with pytest.raises(InputError, match=r"confidence|date|changed answers"):
        Certificate.from_json(json.dumps({**values, **new}))


def test_suspects_are_compared_with_the_table():
    ranking, _ = ranking_of(n_rows=100, seed=5)
    right = np.zeros(len(ranking.row))
    begun = ranking.certify(0.55, of="suspects", k=40)
    certificate = Certificate.from_json(answer(begun, right, 40).to_json())
    asked = set(certificate.answers)
    check(certificate, ranking, set())
    check(certificate, ranking, asked)
    with pytest.raises(InputError, match="contradicts its answer"):
        check(certificate, ranking, asked - {sorted(asked)[0]})
    for tags in ([[10**6, "ghost"]], "x", [3], [[1]]):
        options = {**certificate.options, "tags": tags}
        with pytest.raises(InputError, match=r"the certificate (is about 'ghost'|has)"):
            check(replace(certificate, options=options), ranking, set())
