"""The nightly update in Python: the same as the command, and nothing stored before it is saved."""

import json
from pathlib import Path

import pytest

from schirn.app.cli import main
from schirn.app.tables import open_table
from schirn.app.workflow import TableCleaning, TableUpdate
from schirn.exceptions import InputError

LINES = [
    f"s{i},{'sand wave shore' if i % 2 else 'bark tail leash'} {i},{'beach' if i % 2 else 'dog'}"
    for i in range(80)
]


@pytest.fixture
def place(tmp_path):
    (tmp_path / "old.csv").write_text("\n".join(["sku,title,tags", *LINES[:60]]))
    new = [*LINES[:59], "s59,sand wave shore and more,dog", *LINES[60:], "new,sand wave,dog"]
    (tmp_path / "items.csv").write_text("\n".join(["sku,title,tags", *new]))
    model = str(tmp_path / "m.schirn")
    words = ["fit", str(tmp_path / "old.csv"), "--text", "title", "--id", "sku", "-o", model]
    assert main(words) == 0
    return tmp_path


def update_of(place, **options):
    options = {"id": "sku", "decisions": str(place / "d.jsonl"), **options}
    return TableUpdate(place / "items.csv", place / "m.schirn", **options)


def test_only_new_and_changed_rows_are_judged(place):
    table = update_of(place)
    before = Path(table.state_path).read_bytes()
    assert table.update.new == [*range(60, 80), 80]
    assert table.update.changed == [59]
    assert Path(table.state_path).read_bytes() == before
    with table.alone():
        table.save()
    assert update_of(place).update.new == []


def test_questions_answers_and_the_copy(place):
    table = update_of(place, number=4)
    assert len(table.questions()) == 4
    path = place / "q.csv"
    table.write_questions(path)
    lines = path.read_text().splitlines()
    assert lines[0] == "id,text,tag,before,right,columns,content"
    assert len(lines) == 5
    path.write_text(
        "\n".join([lines[0], *(line.replace(",,title", ",no,title") for line in lines[1:])])
    )
    again = update_of(place, answers=[str(path)])
    assert len(again.decisions) == 4
    assert again.ranking.removed.sum() == 4
    assert len(again.changes()) == 4
    again.export(place / "clean.csv")
    copy = open_table(place / "clean.csv")
    assert sum(cell == "" for cell in copy.column("tags")) == 4


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_tasks_go_out_and_answers_come_back_another_night(place, tool):
    path = place / "tasks.json"
    table = update_of(place, number=4)
    table.write_questions(path, tool=tool)
    asked = [(task.id, task.tag) for task in table.tasks()]
    records = json.loads(path.read_text())
    answers = ["no", "yes", "unsure"]
    for record, word in zip(records, answers, strict=False):
        say(record, word)
    path.write_text(json.dumps(records))
    # Rows have moved by then, and the last one is gone.
    items = place / "items.csv"
    lines = items.read_text().splitlines()
    items.write_text("\n".join([lines[0], *lines[-2:0:-1]]))
    again = update_of(place, answers=[str(path)])
    decisions = [(d.id, d.tag, d.answer, d.who) for d in again.decisions]
    words = ("wrong", "right", "unsure")
    assert decisions == [(*cell, word, "Ada") for cell, word in zip(asked, words, strict=False)]
    assert not {*asked[:3]} & {(task.id, task.tag) for task in again.tasks(10)}
    # The same export says nothing new.
    assert len(update_of(place, answers=[str(path)]).decisions) == 3
    assert len((place / "d.jsonl").read_text().splitlines()) == 3


def say(record, word):
    """Answer a task as its tool exports it."""
    when = "2026-11-18T09:30:00Z"
    if "data" in record:
        value = {"choices": [word]}
        result = {"from_name": "right", "to_name": "text", "type": "choices", "value": value}
        who = {"username": "Ada"}
        record["annotations"] = [{"completed_by": who, "created_at": when, "result": [result]}]
    else:
        response = {"value": word, "user_id": "Ada", "status": "submitted", "updated_at": when}
        record["responses"] = {"right": [response]}


def test_answers_to_other_tasks_are_refused(place):
    path = place / "tasks.json"
    table = update_of(place, number=2)
    table.write_questions(path, tool="label-studio")
    records = json.loads(path.read_text())
    say(records[0], "no")
    records[0]["data"]["tag"] = "edited"
    path.write_text(json.dumps(records))
    with pytest.raises(InputError, match="not a question of schirn update, or its tag was edited"):
        _ = update_of(place, answers=[str(path)]).decisions
    columns = {"labels": "tags", "text": "title"}
    cleaning = TableCleaning(place / "items.csv", **columns)
    cleaning.write_questions(path, 2, tool="label-studio")
    records = json.loads(path.read_text())
    say(records[0], "no")
    path.write_text(json.dumps(records))
    with pytest.raises(InputError, match="is not a question of schirn update"):
        _ = update_of(place, answers=[str(path)]).decisions
    table.write_questions(path, tool="label-studio")
    records = json.loads(path.read_text())
    say(records[0], "no")
    path.write_text(json.dumps(records))
    with pytest.raises(InputError, match="is a question of schirn update"):
        _ = TableCleaning(place / "items.csv", answers=[str(path)], **columns).ranking


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": None}, "an update finds rows by id"),
        ({"decisions": None, "answers": ["q.csv"]}, "kept in a file of decisions"),
    ],
)
def test_what_an_update_needs(place, options, words):
    with pytest.raises(InputError, match=words):
        update_of(place, **options)


def test_a_kept_tag_is_not_asked_about(place):
    rules = place / "vocabulary.csv"
    rules.write_text("action,tag,accept\nkeep,dog,yes\n")
    free = update_of(place)
    assert "dog" in free.questions(80).label
    kept = update_of(place, vocabulary=str(rules))
    assert kept.ranking.rules == {"dog": "keep"}
    assert "dog" not in kept.questions(80).label
    n_dogs = (kept.ranking.label == "dog").sum()
    assert kept.ranking.n_in_share == free.ranking.n_in_share - n_dogs
