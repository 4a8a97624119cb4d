"""Questions as tasks of labeling tools, and their exports read back."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from app.workflow.answer_helpers import file_answers, read_answers

from schirn import find_noisy_labels
from schirn.app.workflow import (
    LABEL_CONFIG,
    Decision,
    Decisions,
    RowContent,
    TableCleaning,
    Task,
    config_path,
    is_task_file,
    read_tasks,
    write_argilla_answers,
    write_tasks,
)
from schirn.app.workflow._answers import has_answers, question_tasks
from schirn.exceptions import InputError

TOOLS = ["label-studio", "argilla"]
HOSTILE = ['a,b\n"c"', "=SUM(A1)", "'quoted'", "жёлтый 🟡", "  spaces ", "\u202etxet", "<b>&amp;"]
ADA = "ada@example.org"


def label(record, word, who=ADA, when="2026-11-18T09:30:00.123456Z", **more):
    """Answer a task as its tool exports it."""
    if "data" in record:
        person = {"id": 7, "email": who} if isinstance(who, str) else who
        value = {"choices": [word]}
        result = {"from_name": "right", "to_name": "text", "type": "choices", "value": value}
        annotation = {"id": 1, "completed_by": person, "result": [result], "was_cancelled": False}
        times = {"created_at": when, "updated_at": when}
        record.setdefault("annotations", []).append({**annotation, **times, **more})
    else:
        response = {"value": word, "user_id": who, "updated_at": when, "status": "submitted"}
        response |= more
        record["responses"].setdefault("right", []).append(response)
    return record


@pytest.fixture(scope="module")
def ranked():
    """A ranking of tags with hostile names, and the texts of its rows."""
    rng = np.random.default_rng(0)
    Y = rng.random((120, len(HOSTILE))) < 0.4
    X = Y @ rng.normal(size=(len(HOSTILE), 6)) + 0.1 * rng.normal(size=(120, 6))
    Y |= rng.random(Y.shape) < 0.1
    ranking = find_noisy_labels(
        X, Y.astype(int), label_names=HOSTILE, method="CandidateRidge", random_state=0
    )
    return ranking, [f'{i}: "quoted",\nwith\ttabs 🟡' for i in range(120)]


@pytest.fixture(params=TOOLS)
def asked(request, ranked, tmp_path):
    """Tasks, their file, its records, and a function that writes an export."""
    ranking, texts = ranked
    questions = ranking.questions(30)
    tasks = question_tasks(questions, ranking, texts=texts, content=texts)
    path = tmp_path / "tasks.json"
    write_tasks(path, tasks, request.param)
    records = json.loads(path.read_text("ascii"))

    def export(changed):
        path.write_text(json.dumps(changed), "utf-8")
        return path

    return ranking, texts, tasks, records, export


def test_hostile_names_and_texts_come_back(asked):
    ranking, texts, tasks, records, export = asked
    assert {task.tag for task in tasks} == set(HOSTILE)
    words = ["yes", "no", "unsure"] * 10
    path = export([label(r, word) for r, word in zip(records, words, strict=True)])
    assert is_task_file(path)
    assert has_answers(path)
    read, _ = read_answers([path], ranking, content=texts)
    said = {
        (row, tag): value
        for row, tag, value in zip(
            read.row.tolist(), read.label.tolist(), read.answer.tolist(), strict=True
        )
    }
    value = {"yes": 1.0, "no": 0.0}
    for task, word in zip(tasks, words, strict=True):
        if word != "unsure":
            assert said[task.row, task.tag] == value[word]
    assert read.n_answers == 20
    assert file_answers([path], ranking, content=texts).tags().keys() == {
        (t.row, t.tag) for t in tasks
    }


def test_answers_are_those_of_a_table_of_questions(asked, tmp_path):
    """Also the round and the probability of asking survive."""
    ranking, texts, tasks, records, export = asked
    questions = ranking.questions(30)
    right = {(t.row, t.tag): i % 3 > 0 for i, t in enumerate(tasks)}
    words = ["yes" if right[t.row, t.tag] else "no" for t in tasks]
    path = export([label(r, word) for r, word in zip(records, words, strict=True)])
    read, _ = read_answers([path], ranking, content=texts)
    cells = zip(questions.row.tolist(), questions.label.tolist(), strict=True)
    expected = ranking.answered(questions, [right[cell] for cell in cells])
    np.testing.assert_array_equal(read.answer, expected.answer)
    assert read.wrong_share == pytest.approx(expected.wrong_share)
    assert read.wrong_share_interval == pytest.approx(expected.wrong_share_interval)


def test_the_verdict_is_hidden_unless_asked_for(ranked, tmp_path):
    ranking, texts = ranked
    tasks = question_tasks(ranking.questions(9), ranking, texts=texts)
    path = tmp_path / "tasks.json"
    for tool, key in (("label-studio", "predictions"), ("argilla", "suggestions")):
        write_tasks(path, tasks, tool)
        hidden = json.loads(path.read_text())
        assert not any(record.get(key) for record in hidden)
        assert "score" not in path.read_text()
        write_tasks(path, tasks, tool, show_predictions=True)
        for task, record in zip(tasks, json.loads(path.read_text()), strict=True):
            word, p = task.prediction
            assert p == pytest.approx(max(task.confidence, 1 - task.confidence))
            if tool == "argilla":
                assert record["suggestions"]["right"]["value"] == word
                assert record["suggestions"]["right"]["score"] == p
            else:
                (prediction,) = record["predictions"]
                assert prediction["result"][0]["value"] == {"choices": [word]}
                assert prediction["score"] == p
    assert Task(0, "a", "q").prediction is None


def test_the_labeling_interface_shows_what_the_tasks_hold(asked, tmp_path):
    _, _, _, records, _ = asked
    view = ET.fromstring(LABEL_CONFIG)
    shown = {node.get("value")[1:] for node in view.iter() if node.get("value", "")[:1] == "$"}
    assert shown == {"tag", "text"}
    (choices,) = view.iter("Choices")
    assert choices.get("name") == "right"
    assert choices.get("toName") in {node.get("name") for node in view.iter("Text")}
    if "data" in records[0]:
        assert all(record["data"][name] for name in shown for record in records)
        config = Path(config_path(tmp_path / "tasks.json"))
        assert config.read_text("utf-8") == LABEL_CONFIG


def test_partial_answers_and_deleted_tasks(asked):
    ranking, texts, tasks, records, export = asked
    label(records[0], "yes")
    label(records[1], "no")
    if "data" in records[2]:
        label(records[2], "no", was_cancelled=True)
        records[3]["annotations"] = [{"id": 4, "completed_by": 1, "result": []}]
        records[4]["drafts"] = label({"data": {}}, "no")["annotations"]
        records[5]["predictions"] = label({"data": {}}, "no")["annotations"]
    else:
        label(records[2], "no", status="draft")
        label(records[3], "no", status="discarded")
    path = export([records[1], *records[2:20], records[0]])
    read, _ = read_answers([path], ranking, content=texts)
    assert read.n_answers == 2
    first = {(task.row, task.tag) for task in tasks[:2]}
    assert file_answers([path], ranking, content=texts).tags().keys() == first
    path = export(records[2:])
    assert not has_answers(path)
    with pytest.raises(InputError, match="no answer yet"):
        read_answers([path], ranking, content=texts)
    export([])
    assert is_task_file(path)


def fields_of(record):
    return record["data"] if "data" in record else record["fields"]


def test_edited_moved_and_foreign_tasks_are_refused(asked):
    ranking, texts, tasks, records, export = asked

    def refused(change, content=texts):
        copy = json.loads(json.dumps(records))
        label(copy[0], "yes")
        change(copy[0])
        with pytest.raises(InputError) as error:
            read_answers([export(copy)], ranking, content=content)
        assert "task 1" in str(error.value)
        return str(error.value)

    other = next(name for name in HOSTILE if name != tasks[0].tag)
    said = refused(lambda record: fields_of(record).update(tag=other))
    assert "was asked about another row or tag" in said
    changed = ["another text", *texts[1:]]
    changed[tasks[0].row] = "another text"
    assert "has changed since" in refused(lambda record: None, changed)
    strange = refused(lambda record: fields_of(record).pop("tag"))
    assert "this program did not write the task" in strange

    def move(record):
        if "data" in record:
            record["data"]["row"] = str(tasks[0].row + 2)
        else:
            record["id"] = f"{tasks[0].row + 2}:{tasks[0].question}"

    assert "was asked about another row or tag" in refused(move)


def test_tasks_of_another_table_are_refused(asked, ranked):
    _, texts, _, records, export = asked
    rng = np.random.default_rng(1)
    Y = rng.random((120, len(HOSTILE))) < 0.4
    other = find_noisy_labels(
        rng.normal(size=(120, 4)), Y.astype(int), label_names=HOSTILE, method="CandidateRidge"
    )
    path = export([label(records[0], "yes")])
    with pytest.raises(InputError, match="about another table"):
        read_answers([path], other, content=[f"other {text}" for text in texts])


def test_what_is_no_answer_is_refused(asked):
    ranking, texts, _, records, export = asked
    path = export([label(records[0], "perhaps"), *records[1:]])
    with pytest.raises(InputError, match="'perhaps' is not an answer"):
        read_answers([path], ranking, content=texts)
    path = export([label(records[1], 5)])
    with pytest.raises(InputError, match="not one answer"):
        read_answers([path], ranking, content=texts)
    path = export([label(records[2], "yes", when="yesterday")])
    with pytest.raises(InputError, match="'yesterday' is not a time"):
        read_answers([path], ranking, content=texts)
    export([{"text": "JSON-MIN"}])
    assert not is_task_file(path)
    with pytest.raises(InputError, match="neither a task of Label Studio"):
        read_tasks(path)


@pytest.mark.parametrize(
    "damage",
    ["{", "[[[", '{"data": 1}', '[{"data": {}, "annotations": 3}]', '[{"fields": {}, "id": 1}]'],
)
def test_damaged_exports_end_in_one_sentence(tmp_path, ranked, damage):
    path = tmp_path / "export.json"
    path.write_text(damage)
    ranking, texts = ranked
    with pytest.raises(InputError) as error:
        list(read_tasks(path)) or read_answers([path], ranking, content=texts)
    assert "\n" not in str(error.value)


def test_who_and_when(asked):
    _, _, _, records, export = asked
    label(records[0], "yes", who=ADA, when="2026-11-18T10:30:00.123456+01:00")
    if "data" in records[1]:
        label(records[1], "yes", who=12)
    else:
        label(records[1], "yes", who="0f3c-uuid", when=None)
    first, second = read_tasks(export(records))
    assert (first.who, first.when) == (ADA, "2026-11-18T09:30:00.123Z")
    assert second.who == ("user 12" if "data" in records[1] else "0f3c-uuid")
    assert second.when.endswith("Z")


def test_records_of_the_argilla_api_are_read(ranked, tmp_path):
    ranking, texts = ranked
    tasks = question_tasks(ranking.questions(5), ranking, texts=texts, content=texts)
    path = tmp_path / "records.json"
    write_tasks(path, tasks, "argilla")
    records = json.loads(path.read_text())
    for record in records:
        record["external_id"] = record["id"]
        record["id"] = "5f1c-server"
        values = {"right": {"value": "no"}}
        times = {"inserted_at": "2026-11-18T09:30:00", "updated_at": "2026-11-18T09:31:00"}
        record["responses"] = [
            {"id": "1", "values": values, "status": "submitted", "user_id": "u-1", **times}
        ]
    path.write_text(json.dumps(records))
    assert {said.when for said in read_tasks(path)} == {"2026-11-18T09:31:00.000Z"}
    read, _ = read_answers([path], ranking, content=texts)
    assert read.n_answers == 5


def test_people_who_disagree_are_an_error_without_decisions(asked):
    ranking, texts, _, records, export = asked
    label(records[0], "yes", who=ADA)
    label(records[0], "no", who="bob@example.org")
    with pytest.raises(InputError, match=r"bob@example\.org says the opposite of ada@example\.org"):
        read_answers([export(records)], ranking, content=texts)


@pytest.fixture
def table(tmp_path):
    """A table with ids whose tags have hostile names."""
    rng = np.random.default_rng(0)
    path = tmp_path / "items.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        for i in range(80):
            names = [name for name in HOSTILE if rng.random() < 0.4] or HOSTILE[:1]
            words = " ".join(f"word{HOSTILE.index(name)}" for name in names)
            row = {"sku": f"A{i}", "title": f"{words} {i}", "tags": names}
            stream.write(json.dumps(row) + "\n")
    return path


@pytest.mark.parametrize("tool", TOOLS)
def test_both_of_two_contradicting_decisions_are_kept(table, tmp_path, tool):
    options = {
        "labels": "tags",
        "text": "title",
        "id": "sku",
        "decisions": str(tmp_path / "decisions.jsonl"),
    }
    path = tmp_path / "tasks.json"
    TableCleaning(table, **options).write_questions(path, 6, tool=tool)
    records = json.loads(path.read_text())
    # Bob is later, though Ada is last in the file.
    label(records[0], "no", who="bob", when="2026-11-18T10:00:00Z")
    label(records[0], "yes", who=ADA, when="2026-11-18T09:00:00Z")
    label(records[1], "yes", who=ADA, when="2026-11-18T09:01:00Z")
    label(records[1], "yes", who="bob", when="2026-11-18T10:01:00Z")
    path.write_text(json.dumps(records))
    for _ in range(3):
        cleaning = TableCleaning(table, answers=str(path), **options).act()
        assert cleaning.ranking.n_answers == 2
        assert cleaning.decisions.contradictions == 1
        lines = (tmp_path / "decisions.jsonl").read_text("utf-8").splitlines()
        said = [json.loads(line) for line in lines]
        assert [(d["who"], d["answer"], d["when"]) for d in said] == [
            (ADA, "right", "2026-11-18T09:00:00.000Z"),
            (ADA, "right", "2026-11-18T09:01:00.000Z"),
            ("bob", "wrong", "2026-11-18T10:00:00.000Z"),
            ("bob", "right", "2026-11-18T10:01:00.000Z"),
        ]
    first = said[2]
    answer = dict(
        zip(
            zip(cleaning.ranking.row.tolist(), cleaning.ranking.label.tolist(), strict=True),
            cleaning.ranking.answer.tolist(),
            strict=True,
        )
    )
    assert answer[int(first["id"][1:]), first["tag"]] == 0
    # A later answer from elsewhere wins over the export.
    about = {key: first[key] for key in ("id", "tag", "row")}
    columns = tuple(first["columns"])
    later = Decision(**about, answer="right", who="Eve", columns=columns)
    Decisions(tmp_path / "decisions.jsonl").add([later])
    cleaning = TableCleaning(table, answers=str(path), **options)
    ranking = cleaning.ranking
    cell = (ranking.row == int(first["id"][1:])) & (ranking.label == first["tag"])
    assert ranking.answer[cell].tolist() == [1.0]
    assert len((tmp_path / "decisions.jsonl").read_text("utf-8").splitlines()) == 5


def test_decisions_from_elsewhere_are_merged_once(tmp_path):
    store = Decisions(tmp_path / "d.jsonl")
    store.add([Decision("A1", "coat", "wrong", "Eve", "2026-11-18T12:00:00.000Z")])
    early = Decision("A1", "coat", "right", "Ada", "2026-11-18T09:00:00.000Z")
    assert store.merge([early, early]) == 1
    # The later answer counts, though it was stored first.
    assert store.latest("A1", "coat").who == "Eve"
    assert store.contradictions == 1
    for again in (store, Decisions(store.path)):
        assert again.latest("A1", "coat").who == "Eve"
        assert again.contradictions == 1
        assert again.merge([early]) == 0
    # The same person says the same again, at the time of a new export.
    assert store.merge([early._replace(when="2026-11-18T13:00:00.000Z")]) == 0
    changed = early._replace(answer="wrong", when="2026-11-18T13:00:00.000Z")
    assert store.merge([changed]) == 1
    assert len(store.path.read_text().splitlines()) == 3


def test_decisions_say_what_the_row_held(ranked, tmp_path):
    ranking, texts = ranked
    rows = RowContent([f"A{i}" for i in range(120)], {"title": texts}, ["title"])
    tasks = question_tasks(ranking.questions(5), ranking, texts=texts, content=texts)
    path = tmp_path / "tasks.json"
    write_tasks(path, tasks)
    records = json.loads(path.read_text())
    path.write_text(json.dumps([label(record, "no") for record in records]))
    decisions = file_answers([path], ranking, content=texts).decisions(rows)
    assert [(d.id, d.tag) for d in decisions] == [(f"A{t.row}", t.tag) for t in tasks]
    assert {d.columns for d in decisions} == {("title",)}
    assert all(d.row == rows.hashes[int(d.id[1:])] for d in decisions)


class Response:
    """What Argilla's package says about an answer."""

    def __init__(self, name, value, user_id, status):
        self.question_name = name
        self.value = value
        self.user_id = user_id
        self.status = status


class Record:
    """A record of Argilla."""

    def __init__(self, record, responses):
        self.id = record["id"]
        self.fields = record["fields"]
        self.responses = {"right": [Response("right", *response) for response in responses]}


def argilla_records(tmp_path):
    write_tasks(
        tmp_path / "tasks.json", [Task(i, f"tag {i}", f"listed:{i}") for i in range(4)], "argilla"
    )
    return json.loads((tmp_path / "tasks.json").read_text())


SAID = [[("yes", "u1", "submitted"), ("no", "u2", "draft")], [("no", "u2", "discarded")], []]


def test_answers_of_argilla_that_were_not_submitted_do_not_count(tmp_path):
    records = [Record(*each) for each in zip(argilla_records(tmp_path), SAID, strict=False)]
    write_argilla_answers(tmp_path / "export.json", records, {"u1": "Ada"})
    answers = read_tasks(tmp_path / "export.json")
    assert [(a.row, a.tag, a.question, a.right, a.who) for a in answers] == [
        ("1", "tag 0", "listed:0", "yes", "Ada")
    ]


def test_answers_of_argilla_without_a_status_are_refused(tmp_path):
    """As its own package exports them."""
    records = argilla_records(tmp_path)
    records[0]["responses"]["right"] = [{"value": "yes", "user_id": "u1"}]
    (tmp_path / "export.json").write_text(json.dumps(records))
    with pytest.raises(InputError, match="write_argilla_answers"):
        read_tasks(tmp_path / "export.json")


def test_the_package_of_argilla_reads_records_and_answers_come_back(tmp_path):
    argilla = pytest.importorskip("argilla")
    people = {uuid4(): "Ada", uuid4(): "Bob"}
    ids = dict(zip(("u1", "u2"), people, strict=True))
    tasks = [Task(i, tag, f"listed:{i}", confidence=0.3) for i, tag in enumerate(HOSTILE)]
    write_tasks(tmp_path / "tasks.json", tasks, "argilla", show_predictions=True)
    written = json.loads((tmp_path / "tasks.json").read_text())
    records = [argilla.Record.from_dict(record) for record in written]
    assert [record.fields["tag"] for record in records] == HOSTILE
    assert {record.suggestions["right"].value for record in records} == {"no"}
    for record, said in zip(records, SAID, strict=False):
        for value, who, status in said:
            response = argilla.Response("right", value, user_id=ids[who], status=status)
            record.responses.add(response)
    names = {str(user): name for user, name in people.items()}
    write_argilla_answers(tmp_path / "export.json", records, names)
    answers = read_tasks(tmp_path / "export.json")
    assert [(a.row, a.tag, a.right, a.who) for a in answers] == [("1", HOSTILE[0], "yes", "Ada")]
