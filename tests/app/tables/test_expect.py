"""Expectations of a table."""

from dataclasses import replace

import numpy as np
import pytest

from schirn.app.tables import Expectations, RunSummary, look_at_table
from schirn.cleaning import NoisyLabels
from schirn.exceptions import DataError, InputError


@pytest.fixture
def ranking():
    """Two of ten tags are removed; the tags are dog and cat."""
    rows, columns = np.arange(10), np.array([0] * 6 + [1] * 4)
    confidence = np.linspace(0.1, 0.9, 10)
    every = np.ones(10, dtype=bool)
    ranked = NoisyLabels.from_arrays(
        10, ["dog", "cat"], rows, columns, confidence, every, "Sieve", keep_one=False
    )
    return ranked.remove(2)


def test_every_expectation_that_is_not_met_is_one_line(ranking):
    expected = Expectations(
        wrong_share=0.09,
        removed_share=0.1,
        allowed_tags=frozenset({"dog"}),
        findings={"tags_in_one_row": 0, "copies": 3},
    )
    findings = look_at_table(["dog;Cat", "dog;sun", "dog"], texts=["x y"] * 3)
    violations = expected.check(ranking, findings)
    assert [str(violation) for violation in violations] == [
        "wrong_share: unknown without answers, limit 9.00%",
        "removed_share: 20.00% of the tags are removed, limit 10.00%",
        "allowed_tags: 1 tag is not allowed, limit 0; cat",
        "findings.tags_in_one_row: 2, limit 0; 2 tags are in one row only, such as 'Cat'",
    ]
    assert [violation.value for violation in violations] == [None, 0.2, 1, 2]


def test_a_limit_may_be_reached(ranking):
    assert Expectations(removed_share=0.2, allowed_tags={"cat", "dog"}).check(ranking) == []
    answered = ranking.answered(ranking.suspects(10), [False] * 2 + [True] * 8)
    assert Expectations(wrong_share=0.2).check(answered) == []
    (violation,) = Expectations(wrong_share=0.19).check(answered)
    words = (
        "wrong_share: 20.00% of the ranked tags are wrong according to the answers, limit 19.00%"
    )
    assert str(violation) == words


def test_toml(tmp_path):
    toml = tmp_path / "expect.toml"
    toml.write_text('wrong_share = 0.2\nallowed_tags = "tags.txt"\n[findings]\nspelling = 3\n')
    (tmp_path / "tags.txt").write_text("dog\n\n cat \n")
    from_toml = Expectations.read(toml)
    assert from_toml == Expectations(
        wrong_share=0.2,
        allowed_tags=frozenset({"dog", "cat"}),
        findings={"spelling": 3},
    )
    toml.write_text('wrong_share = 0.2\nallowed_tags = ["dog", "cat"]\nfindings.spelling = 3\n')
    assert Expectations.read(toml) == from_toml


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "wrong_shares = 0.1",
            "there is no expectation 'wrong_shares'; did you mean 'wrong_share'",
        ),
        ("[findings]\nspeling = 1", "'findings.speling'; did you mean 'spelling'"),
        ("wrong_share = 15", "wrong_share must be a number from 0 to 1, not 15"),
        ("wrong_share = true", "must be a number from 0 to 1"),
        ("wrong_share = nan", "must be a number from 0 to 1"),
        ("[findings]\ncopies = 0.5", "findings.copies must be a whole number, not 0.5"),
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
    with pytest.raises(DataError, match=r"must end in \.toml"):
        Expectations.read(tmp_path / "e.json")
    with pytest.raises(InputError, match=r"findings\.copies"):
        Expectations(findings={"copies": -1})


def test_limits_that_hold_unless_others_are_given():
    run = RunSummary(100, 100, None, 0.3, earlier_removals=20, restored_share=0.25)
    run = replace(run, new_removal_share=0.3, emptied_share=0.4, emptied_column="title")
    words = [
        "drift.restored: 25.00%, limit 0.2; share of the tags that the last run removed",
        "drift.new_removals: 30.00%, limit 0.2 of the tags, which the last run did not remove",
        "drift.emptied: 40.00%, limit 0.2; share of its values that the column title has lost",
    ]
    violations = [str(violation) for violation in Expectations().check(run)]
    assert [text.replace("'", "") for text in violations] == words
    limits = {"restored": 0.3, "new_removals": 0.3, "emptied": 0.4}
    assert Expectations(drift=limits).check(run) == []
    # A quarter of four removals is a single tag.
    few = replace(run, earlier_removals=4)
    names = [violation.name for violation in Expectations().check(few)]
    assert names == ["drift.new_removals", "drift.emptied"]
    assert len(Expectations(drift={"restored": 0.2}).check(few)) == 3


def test_differences_from_the_last_run():
    last = RunSummary(10, 10, 0.1, 0.0, {"dog": 7, "cat": 3})
    run = RunSummary(10, 10, 0.2, 0.0, {"dog": 2, "cat": 4, "cow": 4}, feature_drift=0.5)
    limits = {"wrong_share": 0.05, "tags": 0.1, "new_tags": 0, "features": 0.2}
    assert [str(item) for item in Expectations(drift=limits).check(run, last=last)] == [
        "drift.wrong_share: 10.00%, limit 0.05; from 10.00% to 20.00%",
        "drift.tags: 0.500, limit 0.1; 'dog' changed most, from 70.00% to 20.00% of the tags",
        "drift.new_tags: 1, limit 0; cow",
        "drift.features: 0.50, limit 0.2",
    ]
    assert Expectations(drift=limits).check(last, last=last) == []
    (unknown,) = Expectations(drift={"wrong_share": 1.0}).check(
        replace(run, wrong_share=None), last=last
    )
    assert str(unknown) == "drift.wrong_share: unknown in one of the runs, limit 1"
