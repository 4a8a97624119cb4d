"""The nightly update in Python: the same as the command, and nothing stored before it is saved."""

from pathlib import Path

import pytest

from schirn.app.cli import main
from schirn.app.tables import open_table
from schirn.app.workflow import TableUpdate
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


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"id": None}, "an update finds rows by their ids"),
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
