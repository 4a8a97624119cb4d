"""The vocabulary of a review: answers to its lines, what the table gets, and undo."""

import csv
import json

import numpy as np
import pytest
from app.review.review_helpers import change_tags, replace_table, sign, write_project

from schirn.app.review import begin_review, open_session
from schirn.app.review._session import Conflict
from schirn.app.tables import read_changes
from schirn.app.workflow import TableCleaning, read_vocabulary, write_vocabulary
from schirn.cleaning import Vocabulary, VocabularyLine
from schirn.exceptions import DataError, InputError

ITEMS = [
    ("a", "A dog at the sea", ["Dog", "dog", "sea"]),
    ("b", "A dog", ["Dog"]),
    ("c", "A small dog", ["poodle"]),
    ("d", "A poodle and a dog", ["poodle", "dog"]),
    ("e", "The sea", ["sea", "misc"]),
    ("f", "Things", ["misc", "dog"]),
]
MERGE, IMPLY, DROP, SPLIT = range(4)
LINES = (
    VocabularyLine("merge", "Dog", "dog", 2, 3, 1, "case", "", 0.9),
    VocabularyLine("imply", "poodle", "dog", 2, 3, 1, "", "", 0.6),
    VocabularyLine("drop", "misc", "", 2, evidence="says nothing"),
    VocabularyLine("split", "sea", "", 2),
)


def make(folder, items=ITEMS, lines=LINES, suggested=(), add_implied=True):
    """A project whose tags all stay, with the lines of a vocabulary."""
    names = [tag for *_, tags in items for tag in tags] + [tag for _, tag in suggested]
    labels = list(dict.fromkeys(names))
    rows = [
        (name, text, dict.fromkeys(tags, 0.9), {tag: 0.6 for i, tag in suggested if i == name})
        for name, text, tags in items
    ]
    table = {"file": "table.csv", "column": "tags", "separator": ";", "text": ["text"]}
    table |= {"content": [], "vocabulary": Vocabulary(lines).to_records()}
    table["add_implied"] = add_implied
    return write_project(folder, rows, labels, table=table)


@pytest.fixture
def session(tmp_path):
    session = open_session(make(tmp_path / "project"))
    yield session
    session.journal.close()


def tags_of(session, tmp_path):
    """Tags of each item in the table that is written now."""
    path = tmp_path / "written.csv"
    session.write_table(path)
    with path.open(newline="", encoding="utf-8") as stream:
        return {row["id"]: row["tags"] for row in csv.DictReader(stream)}


BEFORE = {name: ";".join(tags) for name, _, tags in ITEMS}


def accept(session, *positions):
    for position in positions:
        session.answer_line(position, True, session.sequence)


def test_accepted_lines_change_the_table_when_it_is_written(session, tmp_path):
    original = session.table.path.read_bytes()
    accept(session, MERGE, IMPLY, DROP, SPLIT)
    assert session.table.path.read_bytes() == original
    after = {"a": "dog;sea", "b": "dog", "c": "poodle;dog", "e": "sea", "f": "dog"}
    assert tags_of(session, tmp_path) == BEFORE | after
    reasons = {change.why for change in session.changes()}
    assert reasons == {
        "Dog is another spelling of dog (case); line 2 of the vocabulary",
        "poodle implies dog; line 3 of the vocabulary",
        "a rule drops every misc",
    }


def test_the_changes_are_applied_and_undone(session, tmp_path):
    accept(session, MERGE, IMPLY, DROP)
    path = tmp_path / "changes.csv"
    session.changes().write(path)
    table = session.table
    changes = read_changes(path)
    cells = changes.apply(table.cells, **table.cell_options)
    assert cells == list(tags_of(session, tmp_path).values())
    assert changes.undo(cells, **table.cell_options) == table.cells


def test_each_answer_is_undone(session, tmp_path):
    accept(session, MERGE, IMPLY)
    session.answer_line(DROP, False, session.sequence)
    assert [line.accept for line in session.vocabulary()] == ["yes", "yes", "no", ""]
    session.undo(session.sequence)
    session.undo(session.sequence)
    assert [line.accept for line in session.vocabulary()] == ["yes", "", "", ""]
    assert tags_of(session, tmp_path) == BEFORE | {"a": "dog;sea", "b": "dog"}
    session.undo(session.sequence)
    assert tags_of(session, tmp_path) == BEFORE
    assert len(session.changes()) == 0
    with pytest.raises(Conflict, match="nothing to undo"):
        session.undo(session.sequence)


def test_a_line_is_opened_again(session):
    accept(session, MERGE)
    session.answer_line(MERGE, None, session.sequence)
    assert session.vocabulary()[MERGE] == LINES[MERGE]


def test_answers_survive(tmp_path):
    folder = make(tmp_path / "project")
    session = open_session(folder, name="Ada")
    accept(session, IMPLY, DROP)
    session.answer_line(MERGE, True, session.sequence, target="Hund")
    session.answer_line(SPLIT, False, session.sequence)
    session.undo(session.sequence)
    session.journal.close()
    again = open_session(folder, write=False)
    assert again.vocabulary() == session.vocabulary()
    assert again.questions.rules == {"misc": "drop"}
    assert [record["person"] for record in again.journal.records] == ["Ada"] * 5
    assert tags_of(again, tmp_path)["a"] == "Hund;dog;sea"


def test_another_target(session, tmp_path):
    session.answer_line(MERGE, True, 0, target="Hund")
    line = session.vocabulary()[MERGE]
    assert (line.target, line.rows_target, line.both) == ("Hund", 0, 0)
    assert "instead of dog" in line.evidence
    assert tags_of(session, tmp_path)["b"] == "Hund"
    session.undo(session.sequence)
    session.answer_line(IMPLY, True, session.sequence, target="sea")
    assert session.vocabulary()[IMPLY].rows_target == 2
    assert tags_of(session, tmp_path) == BEFORE | {"c": "poodle;sea", "d": "poodle;dog;sea"}


def test_a_merge_the_other_way(session, tmp_path):
    session.answer_line(MERGE, True, 0, target="Dog")
    line = session.vocabulary()[MERGE]
    assert (line.tag, line.target, line.rows, line.rows_target) == ("dog", "Dog", 3, 2)
    written = tags_of(session, tmp_path)
    assert written == BEFORE | {"a": "Dog;sea", "d": "poodle;Dog", "f": "misc;Dog"}


@pytest.mark.parametrize("target", ["", " ", "a;b", "x" * 201, "a\nb", 3, " dog"])
def test_a_target_that_is_no_tag(session, target):
    with pytest.raises(InputError, match="the target must be one tag"):
        session.answer_line(MERGE, True, 0, target=target)
    assert session.sequence == 0


def test_lines_that_have_no_other_target(session):
    with pytest.raises(InputError, match="has no other target"):
        session.answer_line(DROP, True, 0, target="dog")


def test_contradictions_are_refused_and_nothing_is_written(tmp_path):
    lines = [*LINES, VocabularyLine("drop", "dog", rows=3), VocabularyLine("merge", "dog", "Dog")]
    session = open_session(make(tmp_path / "project", lines=lines))
    accept(session, MERGE)
    for position in (4, 5):
        with pytest.raises(InputError, match=r"^lines (2 and \d|\d and 2): "):
            session.answer_line(position, True, session.sequence)
    with pytest.raises(InputError, match="line 2 is the same"):
        session.answer_line(5, True, session.sequence, target="dog")
    with pytest.raises(InputError, match="which is dropped"):
        session.act({"action": "rule", "label": "dog", "rule": "drop"}, session.sequence)
    assert session.sequence == 1
    # What other answers decide is not asked.
    status = [line["status"] for line in session.vocabulary_view(show="all")["lines"]]
    assert status == ["accepted", "open", "open", "open", "settled", "settled"]
    session.journal.close()


def test_a_dropped_tag_goes_under_the_names_that_were_merged_before(tmp_path):
    merge = VocabularyLine("merge", "Dog", "dog", accept="yes")
    items = [("a", "x", ["dog", "sea"]), ("b", "x", ["dog"]), ("c", "x", ["sea"])]
    folder = make(tmp_path / "project", items, [merge])
    replace_table(folder, "id,text,tags\na,x,Dog;sea\nb,x,dog\nc,x,sea\n")
    session = open_session(folder)
    session.act({"action": "rule", "label": "dog", "rule": "drop"}, session.sequence)
    assert tags_of(session, tmp_path) == {"a": "sea", "b": "", "c": "sea"}
    session.journal.close()


def test_a_record_that_makes_no_sense(session):
    line = {"action": "merge", "tag": "Dog", "target": "dog"}
    bad = [
        {"line": {"action": "merge"}, "accept": "yes"},
        {"line": "merge", "accept": "yes"},
        {"line": line | {"tag": "cat"}, "accept": "yes"},
        {"line": line, "accept": "maybe"},
        {"line": line},
        {"line": line, "accept": True},
    ]
    for record in bad:
        with pytest.raises(InputError):
            session.act({"action": "vocabulary", **record}, 0)
    for lines in ("x", ["x"], [{"action": "bake", "tag": "x"}]):
        with pytest.raises(InputError):
            session.act({"action": "propose", "lines": lines}, 0)
    assert session.sequence == 0


def test_another_tab_was_first(session):
    accept(session, MERGE)
    with pytest.raises(Conflict, match="in another tab"):
        session.answer_line(MERGE, False, 0)
    # Another line is another question.
    session.answer_line(IMPLY, False, 0)
    session.undo(session.sequence)
    with pytest.raises(Conflict, match="in another tab"):
        session.answer_line(IMPLY, False, 2)


def test_a_dropped_tag_is_a_rule(session, tmp_path):
    accept(session, DROP)
    assert session.questions.rules == {"misc": "drop"}
    session.decide("keep", "e", "misc", session.sequence)
    assert tags_of(session, tmp_path) == BEFORE | {"f": "dog"}
    rules = {line["label"]: line["rule"] for line in session.labels()}
    assert rules["misc"] == "drop"
    session.act({"action": "rule", "label": "misc", "rule": "ask"}, session.sequence)
    assert session.vocabulary()[DROP] == LINES[DROP]
    session.act({"action": "rule", "label": "misc", "rule": "drop"}, session.sequence)
    # The proposal is accepted in its place, with its evidence.
    assert session.vocabulary()[DROP].accept == "yes"
    assert len(session.vocabulary()) == len(LINES)
    assert session.view()["vocabulary"]["accepted"] == 1


def decide(session, action, item, label):
    session.decide(action, item, label, session.sequence)


def test_answers_about_tags_count_under_the_new_name(session, tmp_path):
    accept(session, MERGE, IMPLY)
    decide(session, "drop", "b", "Dog")
    decide(session, "drop", "a", "Dog")
    # Whoever calls one name wrong calls the tag wrong.
    assert tags_of(session, tmp_path) == BEFORE | {"a": "sea", "b": "", "c": "poodle;dog"}
    decide(session, "keep", "a", "dog")
    assert tags_of(session, tmp_path)["a"] == "dog;sea"
    decide(session, "drop", "a", "Dog")
    decide(session, "keep", "a", "Dog")
    assert tags_of(session, tmp_path)["a"] == "dog;sea"


def test_a_wrong_tag_implies_nothing(session, tmp_path):
    accept(session, IMPLY)
    decide(session, "drop", "c", "poodle")
    decide(session, "drop", "d", "dog")
    # What a person removed is not implied again.
    assert tags_of(session, tmp_path) == BEFORE | {"c": "", "d": "poodle"}
    kinds = [(change.row, change.change, change.before) for change in session.changes()]
    assert kinds == [(2, "removal", "poodle"), (3, "removal", "dog")]


def test_added_tags_are_renamed_and_imply(tmp_path):
    suggested = [("e", "Dog"), ("f", "poodle"), ("b", "sea")]
    session = open_session(make(tmp_path / "project", suggested=suggested))
    decide(session, "keep", "e", "Dog")
    decide(session, "drop", "b", "sea")
    accept(session, MERGE, IMPLY)
    after = {"a": "dog;sea", "b": "dog", "c": "poodle;dog", "e": "sea;misc;dog"}
    assert tags_of(session, tmp_path) == BEFORE | after
    session.answer_line(MERGE, False, session.sequence)
    decide(session, "keep", "e", "Dog")
    assert tags_of(session, tmp_path)["e"] == "sea;misc;Dog"
    session.journal.close()


def test_a_suggestion_brings_its_parent(tmp_path):
    session = open_session(make(tmp_path / "project", suggested=[("e", "poodle")]))
    accept(session, IMPLY)
    decide(session, "keep", "e", "poodle")
    assert tags_of(session, tmp_path)["e"] == "sea;misc;poodle;dog"
    additions = [change for change in session.changes() if change.row == 4]
    assert [change.why for change in additions] == [
        "added by a person",
        "poodle implies dog; line 3 of the vocabulary",
    ]
    session.journal.close()


def test_implied_tags_are_only_suggested(tmp_path):
    session = open_session(make(tmp_path / "project", add_implied=False))
    accept(session, IMPLY)
    assert tags_of(session, tmp_path) == BEFORE
    assert session.vocabulary_view(line=3)["current"]["effect"].endswith("(--implied suggest).")
    session.journal.close()


def test_removals_at_once_stay_after_a_merge(tmp_path):
    folder = make(tmp_path / "project")
    change_tags(folder, kept=lambda kept: np.arange(len(kept)) > 0)
    sign(folder, json.loads((folder / "project.json").read_text("utf-8")))
    session = open_session(folder, write=True)
    # The removal was about "Dog" of the first row, which lists "dog" as well.
    assert tags_of(session, tmp_path)["a"] == "dog;sea"
    accept(session, MERGE)
    assert tags_of(session, tmp_path)["a"] == "dog;sea"
    assert tags_of(session, tmp_path)["b"] == "dog"
    session.journal.close()


def test_a_certificate_does_not_cover_new_names(session):
    ranking = session.questions.ranking(session.status)
    session._certificate = ranking.remove(2).certify(random_state=0)
    accept(session, MERGE)
    with pytest.raises(InputError, match="accepted after the tags were ranked"):
        session.verify(session.certificate())


def test_the_saved_vocabulary_is_used_again(tmp_path):
    base = tmp_path / "items.csv"
    lines = [f"{text},{';'.join(tags)}" for _, text, tags in ITEMS] * 4
    base.write_text("\n".join(["text,tags", *lines]) + "\n")
    first = tmp_path / "vocabulary.csv"
    write_vocabulary(Vocabulary(LINES), first)
    options = {"text": "text", "vocabulary": str(first)}
    session = begin_review(TableCleaning(str(base), **options), tmp_path / "review")
    accept(session, MERGE, DROP)
    session.answer_line(IMPLY, False, session.sequence)
    second = tmp_path / "answered.csv"
    session.write_vocabulary(second)
    session.journal.close()
    # Nobody's file is written.
    assert read_vocabulary(first) == Vocabulary(LINES)
    assert [line.accept for line in read_vocabulary(second)] == ["yes", "no", "yes", ""]
    written = tmp_path / "written.csv"
    session.write_table(written)
    again = begin_review(
        TableCleaning(str(base), text="text", vocabulary=str(second)), tmp_path / "again"
    )
    twice = tmp_path / "twice.csv"
    again.write_table(twice)
    assert twice.read_bytes() == written.read_bytes()
    assert set(again.project.labels) == {"dog", "sea", "poodle"}
    # What was applied before the ranking stays.
    with pytest.raises(InputError, match="line 2 was applied before the tags were ranked"):
        again.answer_line(MERGE, False, 0)
    assert "was applied before" in again.vocabulary_view(line=2)["current"]["effect"]
    again.answer_line(IMPLY, True, 0)
    again.journal.close()


NAMES = [f"t{j}" for j in range(8)]


def random_project(folder, rng):
    """A project, the vocabulary that it was ranked with, and the tags of the table."""
    tags = [list(map(str, rng.choice(NAMES, rng.integers(1, 5), replace=False))) for _ in range(12)]
    lines = []
    for _ in range(10):
        action = str(rng.choice(["merge", "imply", "drop", "exclude", "split"]))
        tag, target = map(str, rng.choice(NAMES, 2, replace=False))
        line = VocabularyLine(action, tag, "" if action in ("drop", "split") else target)
        if line not in lines:
            lines.append(line)
    # Some are accepted before the ranking, so that the project has the names after them.
    before = Vocabulary()
    for line in lines[:3]:
        if line.action == "imply" and VocabularyLine("drop", line.tag) in lines:
            # A parent that was implied before the ranking has its own questions, and stays.
            continue
        try:
            before = Vocabulary([*before, *Vocabulary([line]).answer({0: True})])
        except InputError:
            continue
    ranked = before.apply(tags).rows
    items = [(f"i{i}", "x", row) for i, row in enumerate(ranked)]
    names = [name for name in NAMES[:4] if name not in before.merges | dict.fromkeys(before.drops)]
    suggested = [(f"i{i}", name) for i in range(12) for name in names if name not in ranked[i]]
    make(folder, items, [*before, *lines[3:]], suggested)
    lines = [f"i{i},x,{';'.join(row)}\n" for i, row in enumerate(tags)]
    replace_table(folder, "".join(["id,text,tags\n", *lines]))
    return open_session(folder), before, tags


def accept_some(session, first):
    """Accept what can be accepted; return how many lines."""
    count = 0
    for position in range(first, len(session.vocabulary())):
        try:
            session.answer_line(position, True, session.sequence)
            count += 1
        except InputError:
            continue
    return count


def sorted_tags(session, tmp_path):
    cells = tags_of(session, tmp_path).values()
    return [sorted(filter(None, cell.split(";"))) for cell in cells]


@pytest.mark.parametrize("seed", range(20))
def test_without_other_answers_the_table_is_that_of_the_vocabulary(tmp_path, seed):
    folder = tmp_path / "project"
    session, before, tags = random_project(folder, np.random.default_rng(seed))
    original = (folder / "table.csv").read_bytes()
    n_accepted = accept_some(session, len(before))
    assert n_accepted
    vocabulary = session.vocabulary()
    written = sorted_tags(session, tmp_path)
    assert written == [*map(sorted, vocabulary.apply(tags).rows)]
    ranked = [sorted(row) for row in before.apply(tags).rows]
    n_changed = sum(old != new for old, new in zip(ranked, written, strict=True))
    assert session.vocabulary_view()["rows_changed"] == n_changed
    for _ in range(n_accepted):
        session.undo(session.sequence)
    assert sorted_tags(session, tmp_path) == [*map(sorted, before.apply(tags).rows)]
    assert (folder / "table.csv").read_bytes() == original
    session.journal.close()


@pytest.mark.parametrize("seed", range(20))
def test_the_latest_answer_about_a_tag_counts(tmp_path, seed):
    rng = np.random.default_rng(100 + seed)
    session, before, _ = random_project(tmp_path / "project", rng)
    verdicts = {}
    for step in range(2):
        for k in rng.choice(len(session.status), 8, replace=False).tolist():
            action = str(rng.choice(["keep", "drop"]))
            row = int(session.project.row[k])
            decide(session, action, session.project.ids[row], session.name(k))
            cell = (row, session.name(k))
            verdicts.pop(cell, None)
            verdicts[cell] = action
        if step == 0:
            accept_some(session, len(before))
    merges = session.vocabulary().merges
    latest = {(row, merges.get(name, name)): action for (row, name), action in verdicts.items()}
    written = sorted_tags(session, tmp_path)
    for (row, name), action in latest.items():
        assert (name in written[row]) == (action == "keep"), (row, name, action)
    table = session.table
    changes = session.changes()
    cells = changes.apply(table.cells, **table.cell_options)
    assert cells == list(tags_of(session, tmp_path).values())
    assert changes.undo(cells, **table.cell_options) == table.cells
    final = session.changes()
    session.journal.close()
    again = open_session(session.project.folder, write=False)
    assert list(again.changes()) == list(final)


def test_proposals_that_are_not_listed_are_counted(tmp_path):
    names = [f"{chr(97 + k // 26)}{chr(97 + k % 26)}ology" for k in range(130)]
    items = [(f"i{k}", f"text {k}", [names[k]]) for k in range(130)]
    items += [(f"j{k}", f"text {k}", [names[k].upper()]) for k in range(130)]
    items += [("k", "text", ["once"])]
    session = open_session(make(tmp_path / "project", items, lines=()))
    assert session.propose() == 100
    assert session.vocabulary_view()["counts"]["more"] == session.view()["vocabulary"]["more"] == 30
    session.undo(session.sequence)
    assert session.vocabulary_view()["counts"]["more"] == 0
    record = {"action": "propose", "lines": [], "more": -1}
    with pytest.raises(InputError, match="'more' must be a number of proposals, not -1"):
        session.act(record, session.sequence)
    session.journal.close()


def test_proposals_are_added_and_rejected_ones_do_not_come_back(tmp_path):
    items = []
    for i in range(60):
        kind = i % 3
        tags = [("pan" if i % 2 else "Pan", "chair", "lamp")[kind]]
        text = ("steel pan kitchen", "oak chair wood", "red lamp light")[kind]
        items.append((f"i{i}", f"{text} {i}", tags))
    session = open_session(make(tmp_path / "project", items, lines=()))
    assert session.vocabulary_view()["current"] is None
    count = session.propose()
    assert count == len(session.vocabulary().open) > 0
    merge = next(k for k, line in enumerate(session.vocabulary()) if line.action == "merge")
    assert {session.vocabulary()[merge].tag, session.vocabulary()[merge].target} == {"pan", "Pan"}
    # Open lines are not repeated.
    assert session.propose() == 0
    session.answer_line(merge, False, session.sequence)
    for _ in range(3):
        assert session.propose() == 0
    lines = session.vocabulary()
    session.undo(session.sequence)
    session.undo(session.sequence)
    assert len(session.vocabulary()) == 0
    session.journal.close()
    again = open_session(session.project.folder, write=False)
    assert len(again.vocabulary()) == 0
    assert len(lines) == count


def test_a_damaged_record_is_named(tmp_path):
    folder = make(tmp_path / "project")
    session = open_session(folder)
    accept(session, MERGE)
    line = {"action": "merge", "tag": "x", "target": "y"}
    session.journal.append({"action": "vocabulary", "line": line, "accept": "yes"})
    session.journal.close()
    with pytest.raises(DataError, match="record 2 does not fit the project"):
        open_session(folder)


def test_the_view_shows_lines_with_their_effect_and_examples(session):
    view = session.vocabulary_view()
    assert view["counts"] == {
        **{"open": 4, "accepted": 0, "rejected": 0, "settled": 0},
        "more": 0,
    }
    current = view["current"]
    assert (current["number"], current["question"]) == (2, "Are these two names of one thing?")
    assert current["effect"] == "“Dog” becomes “dog” in 2 rows."
    titles = [group["title"] for group in current["examples"]]
    assert titles == ["Rows with Dog only (1)", "Rows with dog only (2)", "Rows with both (1)"]
    first = current["examples"][0]["rows"][0]
    assert (first["item"], first["text"]) == ("b", "A dog")
    assert first["tags"] == [{"label": "Dog", "current": True}]
    imply = session.vocabulary_view(after=2)["current"]
    assert imply["effect"] == "“dog” is added to 1 row with “poodle”."
    assert [row["item"] for row in imply["examples"][0]["rows"]] == ["c"]
    drop = session.vocabulary_view(line=4)["current"]
    assert drop["effect"] == "“misc” is removed from 2 rows, unless you keep it in a row."
    assert session.vocabulary_view(line=5)["current"]["effect"].startswith("No row changes")
    # After the last open line comes the first.
    assert session.vocabulary_view(after=5)["current"]["number"] == 2
    accept(session, MERGE, IMPLY, DROP)
    view = session.vocabulary_view(show="accepted", find="POO")
    assert [line["number"] for line in view["lines"]] == [3]
    # a and b by the merge, c by the implication, e and f by the drop
    assert view["rows_changed"] == 5
    assert view["last"]["words"] == "answer to drop misc"


def test_changed_rows_are_counted_under_the_new_names(session, tmp_path):
    accept(session, MERGE)
    # "Dog" is "dog" now, so that the row of "d" has the parent of its poodle.
    session.answer_line(IMPLY, True, session.sequence, target="Dog")
    assert session.vocabulary_view()["rows_changed"] == 3
    changed = {name for name, tags in tags_of(session, tmp_path).items() if tags != BEFORE[name]}
    assert changed == {"a", "b", "c"}


def test_the_view_of_what_is_not_there(session):
    with pytest.raises(InputError, match="show must be"):
        session.vocabulary_view(show="some")
    with pytest.raises(InputError, match="no line 99"):
        session.vocabulary_view(line=99)
    for value in (-1, 1.5, "2"):
        with pytest.raises(InputError, match="after must be a whole number"):
            session.vocabulary_view(after=value)


def test_exclusive_tags_change_nothing(tmp_path):
    lines = [VocabularyLine("exclude", "dog", "sea", 3, 2, 1)]
    session = open_session(make(tmp_path / "project", lines=lines))
    effect = session.vocabulary_view()["current"]["effect"]
    assert effect == "No row changes; 1 row has both tags, and are left to you."
    accept(session, 0)
    assert tags_of(session, tmp_path) == BEFORE
    session.journal.close()


def test_long_lists_are_listed_in_part(tmp_path):
    lines = [VocabularyLine("merge", f"x{i}", "dog") for i in range(250)]
    session = open_session(make(tmp_path / "project", lines=lines))
    view = session.vocabulary_view()
    assert (len(view["lines"]), view["hidden"]) == (200, 50)
    assert [line["tag"] for line in session.vocabulary_view(find="x249")["lines"]] == ["x249"]
    session.journal.close()
