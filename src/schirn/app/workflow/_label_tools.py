"""Questions as tasks of Label Studio and records of Argilla, and their answers read back.

A task carries the same sealed question as a line of a CSV file, so that answers about another
table, another row or an edited tag are rejected. It hides the verdict unless it is requested.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from schirn._files import (
    atomic_write,
    brief,
    byte_limit,
    check_limit,
    reason_of,
    utc_text,
    write_text,
)
from schirn.exceptions import InputError, suggest

LABEL_STUDIO = "label-studio"
ARGILLA = "argilla"
TOOLS = (LABEL_STUDIO, ARGILLA)
LABEL_CONFIG = """\
<View>
  <Header value="Is this tag right?"/>
  <Text name="tag" value="$tag"/>
  <Text name="text" value="$text"/>
  <Choices name="right" toName="text" choice="single" showInline="true">
    <Choice value="yes" hotkey="1"/>
    <Choice value="no" hotkey="2"/>
    <Choice value="unsure" hotkey="3"/>
  </Choices>
</View>
"""
"""The labeling interface of a Label Studio project that shows the tasks."""

# Name of the control in the labeling interface, and of the question in Argilla.
_CONTROL = "right"
_AGENT = "schirn"
_DATA = ("row", "tag", "question")
BY_ID = "update"
"""Prefix of the questions of `schirn update`, which name rows by their ids."""

Json = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """One question, as a labeling tool shows it.

    Attributes
    ----------
    row : int
        Row, from 0.
    tag : str
        Name of the tag.
    question : str
        The seal, which identifies the question; see `_answers`.
    id, text, before : str or None
        Name and text of the row, and an earlier answer if the row has changed since.
    confidence : float
        Probability that the tag is right; NaN if it is unknown.
    """

    row: int
    tag: str
    question: str
    id: str | None = None
    text: str | None = None
    before: str | None = None
    confidence: float = float("nan")

    @property
    def key(self) -> str:
        """Key shared with other tasks about this tag; see `task_key`."""
        return task_key(str(self.row + 1), self.tag, self.question)

    @property
    def prediction(self) -> tuple[str, float] | None:
        """The likelier answer and its probability; None if they are unknown."""
        p = self.confidence
        if not 0 <= p <= 1:
            return None
        return ("yes", p) if p >= 0.5 else ("no", 1 - p)


@dataclass(frozen=True)
class TaskAnswer:
    """One person's answer to a task.

    Attributes
    ----------
    where : str
        Place in the file, for messages.
    row, tag, question, right : str
        As in the columns of a file of questions: rows count from 1, and `right` is the answer.
    who : str
        The tool's name for the person.
    when : str
        Time in UTC; the time of the file if the tool does not record it.
    """

    where: str
    row: str
    tag: str
    question: str
    right: str
    who: str
    when: str


def write_tasks(
    path: str | os.PathLike[str],
    tasks: Iterable[Task],
    tool: str = LABEL_STUDIO,
    *,
    show_predictions: bool = False,
) -> None:
    """Write questions as a .json file that a labeling tool imports.

    For Label Studio, the labeling interface of the project is written next to it (.xml).

    Parameters
    ----------
    path : path
        File to write.
    tasks : iterable of Task
        The questions.
    tool : {"label-studio", "argilla"}, default="label-studio"
        The labeling tool.
    show_predictions : bool, default=False
        Let the tool show the likelier answer and its probability, which biases people.

    Raises
    ------
    InputError
        If the tool is unknown.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from schirn.app.workflow import Task, write_tasks
    >>> path = f"{tempfile.mkdtemp()}/tasks.json"
    >>> write_tasks(path, [Task(0, "coat", "sealed", text="A red jacket")])
    >>> json.loads(pathlib.Path(path).read_text("utf-8"))[0]["data"]["text"]
    'A red jacket'
    """
    records = task_records(tasks, tool, show_predictions=show_predictions)
    with atomic_write(path) as stream:
        # Pure ASCII with escapes works with any encoding that a tool expects.
        stream.write(json.dumps(records, indent=1).encode("ascii"))
    if tool == LABEL_STUDIO:
        write_text(config_path(path), LABEL_CONFIG)


def config_path(path: str | os.PathLike[str]) -> str:
    """Return the file of the labeling interface, next to the file of tasks.

    Parameters
    ----------
    path : path
        File of tasks.

    Returns
    -------
    str
    """
    return str(Path(path).with_suffix(".xml"))


def task_records(
    tasks: Iterable[Task], tool: str = LABEL_STUDIO, *, show_predictions: bool = False
) -> list[Json]:
    """Return questions as the JSON objects that a labeling tool imports.

    Parameters
    ----------
    tasks : iterable of Task
        The questions.
    tool : {"label-studio", "argilla"}, default="label-studio"
        The labeling tool.
    show_predictions : bool, default=False
        Include the likelier answer and its probability, which biases people.

    Returns
    -------
    list of dict
    """
    if tool not in TOOLS:
        raise InputError(f"there is no labeling tool {brief(tool)}; {suggest(tool, TOOLS)}")
    make = _studio_task if tool == LABEL_STUDIO else _argilla_record
    return [make(task, show_predictions) for task in tasks]


def _studio_task(task: Task, show_prediction: bool) -> Json:
    """Return a task in the basic JSON format of Label Studio."""
    data = {"row": str(task.row + 1), "tag": task.tag, "text": _shown_text(task)}
    extras = {"id": task.id, "before": task.before}
    data |= {name: value for name, value in extras.items() if value is not None}
    data["question"] = task.question
    record: Json = {"data": data}
    prediction = task.prediction if show_prediction else None
    if prediction is not None:
        word, p = prediction
        result = {
            "from_name": _CONTROL,
            "to_name": "text",
            "type": "choices",
            "value": {"choices": [word]},
        }
        record["predictions"] = [{"model_version": _AGENT, "score": p, "result": [result]}]
    return record


def _argilla_record(task: Task, show_prediction: bool) -> Json:
    """Return a record for Argilla, with the sealed question as part of its id.

    Metadata would be lost in data sets whose settings do not declare it.
    """
    suggestions: Json = {}
    prediction = task.prediction if show_prediction else None
    if prediction is not None:
        word, p = prediction
        suggestions[_CONTROL] = {"value": word, "score": p, "agent": _AGENT}
    return {
        "id": f"{task.row + 1}:{task.question}",
        "fields": {"tag": task.tag, "text": _shown_text(task)},
        "metadata": {},
        "suggestions": suggestions,
        "responses": {},
        "vectors": {},
    }


def _shown_text(task: Task) -> str:
    """Return the text of the row; tools reject an empty one."""
    return task.text or f"row {task.id or task.row + 1}"


def is_task_file(path: str | os.PathLike[str]) -> bool:
    """Return whether a file holds tasks of Label Studio or records of Argilla.

    Parameters
    ----------
    path : path
        Any path; the file need not exist.

    Returns
    -------
    bool
    """
    if Path(path).suffix.lower() != ".json" or not os.path.isfile(path):
        return False
    try:
        records = _load(path)
    except InputError:
        return False
    return all(_tool_of(record) is not None for record in records)


def _load(path: str | os.PathLike[str]) -> list[Any]:
    """Return the objects of a JSON list."""
    check_limit(Path(path), "has", os.path.getsize(path), byte_limit())
    try:
        with open(path, "rb") as stream:
            records = json.loads(stream.read())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON ({reason_of(error)})") from None
    if not isinstance(records, list):
        raise InputError(f"{path}: not a list of tasks")
    return records


def _tool_of(record: Any) -> str | None:
    """Return the tool that an object comes from."""
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("data"), dict):
        return LABEL_STUDIO
    return ARGILLA if isinstance(record.get("fields"), dict) else None


def write_argilla_answers(
    path: str | os.PathLike[str],
    records: Iterable[Any],
    people: Mapping[str, str] | None = None,
) -> None:
    """Write records of Argilla with their answers, for `read_tasks`.

    Exports of Argilla's own package do not distinguish submitted answers from drafts and discarded
    ones.

    Parameters
    ----------
    path : path
        A .json file.
    records : iterable of argilla.Record
        ``dataset.records(with_responses=True)``.
    people : dict from str to str, optional
        Name of each person, by user id.
    """
    names = people or {}
    exported = []
    for record in records:
        responses = []
        for response in record.responses[_CONTROL]:
            person = str(response.user_id)
            status = getattr(response.status, "value", response.status)
            answer = {"value": response.value, "user_id": names.get(person, person)}
            responses.append({**answer, "status": status})
        exported.append(
            {
                "id": str(record.id),
                "fields": dict(record.fields),
                "responses": {_CONTROL: responses},
            }
        )
    with atomic_write(path) as stream:
        stream.write(json.dumps(exported, indent=1).encode("ascii"))


def read_tasks(path: str | os.PathLike[str]) -> list[TaskAnswer]:
    """Return the answers in a .json export of Label Studio or Argilla.

    Tasks without an answer, drafts, and skipped or discarded tasks do not count.

    Parameters
    ----------
    path : path
        The export.

    Returns
    -------
    list of TaskAnswer
        In file order; a task that several people answered occurs several times.

    Raises
    ------
    InputError
        If the file is not such an export, if this program did not write a task, or if an answer is
        not yes, no or unsure.
    """
    exported = datetime.fromtimestamp(os.path.getmtime(path), UTC)
    answers: list[TaskAnswer] = []
    for number, record in enumerate(_load(path), 1):
        where = f"{path}, task {number}"
        tool = _tool_of(record)
        if tool is None:
            raise InputError(
                f"{where}: neither a task of Label Studio (export as JSON) nor a record of Argilla"
            )
        read = _studio_answers if tool == LABEL_STUDIO else _argilla_answers
        answers += read(record, where, exported)
    return answers


def open_tasks(path: str | os.PathLike[str]) -> set[str]:
    """Return the keys of the unanswered tasks in a Label Studio export.

    Parameters
    ----------
    path : path
        The export.

    Returns
    -------
    set of str
        Keys as in `task_key`.
    """
    keys = set()
    for number, record in enumerate(_load(path), 1):
        if _tool_of(record) == LABEL_STUDIO:
            answers = _studio_answers(record, f"{path}, task {number}", datetime.now(UTC))
            if not any(answers):
                data = record["data"]
                keys.add(task_key(*(str(data.get(name, "")) for name in _DATA)))
    return keys


def task_key(row: str, tag: str, question: str) -> str:
    """Return a key that is equal for tasks about the same tag of the same table.

    Parameters
    ----------
    row, tag, question : str
        Row, tag and seal of the task.

    Returns
    -------
    str
    """
    if question.startswith(f"{BY_ID}:"):
        # The number of such a row may change every night.
        return json.dumps([question, tag])
    about = ":".join(question.split(":")[:2])
    return json.dumps([about, row, tag])


def _studio_answers(record: Json, where: str, exported: datetime) -> Iterator[TaskAnswer]:
    """Yield the annotations of a task."""
    annotations = record.get("annotations") or record.get("completions") or []
    for annotation in _objects(annotations, where):
        if annotation.get("was_cancelled"):
            continue
        words: list[Any] = []
        for result in _objects(annotation.get("result") or [], where):
            if result.get("from_name") == _CONTROL:
                value = result.get("value")
                choices = value.get("choices") if isinstance(value, dict) else None
                words += choices if isinstance(choices, list) else [choices]
        if not words:
            continue
        data = record["data"]
        row = _cell(data, "row", where)
        tag = _cell(data, "tag", where)
        question = _cell(data, "question", where)
        when = annotation.get("updated_at") or annotation.get("created_at")
        who = _person(annotation.get("completed_by"))
        word = _only(words, where)
        time = _time(when, where, exported)
        yield TaskAnswer(where, row, tag, question, word, who, time)


def _argilla_answers(record: Json, where: str, exported: datetime) -> Iterator[TaskAnswer]:
    """Yield the submitted responses of a record."""
    for response in _responses(record.get("responses") or {}, where):
        word = response.get("value")
        status = response.get("status")
        if word is not None and status is None:
            raise InputError(
                f"{where}: does not say whether its answer was submitted; export with "
                f"schirn.app.workflow.write_argilla_answers"
            )
        if word is None or status != "submitted":
            continue
        id = str(record.get("external_id") or record.get("id") or "")
        row, _, question = id.partition(":")
        tag = _cell(record["fields"], "tag", where)
        when = response.get("updated_at") or response.get("inserted_at")
        who = _person(response.get("user_id"))
        time = _time(when, where, exported)
        yield TaskAnswer(where, row, tag, question, _only([word], where), who, time)


def _responses(responses: Any, where: str) -> Iterator[Json]:
    """Yield responses of Argilla, grouped by question (Python exports) or by user (API)."""
    if isinstance(responses, dict):
        yield from _objects(responses.get(_CONTROL) or [], where)
        return
    for response in _objects(responses, where):
        values = response.get("values")
        answer = values.get(_CONTROL) if isinstance(values, dict) else None
        value = answer.get("value") if isinstance(answer, dict) else None
        yield {**response, "value": value}


def _objects(values: Any, where: str) -> Sequence[Json]:
    """Return a list of JSON objects; raise InputError for anything else."""
    if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
        raise InputError(f"{where}: its answers are not a list of objects")
    return values


def _cell(data: Json, name: str, where: str) -> str:
    """Return a field of a task."""
    value = data.get(name)
    if value is None or isinstance(value, dict | list):
        raise InputError(
            f"{where}: has no {name!r}, so this program did not write the task; delete it from the "
            f"export"
        )
    return str(value)


def _only(words: Sequence[Any], where: str) -> str:
    """Return the only answer of a person; raise InputError if there are several."""
    if len(words) > 1 or not isinstance(words[0], str):
        raise InputError(f"{where}: {brief(words)} is not one answer; choose yes, no or unsure")
    return words[0]


def _person(value: Any) -> str:
    """Return the name of a person, given as a number, an id or an object."""
    if isinstance(value, dict):
        names = (value.get(name) for name in ("email", "username", "id"))
        value = next((name for name in names if name is not None), None)
    if value is None:
        return ""
    return f"user {value}" if isinstance(value, int) else str(value)


def _time(value: Any, where: str, exported: datetime) -> str:
    """Return a time in UTC."""
    if value is None:
        return utc_text(exported)
    try:
        when = datetime.fromisoformat(str(value))
        when = when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InputError(f"{where}: {brief(value)} is not a time") from None
    return utc_text(when)
