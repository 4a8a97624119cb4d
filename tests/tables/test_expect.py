"""Expectations of a table, and the summary of a run that the next one is compared with."""

import json

import numpy as np
import pytest

from schirn.cleaning import Expectations, NoisyLabels, RunSummary, look_at_table
from schirn.exceptions import DataError, InputError


def make_run(counts, wrong=0.1, removed=0.05, findings=None):
    return RunSummary(100, sum(counts.values()), wrong, removed, dict(counts), findings or {})


def names(violations):
    return [violation.name for violation in violations]


def test_the_summary_of_verdicts():
    confidence = np.array([0.9, 0.2, 0.5])
    ranking = NoisyLabels(
        3, ["beach", "dog", "sun"], np.array([0, 1, 1]), np.array([1, 1, 0]), confidence,
        np.array([True, True, False]), "Sieve",
    )  # fmt: skip
    findings = look_at_table(["dog", "beach;dog", "x"])
    run = RunSummary.from_found(ranking.remove(1), findings)
    assert run.tag_counts == {"beach": 1, "dog": 2}
    assert (run.rows, run.tags, run.removed_share) == (3, 3, 1 / 3)
    assert run.wrong_share is None
    answered = ranking.answered(ranking.suspects(2), [False, True])
    assert RunSummary.from_found(answered, findings).wrong_share == 0.5
    assert run.findings == {"tags_in_one_row": 2}


def test_the_summary_is_read_as_it_was_written(tmp_path):
    run = make_run({"a": 3, "ä;\n": 1}, wrong=None, findings={"copies": 2})
    run.write(tmp_path / "run.json")
    assert RunSummary.read(tmp_path / "run.json") == run


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": "x"}, "not the summary of a run"),
        ({"version": 2}, "newer version"),
        ({"rows": -1}, "damaged"),
        ({"wrong_share": "0.1"}, "damaged"),
        ({"removed_share": None}, "damaged"),
        ({"tag_counts": {"a": 0.5}}, "damaged"),
        ({"findings": []}, "damaged"),
    ],
)
def test_other_files_are_refused(tmp_path, change, words):
    path = tmp_path / "run.json"
    make_run({"a": 1}).write(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match=words):
        RunSummary.read(path)
    path.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        RunSummary.read(path)


def test_every_expectation_that_is_not_met_is_one_line():
    expected = Expectations(
        wrong_share=0.09,
        removed_share=0.01,
        allowed_tags=frozenset({"dog"}),
        findings={"tags_in_one_row": 0, "copies": 3},
        drift={"wrong_share": 0.02, "tags": 0.1, "new_tags": 0},
    )
    run, last = make_run({"dog": 60, "cat": 40}), make_run({"dog": 90, "sun": 10}, wrong=0.05)
    findings = look_at_table(["dog;Cat", "dog;sun", "dog"], texts=["x y"] * 3)
    violations = expected.check(run, findings=findings, last=last)
    assert [str(violation) for violation in violations] == [
        "wrong_share: 10.00% of the judged tags are wrong, by the answers, limit 9.00%",
        "removed_share: 5.00% of the tags are removed, limit 1.00%",
        "allowed_tags: 1 tag is not allowed, limit 0; cat",
        "findings.tags_in_one_row: 2, limit 0; 2 tags are in one row only, such as 'Cat'",
        "drift.wrong_share: 5.00%, limit 2.00%; from 5.00% to 10.00%",
        "drift.tags: 0.400, limit 0.1; 'cat' changed most, from 0.00% to 40.00% of the tags",
        "drift.new_tags: 1, limit 0; cat",
    ]
    assert [violation.value for violation in violations][:3] == [0.1, 0.05, 1]


def test_a_limit_may_be_reached():
    run = make_run({"a": 50, "b": 50}, wrong=0.2, removed=0.2)
    last = make_run({"a": 40, "b": 60}, wrong=0.25)
    limits = {"wrong_share": 0.0500001, "tags": 0.1000001, "new_tags": 0}
    assert (
        Expectations(wrong_share=0.2, removed_share=0.2, drift=limits).check(run, last=last) == []
    )
    tight = Expectations(drift={"wrong_share": 0.04, "tags": 0.09})
    assert names(tight.check(run, last=last)) == ["drift.wrong_share", "drift.tags"]
    assert tight.check(run) == []


def test_a_drop_of_wrong_tags_is_a_drift_too():
    run, last = make_run({"a": 5}, wrong=0.1), make_run({"a": 5}, wrong=0.3)
    assert names(Expectations(drift={"wrong_share": 0.1}).check(run, last=last)) == [
        "drift.wrong_share"
    ]


def test_what_is_not_known_does_not_meet_an_expectation():
    run = make_run({"a": 1}, wrong=None)
    assert "unknown" in str(Expectations(wrong_share=1).check(run)[0])
    drift = Expectations(drift={"wrong_share": 1}).check(run, last=make_run({"a": 1}))
    assert [violation.value for violation in drift] == [None]


def test_no_tags_at_all():
    run = make_run({})
    assert Expectations(drift={"tags": 0.5, "new_tags": 0}).check(run, last=run) == []


def test_toml_and_json(tmp_path):
    toml = tmp_path / "expect.toml"
    toml.write_text(
        'wrong_share = 0.2\nallowed_tags = "tags.txt"\n'
        "[findings]\nspelling = 3\n[drift]\nnew_tags = 2\n"
    )
    (tmp_path / "tags.txt").write_text("dog\n\n cat \n")
    from_toml = Expectations.read(toml)
    assert from_toml == Expectations(
        wrong_share=0.2,
        allowed_tags=frozenset({"dog", "cat"}),
        findings={"spelling": 3},
        drift={"new_tags": 2},
    )
    document = {"wrong_share": 0.2, "allowed_tags": ["dog", "cat"]}
    document |= {"findings": {"spelling": 3}, "drift": {"new_tags": 2}}
    (tmp_path / "expect.json").write_text(json.dumps(document))
    assert Expectations.read(tmp_path / "expect.json") == from_toml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "wrong_shares = 0.1",
            "there is no expectation 'wrong_shares'; did you mean 'wrong_share'",
        ),
        ("[findings]\nspeling = 1", "'findings.speling'; did you mean 'spelling'"),
        ("[drift]\ntag = 1", "'drift.tag'; did you mean 'tags'"),
        ("wrong_share = 15", "wrong_share must be a number from 0 to 1, not 15"),
        ("wrong_share = true", "must be a number from 0 to 1"),
        ("wrong_share = nan", "must be a number from 0 to 1"),
        ("[findings]\ncopies = 0.5", "findings.copies must be a whole number, not 0.5"),
        ("[drift]\nnew_tags = 0.5", "drift.new_tags must be a whole number"),
        ("[drift]\ntags = 3", "drift.tags must be a number from 0 to 1"),
        ("findings = 3", "findings must be a table of limits"),
        ("allowed_tags = 3", "allowed_tags must be a list of tags"),
        ('allowed_tags = "no.txt"', "no.txt: there is no such file"),
        ("wrong_share = ", "not TOML"),
    ],
)
def test_bad_expectations(tmp_path, text, words):
    (tmp_path / "e.toml").write_text(text)
    with pytest.raises(DataError) as caught:
        Expectations.read(tmp_path / "e.toml")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_files(tmp_path):
    with pytest.raises(DataError, match=r"must end in \.toml or \.json"):
        Expectations.read(tmp_path / "e.yaml")
    (tmp_path / "e.json").write_text("[]")
    with pytest.raises(DataError, match="must hold names and limits"):
        Expectations.read(tmp_path / "e.json")
    with pytest.raises(InputError, match=r"findings\.copies"):
        Expectations(findings={"copies": -1})
