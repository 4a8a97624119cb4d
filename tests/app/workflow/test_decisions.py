import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from schirn.app.workflow import Decision, Decisions, RowContent
from schirn.cleaning import NoisyLabels, Vocabulary, VocabularyLine
from schirn.exceptions import DataError, InputError
from schirn.labels.matrix import label_lists


@pytest.fixture
def path(tmp_path):
    return tmp_path / "decisions.jsonl"


def rows(titles, ids=None, columns=("title",)):
    ids = ids or [f"A{i}" for i in range(len(titles))]
    return RowContent(ids, {"title": titles}, columns)


def ranking(*tags, names=("coat", "pan", "red")):
    cells = [(i, names.index(tag)) for i, tag in tags]
    row, column = np.array(cells).T
    judged = np.ones(len(cells), dtype=bool)
    p = np.linspace(0.1, 0.9, len(cells))
    return NoisyLabels.from_arrays(3, list(names), row, column, p, judged, "Sieve")


def answers(store):
    return {(each.id, each.tag): each.answer for each in store}


def test_answers_are_read_back_and_the_latest_counts(path):
    store = Decisions(path)
    assert len(store) == 0
    assert store.add([Decision("A0", "coat", "right"), Decision("A1", "pan", "unsure")]) == 2
    assert store.add([Decision("A0", "coat", "right")]) == 0
    assert store.add([Decision("A0", "coat", "wrong", who="Ada")]) == 1
    again = Decisions(path)
    assert answers(again) == {("A0", "coat"): "wrong", ("A1", "pan"): "unsure"}
    assert again.contradictions == store.contradictions == 1
    assert again.add([Decision("A0", "coat", "open")]) == 1
    assert answers(Decisions(path)) == {("A1", "pan"): "unsure"}


@pytest.mark.parametrize("title", [" Red Coat", "red\tcoat ", "RED  COAT", "Red\u00a0\uff23oat"])
def test_answers_stay_valid_if_only_case_or_white_space_changes(path, title):
    store = Decisions(path)
    asked = rows(["Red Coat", "Pan", "Cup"])
    about = (asked.columns, asked.hashes[0])
    store.add([Decision("A0", "coat", "wrong", "", "", *about)])
    same = rows([title, "Pan", "Cup"])
    assert [*store.match(same).valid] == [(0, "coat")]
    assert same.hashes == asked.hashes
    assert [*store.match(rows(["Red Coats", "Pan", "Cup"])).changed] == [(0, "coat")]


def test_draws_are_counted_for_the_rows_of_a_table(path):
    path.write_text('{"id": "A0", "tag": "red", "answer": "right"}\n')
    store = Decisions(path)
    table = rows(["a", "b", "c"])
    assert store.draws(table) == 0
    store.add([Decision("A0", "coat", "right", draw=0), Decision("A1", "pan", "wrong", draw=2)])
    store.add([Decision("Z9", "pan", "wrong", draw=7), Decision("A2", "pan", "wrong")])
    # An answer that was changed or reverted was still seen.
    store.add([Decision("A1", "pan", "right")])
    store.add([Decision("A1", "pan", "open")])
    again = Decisions(path)
    assert again.draws(table) == store.draws(table) == 3
    assert again.draws(table, besides=[(1, "pan")]) == 1
    assert '"draw": 2' in path.read_text()
    assert path.read_text().count('"draw"') == 3
    asked, _ = again.answer(ranking((0, "coat"), (1, "pan"), (2, "red")), table)
    assert asked.draws == 3


def test_two_files_joined_are_one_file(tmp_path):
    texts = []
    for name, who, when in (("a", "Ada", "2026-11-17T02:00Z"), ("b", "Bob", "2026-11-17T03:00Z")):
        store = Decisions(tmp_path / f"{name}.jsonl")
        cells = (("A0", "coat", "right"), (f"{name}1", "pan", "wrong"))
        store.add([Decision(*cell, who, when) for cell in cells])
        texts.append(store.path.read_text("utf-8"))
    for order in (texts, texts[::-1]):
        both = tmp_path / "both.jsonl"
        both.write_text("".join(order), "utf-8")
        merged = Decisions(both)
        assert len(merged) == 3
        assert merged.latest("A0", "coat").who == "Bob"


@pytest.mark.parametrize("method", ["add", "merge"])
def test_answers_that_did_not_fit_on_the_disk_can_be_written_again(path, monkeypatch, method):
    new = [Decision("A0", "coat", "wrong", "Ada", "2026-11-17T02:00:00Z")]
    store = Decisions(path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            getattr(store, method)(new)
    assert len(store) == 0
    assert getattr(store, method)(new) == 1
    assert answers(Decisions(path)) == answers(store) == {("A0", "coat"): "wrong"}


def test_answers_merged_at_once_are_compared_with_each_other(path):
    new = [
        Decision("A0", "coat", "wrong", "Ada", "2026-11-17T02:00:00Z"),
        Decision("A0", "coat", "wrong", "Ada", "2026-11-17T03:00:00Z"),
        Decision("A0", "coat", "right", "Ada", "2026-11-17T04:00:00Z"),
        Decision("A0", "coat", "right", "Bob", "2026-11-17T04:00:00Z"),
        Decision("A0", "coat", "right", "Bob", "2026-11-17T05:00:00Z"),
    ]
    store = Decisions(path)
    # The second repeats the first, and the fourth is the third under another name.
    assert store.merge(new) == 3
    assert store.latest("A0", "coat").who == "Bob"


def test_times_written_by_hand_are_compared_in_utc(path):
    lines = [
        {"id": "A0", "tag": "coat", "answer": "wrong", "when": "2026-11-17T03:00:00+02:00"},
        {"id": "A0", "tag": "coat", "answer": "right", "when": "2026-11-17T02:00:00"},
    ]
    path.write_text("".join(json.dumps(each) + "\n" for each in lines[::-1]))
    assert answers(Decisions(path)) == {("A0", "coat"): "right"}


@pytest.mark.parametrize("cut", [1, 30, -1])
def test_a_line_cut_short_by_a_crash_is_replaced_by_the_next_answer(path, cut):
    Decisions(path).add([Decision("A0", "coat", "right")])
    whole = path.read_bytes()
    path.write_bytes(whole + whole.replace(b"A0", b"A1")[:cut])
    store = Decisions(path)
    # Only the line end is lost if the cut is at -1.
    assert len(store) == (2 if cut == -1 else 1)
    assert store.repaired
    store.add([Decision("A2", "coat", "wrong")])
    again = Decisions(path)
    assert not again.repaired
    assert len(again) == len(store)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("[1]", "line 1: not a JSON object"),
        ('{"id": "A0", "tag": 1, "answer": "right"}', "line 1: an answer has the texts"),
        ('{"id": "A0", "tag": "coat", "answer": "yes"}', "line 1: the answer is 'yes'"),
        ('{"id": "a", "tag": "b", "answer": "right", "when": "x"}', "'x' is not a time"),
        ('{"id": "a", "tag": "b", "answer": "right", "draw": "0"}', "'0' is not the number of a"),
        (
            '{"id": "a", "tag": "b", "answer": "right", "draw": -1}',
            "-1 is not the number of a draw",
        ),
    ],
)
def test_damage_is_named(path, line, words):
    path.write_text(f'{line}\n{{"id": "A9", "tag": "coat", "answer": "right"}}\n')
    with pytest.raises(DataError, match=words):
        Decisions(path)


def test_an_answer_must_be_one(path):
    with pytest.raises(InputError, match="an answer is right, wrong, unsure, open, not 'maybe'"):
        Decisions(path).add([Decision("A0", "coat", "maybe")])
    assert not path.exists()


def test_parallel_programs_lose_nothing(path):
    code = (
        "import sys; from schirn.app.workflow import Decision, Decisions\n"
        "for k in range(20): Decisions(sys.argv[1]).add([Decision(f'{sys.argv[2]}-{k}', 't', "
        "'right')])\n"
    )
    calls = [
        threading.Thread(
            target=subprocess.run,
            args=([sys.executable, "-c", code, str(path), str(n)],),
            kwargs={"check": True, "env": os.environ},
        )
        for n in range(3)
    ]
    for each in calls:
        each.start()
    for each in calls:
        each.join()
    assert len(Decisions(path)) == 60


def test_answers_about_changed_rows_are_apart(path):
    first = rows(["red coat", "pan", "coat"])
    store = Decisions(path)
    asked = ranking((0, "coat"), (1, "coat"), (1, "pan"), (2, "coat"))
    asked = asked.answered(asked.questions_about([(0, "coat"), (1, "pan")]), [False, None])
    assert store.save(asked, first, "Ada") == 2
    assert store.save(asked, first, "Ada") == 0
    # Another order, a changed row, a new one; the columns of the answer count, not those of now.
    later = rows(["pan", "blue coat", "hat"], ["A1", "A0", "A3"], columns=("tags", "title"))
    ranked, carried = store.answer(ranking((0, "pan"), (1, "coat"), (2, "coat")), later)
    assert ranked.worklist.answer.tolist()[0] == 0.5
    assert np.isnan(ranked.worklist.answer[1:]).all()
    assert [str(each)[:17] for each in carried.changed.values()] == ["Ada said 'wrong' "]
    assert list(carried.changed) == [(1, "coat")]
    assert carried.gone == 0


def test_a_tag_called_right_is_added_where_it_is_not_listed(path):
    store = Decisions(path)
    store.add([Decision("A0", "red", "right"), Decision("A1", "velvet", "right")])
    store.add([Decision("A2", "red", "wrong")])
    ranked, _ = store.answer(ranking((0, "coat"), (1, "pan"), (2, "coat")), rows(["a", "b", "c"]))
    assert label_lists(ranked.clean, ranked.label_names) == [
        ["coat", "red"],
        ["pan", "velvet"],
        ["coat"],
    ]


def test_decisions_follow_the_vocabulary(path):
    """A tag that was merged or dropped since is not added again."""
    store = Decisions(path)
    store.add([Decision("A0", "Coat", "right"), Decision("A1", "pan", "right")])
    store.add([Decision("A0", "coat", "wrong"), Decision("A2", "Coat", "wrong")])
    lines = [("merge", "Coat", "coat"), ("drop", "pan", "")]
    vocabulary = Vocabulary([VocabularyLine(*line, accept="yes") for line in lines])
    asked = ranking((0, "coat"), (1, "red"), (2, "coat"))
    ranked, carried = store.answer(asked, rows(["a", "b", "c"]), vocabulary=vocabulary)
    assert (len(carried.valid), carried.dropped) == (2, 1)
    assert label_lists(ranked.clean, ranked.label_names) == [[], ["red"], []]
    assert store.save(ranked, rows(["a", "b", "c"]), vocabulary=vocabulary) == 0


def test_ids_must_differ():
    with pytest.raises(InputError, match="the id 'A' occurs more than once"):
        rows(["a", "b"], ["A", "A"])


@pytest.mark.parametrize("name", ["", "  "])
def test_every_row_has_an_id(name):
    with pytest.raises(InputError, match="row 2 has no id"):
        rows(["a", "b"], ["A", name])


def test_answers_that_changed_after_a_draw_are_counted(path):
    table = rows(["a", "b", "c"])
    cells = [(0, "coat"), (1, "pan"), (2, "red")]
    store = Decisions(path)
    store.add([Decision("A0", "coat", "right"), Decision("A1", "pan", "right", draw=0)])
    assert store.n_changed(table, cells) == 0
    store.add([Decision("A0", "coat", "wrong"), Decision("A1", "pan", "wrong", draw=0)])
    assert store.n_changed(table, cells) == Decisions(path).n_changed(table, cells) == 1
    assert store.n_changed(table, cells[2:]) == 0


@pytest.mark.parametrize("content", [b"\xff\xfe\0", b"notes", b'{"id": 1\n\xff\xfe\0'])
def test_a_file_that_is_no_file_of_decisions_is_refused(path, content):
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"line [12]: not a JSON object"):
        Decisions(path)
    assert path.read_bytes() == content
