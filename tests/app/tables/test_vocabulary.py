"""A vocabulary on random tables: what it changes, that it does so once, and that undo is exact."""

import random
import warnings

import pytest
from app.tables.random_tables import random_csv, random_jsonl
from hypothesis import given, settings
from hypothesis import strategies as st

from schirn.app.tables import keyed_changes, open_table, read_changes, with_vocabulary, write_copy
from schirn.app.tables._changes import row_keys
from schirn.cleaning import ChangeList, Vocabulary, VocabularyLine
from schirn.exceptions import InputError
from schirn.labels.cells import TagCells

NEW_NAMES = ["sea", "=x", "so-called", "Beach", "@dog"]
# More often what changes rows.
ACTIONS = ["merge", "merge", "imply", "imply", "drop", "exclude", "split", "keep"]


def random_vocabulary(chance, names):
    """Return accepted lines about some names that do not contradict each other."""
    vocabulary = Vocabulary()
    for _ in range(chance.randint(1, 8)):
        action = chance.choice(ACTIONS)
        target = chance.choice(names) if action in ("merge", "imply", "exclude") else ""
        line = VocabularyLine(action, chance.choice(names), target, accept="yes")
        try:
            vocabulary = Vocabulary([*vocabulary, line])
        except InputError:
            continue
    return vocabulary


def random_table(kind, chance):
    """Return the content of a table, its suffix, and how it is read."""
    content, how = (random_csv if kind == "csv" else random_jsonl)(chance)
    separator = how.pop("separator")
    return content, f".{kind}", separator, how if kind == "csv" else {}


def check_vocabulary(folder, kind, chance):
    """Apply a vocabulary, apply it again, and undo it; return the number of changes."""
    content, suffix, separator, reading = random_table(kind, chance)
    source, copy, back = (folder / f"{name}{suffix}" for name in ("in", "out", "back"))
    source.write_bytes(content)
    table = open_table(source, **reading)
    if "tags" not in table.columns:
        return 0
    cells = table.column("tags")
    how = table.cell_options("tags")
    tag_cells = TagCells.of(cells, separator, **how)
    rows = [list(dict.fromkeys(tag_cells.split(cell))) for cell in cells]
    names = sorted({tag for row in rows for tag in row} | {*NEW_NAMES})
    vocabulary = random_vocabulary(chance, [name for name in names if separator not in name])
    add_implied = chance.random() < 0.8
    changes = with_vocabulary([], rows, vocabulary, add_implied)
    listed = ChangeList.from_cells(cells, changes, separator=separator, **how)
    keyed_changes(listed, table).write(folder / "changes.csv")
    listed = read_changes(folder / "changes.csv")
    new = listed.apply(cells, keys=row_keys(table, "tags"), **how)
    write_copy(str(copy), table, {"tags": new}, {}, separator=separator)
    opened = open_table(copy, **reading)
    after = [list(dict.fromkeys(tag_cells.split(cell))) for cell in opened.column("tags")]
    applied = vocabulary.apply(rows, add_implied=add_implied)
    assert [sorted(row) for row in after] == [sorted(row) for row in applied.rows]
    # Applying it again changes nothing.
    assert with_vocabulary([], after, vocabulary, add_implied) == []
    assert vocabulary.apply(after, add_implied=add_implied).rows == after
    # Rows without a change keep their bytes.
    touched = {change.row for change in changes}
    for i, (before, now) in enumerate(zip(cells, opened.column("tags"), strict=True)):
        assert i in touched or before == now
    keys = row_keys(opened, "tags")
    undone = listed.undo(opened.column("tags"), keys=keys, **how)
    raw = {"tags": listed.raw_places(len(undone), keys)}
    write_copy(str(back), opened, {"tags": undone}, {}, raw=raw, separator=separator)
    assert back.read_bytes() == content
    return len(changes)


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_vocabulary_is_applied_once_and_undone_exactly(kind, tmp_path):
    n_changes = 0

    @settings(max_examples=200, deadline=None, database=None)
    @given(seed=st.integers(0, 2**32))
    def run(seed):
        nonlocal n_changes
        with warnings.catch_warnings():
            # Some texts are no Unicode.
            warnings.simplefilter("ignore")
            n_changes += check_vocabulary(tmp_path, kind, random.Random(seed))

    run()
    # About one change per table, so that the run is not one of empty vocabularies.
    assert n_changes > 100


def test_changes_explain_the_lines_that_cause_them():
    lines = [
        VocabularyLine("merge", "React", "react", accept="yes", number=208),
        VocabularyLine("merge", "utils", "util", accept="yes"),
        VocabularyLine("merge", "q4711", "util", accept="yes"),
        VocabularyLine("imply", "react-component", "react", accept="yes"),
        VocabularyLine("drop", "misc", accept="yes"),
    ]
    rows = [["React"], ["utils"], ["q4711"], ["react-component"], ["misc"]]
    assert [change.why for change in with_vocabulary([], rows, Vocabulary(lines))] == [
        "React is another spelling of react (case); line 208 of the vocabulary",
        "utils is another form of util (plural); line 2 of the vocabulary",
        "q4711 is another name of util; line 3 of the vocabulary",
        "react-component implies react; line 4 of the vocabulary",
        "misc is dropped; line 5 of the vocabulary",
    ]
