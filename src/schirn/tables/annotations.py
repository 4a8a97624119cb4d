"""What Label Studio writes as JSON: rows of tasks, and verdicts as predictions.

It exports a list of tasks ("JSON") or of flat objects ("JSON-MIN"). Tags are the choices of a
control. If several people have answered, a row carries the tags of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from schirn._files import brief
from schirn.exceptions import DataError
from schirn.tables.table import LABEL_COLUMNS

Document = dict[str, Any]

LABEL_STUDIO = "label-studio"
_PLACES = ("annotations", "predictions")


class Verdict(NamedTuple):
    """The tags of one row after cleaning."""

    tags: list[str]
    score: float | None
    """Smallest probability that a verdict on a tag of the row is right; None without tags."""


def recognise(path: Path, documents: list[Document]) -> LabelStudioTasks | PlainRows:
    """Return the form of the documents: tasks of Label Studio, or plain rows."""
    if not documents or not LabelStudioTasks.fits(documents[0]):
        return PlainRows(documents)
    wrong = next((k for k, task in enumerate(documents) if not LabelStudioTasks.fits(task)), None)
    if wrong is not None:
        raise DataError(
            f"{path}: entry {wrong + 1} is not a task of Label Studio as the entries before it: "
            f"{brief(documents[wrong])}"
        )
    return LabelStudioTasks(path, documents)


class PlainRows:
    """Flat objects. Label Studio writes several choices as {"choices": [...]}, one as a text."""

    def __init__(self, documents: list[Document]) -> None:
        names = (key for task in documents for key, cell in task.items() if _has_choices(cell))
        self.tag_columns = list(dict.fromkeys(names))

    def row(self, document: Document) -> Document:
        """Return the object, with choices as lists."""
        return {**document, **{name: _listed(document.get(name)) for name in self.tag_columns}}

    def changed(self, document: Document, cells: Document, new: Document) -> Document:
        """Return a copy; several choices stay a list, so that the column is known by it."""
        copy = {**document, **new}
        for name, cell in cells.items():
            if name not in self.tag_columns:
                if name in document or cell is not None:
                    copy[name] = cell
            elif cell != _listed(document.get(name)):
                copy.pop(name, None)
                if len(cell) > 1 or _has_choices(document.get(name)):
                    copy[name] = {"choices": cell}
                elif cell:
                    copy[name] = cell[0]
        return copy


class LabelStudioTasks:
    """Tasks of Label Studio, with choices in their annotations, or else in their predictions."""

    def __init__(self, path: Path, documents: list[Document]) -> None:
        self._target: dict[str, str] = {}
        for place in _PLACES:
            controls: dict[str, None] = {}
            for k, task in enumerate(documents):
                controls |= dict.fromkeys(self._choices(task, place, f"{path}: task {k + 1}"))
            self._place = place if controls else _PLACES[0]
            if controls:
                break
        taken = {key for task in documents for key in task["data"]}
        self._column = {
            name: f"{self._place}.{name}" if name in taken else name for name in controls
        }
        self._name = {column: name for name, column in self._column.items()}
        self.tag_columns = list(self._name)

    @classmethod
    def fits(cls, document: Document) -> bool:
        """Whether an object is a task; one that nobody has answered may lack its annotations."""
        answers = [document[place] for place in _PLACES if document.get(place) is not None]
        is_answered = any(place in document for place in _PLACES)
        return (
            isinstance(document.get("data"), dict)
            and all(isinstance(answer, list) for answer in answers)
            and (is_answered or not document.keys() & set(LABEL_COLUMNS))
        )

    def _choices(self, document: Document, place: str, where: str = "") -> dict[str, list[str]]:
        """Return the choices of each control, in all annotations that were not cancelled."""
        choices: dict[str, list[str]] = {}
        for k, answer in enumerate(document.get(place) or ()):
            results = answer.get("result") if isinstance(answer, dict) else answer
            if not isinstance(results, list | None):
                raise DataError(f"{where}: entry {k + 1} of {place} has no list of results")
            for result in () if answer.get("was_cancelled") else results or ():
                if _is_choice(result):
                    name = result["from_name"]
                    self._target.setdefault(name, str(result.get("to_name")))
                    choices.setdefault(name, []).extend(_tags(result))
        return choices

    def row(self, document: Document) -> Document:
        """Return the data and the choices of a task, and its id."""
        cells = {"id": document["id"]} if "id" in document else {}
        cells |= document["data"]
        choices = self._choices(document, self._place)
        for name, column in self._column.items():
            cells[column] = list(dict.fromkeys(choices.get(name, [])))
        return cells

    def changed(self, document: Document, edits: Document, new: Document) -> Document:
        """Return a copy with other choices in its annotations, and new cells in its data."""
        row = self.row(document)
        cells = {key: cell for key, cell in edits.items() if cell != row.get(key) and key != "id"}
        data = {key: cell for key, cell in cells.items() if key not in self._name}
        copy = {**document, "data": {**document["data"], **data, **new}}
        for column, tags in cells.items():
            if column in self._name:
                name = self._name[column]
                copy[self._place] = self._annotations(copy, name, row[column], tags)
        return copy

    def _annotations(
        self, document: Document, name: str, old_tags: list[str], tags: list[str]
    ) -> list[Document]:
        """Return the annotations with other choices; new ones go to the first annotation."""
        annotations, is_first = [], True
        for answer in document.get(self._place) or ():
            if answer.get("was_cancelled"):
                annotations.append(answer)
                continue
            results = []
            for result in answer.get("result") or ():
                if not _is_choice(result) or result["from_name"] != name:
                    results.append(result)
                    continue
                choices = _chosen(tags, old_tags, _tags(result), is_first)
                is_first = False
                if choices:
                    results.append({**result, "value": {**result["value"], "choices": choices}})
            annotations.append({**answer, "result": results})
        missing = _chosen(tags, old_tags, (), is_first)
        if missing:
            new = _choice_result(name, self._target[name], missing)
            live = [k for k, entry in enumerate(annotations) if not entry.get("was_cancelled")]
            if not live:
                return [*annotations, {"result": [new]}]
            first = annotations[live[0]]
            annotations[live[0]] = {**first, "result": [*first["result"], new]}
        return annotations

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy with the verdict as a prediction, in the place of an earlier one."""
        name = self._name.get(column, column)
        predictions = [
            prediction
            for prediction in document.get("predictions") or ()
            if not (isinstance(prediction, dict) and prediction.get("model_version") == by)
        ]
        target = self._target.get(name, next(iter(document["data"]), name))
        return {**document, "predictions": [*predictions, _prediction(name, target, verdict, by)]}


def _chosen(
    tags: Iterable[str], old_tags: Iterable[str], answer: Iterable[str], is_first: bool
) -> list[str]:
    """Return the tags of one answer: those it had, and new ones in the first answer."""
    return [tag for tag in tags if tag in answer or (is_first and tag not in old_tags)]


def label_studio_config(target: str, column: str, tags: Iterable[str], is_image: bool) -> str:
    """Return the labelling interface of a project for `make_task`."""
    kind = "Image" if is_image else "Text"
    choices = [f"    <Choice value={_quoted(tag)}/>" for tag in tags]
    lines = [
        "<View>",
        f"  <{kind} name={_quoted(target)} value={_quoted('$' + target)}/>",
        f'  <Choices name={_quoted(column)} toName={_quoted(target)} choice="multiple">',
        *choices,
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def make_task(data: Document, column: str, target: str, verdict: Verdict, by: str) -> Document:
    """Return a new task of Label Studio with a verdict as its prediction."""
    return {"data": data, "predictions": [_prediction(column, target, verdict, by)]}


def _prediction(name: str, target: str, verdict: Verdict, by: str) -> Document:
    result = [_choice_result(name, target, verdict.tags)] if verdict.tags else []
    score = {} if verdict.score is None else {"score": round(verdict.score, 4)}
    return {"model_version": by, **score, "result": result}


def _choice_result(name: str, target: str, tags: Iterable[str]) -> Document:
    about = {"id": f"schirn-{name}", "from_name": name, "to_name": target, "type": "choices"}
    return {**about, "value": {"choices": list(tags)}}


def _has_choices(cell: Any) -> bool:
    return (
        isinstance(cell, dict) and list(cell) == ["choices"] and isinstance(cell["choices"], list)
    )


def _listed(cell: Any) -> list[Any]:
    if _has_choices(cell):
        return list(cell["choices"])
    if cell is None:
        return []
    return list(cell) if isinstance(cell, list) else [cell]


def _is_choice(result: Any) -> bool:
    """Whether a result holds choices about the task, rather than about a region of it."""
    return (
        isinstance(result, dict)
        and result.get("type") == "choices"
        and isinstance(result.get("from_name"), str)
        and _has_choices(result.get("value"))
    )


def _tags(result: Document) -> list[str]:
    return [str(tag) for tag in result["value"]["choices"]]


def _quoted(text: str) -> str:
    """Return an attribute of XML."""
    held = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f'"{escape(held)}"'
