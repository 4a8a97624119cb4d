"""A review and a file of decisions hold the same answers."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from app.cli.clean_helpers import make_items, make_project, read_csv, write_csv
from app.review.review_helpers import final_tags

from schirn.app.cli import main
from schirn.app.review import open_session
from schirn.app.tables._changes import read_changes
from schirn.app.workflow import Decision, Decisions, read_vocabulary
from schirn.exceptions import InputError

WORDS = ["--text", "description", "--id", "id"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "items.csv", make_items(120))
    assert make_project("items.csv", "items-review", *WORDS) == 0
    return tmp_path


def opened(name="Ada"):
    return open_session("items-review", name=name, decisions="d.jsonl")


def answers():
    return {(each.id, each.tag): (each.answer, each.who) for each in Decisions("d.jsonl")}


def decide(session, action):
    current = session.view()["current"]
    session.decide(action, current["item"], current["label"], session.sequence)
    return current["item"], current["label"]


def test_every_answer_is_in_both(place):
    session = opened()
    cells = [decide(session, action) for action in ("keep", "drop", "skip", "drop")]
    session.undo(session.sequence)
    session.journal.close()
    right = dict(zip(cells, (("right", "Ada"), ("wrong", "Ada"), ("unsure", "Ada")), strict=False))
    assert answers() == right
    records = len(Path("items-review/journal.jsonl").read_text("utf-8").splitlines())
    opened().journal.close()
    assert len(Path("items-review/journal.jsonl").read_text("utf-8").splitlines()) == records
    assert answers() == right


def test_answers_that_a_crash_kept_from_the_file_follow(place):
    session = opened()
    first = decide(session, "keep")
    session.link = None
    second = decide(session, "drop")
    session.journal.close()
    assert list(answers()) == [first]
    opened().journal.close()
    assert answers() == {first: ("right", "Ada"), second: ("wrong", "Ada")}


def test_the_next_table_asks_again_about_changed_rows(place, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    session = opened()
    kept, dropped = decide(session, "keep"), decide(session, "drop")
    proposal = {"action": "split", "tag": kept[1]}
    session.act({"action": "propose", "lines": [proposal]}, session.sequence)
    session.answer_line(0, False, session.sequence)
    session.journal.close()
    rows = read_csv("items.csv")
    for row in rows:
        row["description"] += " dusk" * (row["id"] == dropped[0])
    with open("items.csv", "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, rows[0])
        writer.writeheader()
        writer.writerows([{**rows[0], "id": "new"}, *reversed(rows)])
    words = ["review", "items.csv", *WORDS, "--terminal"]
    assert main(words) == 2
    assert "keep its answers with --decisions" in capsys.readouterr().err
    words += ["--decisions", "d.jsonl"]
    assert main(words) == 0
    captured = capsys.readouterr()
    assert "the old project is now items-review-2" in captured.err
    # Answers about the vocabulary are no decisions about rows.
    (aside,) = Path().glob("items-review-2*")
    assert f"as well: schirn review {aside} --save-vocabulary FILE" in captured.err
    assert main(["review", str(aside), "--save-vocabulary", "v.csv"]) == 0
    assert [line.accept for line in read_vocabulary("v.csv")] == ["no"]
    assert "before the row changed, Ada said 'wrong'" in captured.out
    session = opened("Bob")
    assert session.view()["current"]["earlier"].startswith("Ada said 'wrong'")
    assert session.view()["current"]["item"] == dropped[0]
    assert session.view()["progress"]["decided"] == 1
    assert session.describe(session.find(*kept))["earlier"] is None
    decide(session, "keep")
    assert session.view()["current"]["earlier"] is None
    session.journal.close()
    assert answers() == {kept: ("right", "Ada"), dropped: ("right", "Bob")}
    assert Decisions("d.jsonl").contradictions == 0


def test_clean_takes_answers_of_a_review(place, capsys):
    session = opened()
    decide(session, "drop")
    session.journal.close()
    capsys.readouterr()
    assert main(["clean", "items.csv", *WORDS, "--decisions", "d.jsonl", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["decisions"] == "1 carried over"
    assert report["removed"] == 1


def test_items_without_ids_are_refused(place):
    assert make_project("items.csv", "numbered", *WORDS[:2]) == 0
    with pytest.raises(InputError, match="the items have no ids"):
        open_session("numbered", decisions="d.jsonl")


def test_an_answer_from_elsewhere_reaches_the_review(place):
    Decisions("d.jsonl").add([Decision("0003", each, "wrong", "Eve") for each in ("dog", "x")])
    session = opened()
    removed = next(r["removed"] for r in final_tags(session) if r["id"] == "0003")
    session.journal.close()
    assert removed == ["dog"]
    assert answers() == {("0003", "dog"): ("wrong", "Eve"), ("0003", "x"): ("wrong", "Eve")}


def test_draws_are_counted_on_the_page_and_in_the_file(place):
    session = opened()
    tags = [int(tag) for tag in session.questions.tags["listed"][:40]]
    ready = lambda *_: np.array(tags)  # noqa: E731
    session.questions.ready = ready
    session.apply_answers("remove", len(tags), session.sequence)
    assert session.certificate().draw == 0
    first = session.questions.number(session.certificate().order[0])
    item = session.project.ids[session.project.row[first]]
    session.decide("drop", item, session.name(first), session.sequence)
    session.journal.close()
    assert [each.draw for each in Decisions("d.jsonl")] == [0]
    # Another review of the same table goes on with the next draw, also when it is opened again.
    assert make_project("items.csv", "other-review", *WORDS) == 0
    other = open_session("other-review", decisions="d.jsonl")
    tags.remove(first)
    other.questions.ready = ready
    other.apply_answers("remove", len(tags), other.sequence)
    order = other.certificate().order
    assert other.certificate().draw == 1
    other.journal.close()
    again = open_session("other-review", write=False).certificate()
    assert (again.draw, again.order) == (1, order)


def test_a_tag_accepted_elsewhere_is_added_by_a_review_of_the_table(place, monkeypatch):
    Decisions("d.jsonl").add([Decision("0003", "velvet", "right", "Eve")])
    # A review that was begun before does not have the tag.
    with pytest.warns(UserWarning, match="adds 1 tags that are not in this review"):
        opened().journal.close()
    monkeypatch.setattr("sys.stdin", io.StringIO())
    words = ["review", "items.csv", *WORDS, "--project", "new", "--decisions", "d.jsonl"]
    assert main([*words, "--terminal"]) == 0
    session = open_session("new", write=False)
    assert next(r["added"] for r in final_tags(session) if r["id"] == "0003") == ["velvet"]
    assert main(["review", "new", "--export", "cleaned.csv"]) == 0
    tags = {row["id"]: row["tags"] for row in read_csv("cleaned.csv")}
    assert tags["0003"].endswith("velvet")


def test_both_tags_of_a_swap_are_written(place, monkeypatch):
    Decisions("first.jsonl").add([Decision("0003", "velvet", "right", "Eve")])
    monkeypatch.setattr("sys.stdin", io.StringIO())
    words = ["review", "items.csv", *WORDS, "--project", "new", "--decisions", "first.jsonl"]
    assert main([*words, "--terminal"]) == 0
    Path("new/journal.jsonl").unlink()
    session = open_session("new", name="Ada", decisions="d.jsonl")
    wrong = session.name(session.project.tags_of_row(3)[0])
    session.act({"action": "swap", "item": "0003", "label": wrong, "to": "velvet"}, 0)
    assert answers() == {("0003", wrong): ("wrong", "Ada"), ("0003", "velvet"): ("right", "Ada")}
    session.undo(1)
    session.journal.close()
    assert answers() == {}


def test_the_list_of_changes_finds_rows_by_their_ids(place):
    session = opened()
    item, label = decide(session, "drop")
    session.journal.close()
    argv = ["review", "items-review", "--changes", "changes.csv"]
    assert main(argv) == 0
    changes = read_changes("changes.csv")
    assert changes.id_column == "id"
    assert [changes.keys[each.row] for each in changes if each.before == label] == [item]
