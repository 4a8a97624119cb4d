import csv
from dataclasses import replace

import numpy as np
import pytest
from cleaning.test_audit import verdicts

from schirn.cleaning.answers import read_answers, write_questions
from schirn.exceptions import InputError


@pytest.fixture
def asked(tmp_path):
    """Verdicts, whether each tag is right, the sample, and its file."""
    found, right = verdicts()
    path = tmp_path / "check.csv"
    cells = write_questions(path, found, 50, random_state=3)
    return found, right, cells, path


def read(path):
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def write(path, rows, **options):
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]), **options)
        writer.writeheader()
        writer.writerows(rows)


def fill(asked, words=("no", "yes")):
    _, right, cells, path = asked
    rows = read(path)
    for row, k in zip(rows, cells.index, strict=True):
        row["right"] = words[int(right[k])]
    write(path, rows)
    return rows


@pytest.mark.parametrize("words", [("no", "yes"), ("wrong", "Right "), ("0", "1"), ("FALSE", "T")])
def test_answers_give_the_same_audit_as_the_library(asked, words):
    found, right, cells, path = asked
    words = (words[0], "true" if words[1] == "T" else words[1])
    fill(asked, words)
    answers = read_answers(path, found)
    checked = found.audited(answers.cells, answers.right, extra=answers.extra)
    plain = found.audited(cells, right[cells.index])
    np.testing.assert_array_equal(checked.confidence, plain.confidence)
    assert checked.certificate == plain.certificate


def test_the_file_does_not_tell_the_verdict(asked):
    _, _, cells, path = asked
    rows = read(path)
    assert list(rows[0]) == ["row", "tag", "right", "sample"]
    assert len({row["sample"] for row in rows}) == 1
    assert {row["right"] for row in rows} == {""}
    assert [int(row["row"]) - 1 for row in rows] == cells.row.tolist()


def test_text_and_id_are_shown_and_formulas_are_not_run(tmp_path):
    found, _ = verdicts()
    found = replace(found, label_names=["=1+1", *found.label_names[1:]])
    path = tmp_path / "check.csv"
    texts = [f"@text {i}\nsecond line" for i in range(found.n_rows)]
    write_questions(path, found, 200, texts=texts, ids=[f"id {i}" for i in range(found.n_rows)])
    rows = read(path)
    assert list(rows[0]) == ["row", "id", "text", "tag", "right", "sample"]
    assert rows[0]["text"].startswith("'@text ")
    assert "'=1+1" in {row["tag"] for row in rows}
    for row in rows:
        row["right"] = "no"
    write(path, rows)
    assert read_answers(path, found).right == [False] * 200


def test_a_spreadsheet_may_reorder_and_save_with_semicolons(asked):
    found, right, cells, path = asked
    rows = fill(asked)
    write(path, [{**row, "comment": "seen"} for row in reversed(rows)], delimiter=";")
    assert read_answers(path, found).right == right[cells.index].tolist()


def test_empty_question_mark_and_deleted_lines_are_no_answers(asked):
    found, _, _, path = asked
    rows = fill(asked)
    rows[0]["right"], rows[1]["right"] = "", "?"
    write(path, rows[:-1])
    answers = read_answers(path, found)
    assert [answers.right[k] for k in (0, 1, -1)] == [None] * 3
    assert sum(answer is None for answer in answers.right) == 3
    assert found.audited(answers.cells, answers.right).audit.n_untold == 3


def test_lines_without_a_sample_are_extra_answers(asked):
    found, right, cells, path = asked
    rows = fill(asked)
    other = np.setdiff1d(np.arange(len(found.row)), cells.index)[:5]
    more = [
        {"row": found.row[k] + 1, "tag": found.label[k], "right": "no", "sample": ""} for k in other
    ]
    write(path, [*rows, *more])
    answers = read_answers(path, found)
    assert answers.extra == (found.row[other].tolist(), found.column[other].tolist(), [False] * 5)
    plain = found.audited(cells, right[cells.index])
    checked = found.audited(answers.cells, answers.right, extra=answers.extra)
    assert checked.certificate == plain.certificate
    assert checked.removed[other].all()


def test_the_same_answer_twice_is_one_answer(asked):
    found, right, cells, path = asked
    rows = fill(asked)
    write(path, [*rows, rows[0], {**rows[1], "right": ""}])
    assert read_answers(path, found).right == right[cells.index].tolist()


def test_hostile_answers(asked):
    found, _, cells, path = asked
    good = fill(asked)
    opposite = {"yes": "no", "no": "yes"}[good[0]["right"]]
    outside = int(np.setdiff1d(np.arange(len(found.row)), cells.index)[0])
    other = {**good[0], "row": found.row[outside] + 1, "tag": found.label[outside]}
    for rows, words in (
        ([*good, {**good[0], "right": opposite}], r"answer 51: says the opposite of answer 1 "),
        ([*good, {**good[0], "right": "maybe"}], r"answer 51: 'maybe' is not an answer"),
        ([*good, {**good[0], "tag": "cat"}], r"answer 51: row \d+ of the table has no tag 'cat'"),
        ([*good, {**good[0], "row": 0}], "row 0 of the table has no tag"),
        ([*good, {**good[0], "row": "-3"}], "answer 51: the row must be a number from 1"),
        ([*good, {**good[0], "row": "1e5"}], "the row must be a number from 1"),
        ([*good, other], "is not in the sample; leave the column 'sample' empty"),
        ([*good, {**good[0], "sample": "audit:9:9:0123456789abcdef"}], "several samples"),
        ([{**row, "sample": ""} for row in good], "no line names a sample"),
        (
            [{**row, "sample": "mine"} for row in good],
            "'mine' in the column 'sample' is not the name",
        ),
        ([{**row, "sample": "audit:0:0:0123456789abcdef"} for row in good], "is not the name of a"),
        ([{**row, "right": ""} for row in good], "there is no answer yet"),
        ([{"row": 1, "tag": "x", "right": "yes"}], "there is no column 'sample'"),
    ):
        write(path, rows)
        with pytest.raises(InputError, match=words):
            read_answers(path, found)


def test_a_changed_table_is_noticed(asked):
    found, _, _, path = asked
    fill(asked)
    names = ["renamed", *found.label_names[1:]]
    for other in (
        replace(found, label_names=names),
        replace(found, n_rows=found.n_rows + 1),
        replace(found, confidence=1 - found.confidence, removed=~found.removed),
        verdicts(seed=1)[0],
    ):
        with pytest.raises(InputError, match="drawn from other verdicts"):
            read_answers(path, other)


def test_nothing_to_check(tmp_path):
    found, _ = verdicts()
    found = replace(found, judged=np.zeros(len(found.row), dtype=bool))
    with pytest.raises(InputError, match="no tag was judged"):
        write_questions(tmp_path / "check.csv", found)
    assert not (tmp_path / "check.csv").exists()
