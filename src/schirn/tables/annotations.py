"""What annotation tools write as JSON: rows of tasks and records, and verdicts for these tools.

Label Studio exports a list of tasks ("JSON") or of flat objects ("JSON-MIN"). Argilla writes a list
of records with `dataset.records.to_json`. Tags are the choices of a control of Label Studio, or the
answers to a multi-label question of Argilla. If several people have answered, a row carries the
tags of all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from schirn._files import brief
from schirn.exceptions import DataError

Document = dict[str, Any]

TOOLS = ("label-studio", "argilla")


class Verdict(NamedTuple):
    """The tags of one row after cleaning."""

    tags: list[str]
    confidence: list[float]
    """Probability that each of the tags is correct."""
    score: float | None
    """Smallest probability that a verdict on a tag of the row is right; None without tags."""


class Form(Protocol):
    """How rows lie in documents."""

    tool: str
    """The tool that wrote the documents; "" if any could have."""
    tag_columns: list[str]

    def row(self, document: Document) -> Document:
        """Return the cells of a document."""

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy of a document with changed and new cells."""

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy of a document with a verdict beside what people said."""


def recognise(path: Path, documents: list[Document]) -> Form:
    """Return the form of the documents: Label Studio's, Argilla's, or plain rows."""
    for kind in (LabelStudioTasks, ArgillaRecords):
        if documents and kind.fits(documents[0]):
            wrong = next((k for k, each in enumerate(documents) if not kind.fits(each)), None)
            if wrong is not None:
                raise DataError(
                    f"{path}: entry {wrong + 1} is not a {kind.unit} as the entries before it: "
                    f"{brief(documents[wrong])}"
                )
            return kind(path, documents)
    return PlainRows(documents)


class PlainRows:
    """Flat objects. Label Studio writes several choices as {"choices": [...]}, one as a text."""

    tool = ""

    def __init__(self, documents: list[Document]) -> None:
        found = (key for each in documents for key, cell in each.items() if _has_choices(cell))
        self.tag_columns = list(dict.fromkeys(found))

    def row(self, document: Document) -> Document:
        """Return the object, with choices as lists."""
        return {**document, **{name: _listed(document.get(name)) for name in self.tag_columns}}

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy; several choices stay a list, so that the column is known by it."""
        whole = {**document, **new}
        for name, cell in own.items():
            if name not in self.tag_columns:
                if name in document or cell is not None:
                    whole[name] = cell
            elif cell != _listed(document.get(name)):
                whole.pop(name, None)
                if len(cell) > 1 or _has_choices(document.get(name)):
                    whole[name] = {"choices": cell}
                elif cell:
                    whole[name] = cell[0]
        return whole

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return the row as it is: it has no place for verdicts."""
        return document


class LabelStudioTasks:
    """Tasks of Label Studio, with choices in their annotations, or else in their predictions."""

    tool, unit = "label-studio", "task of Label Studio"

    def __init__(self, path: Path, documents: list[Document]) -> None:
        data_columns = dict.fromkeys(key for each in documents for key in each["data"])
        self._place, self._target = "annotations", dict[str, str]()
        for place in ("annotations", "predictions"):
            for k, each in enumerate(documents):
                for result in _choices(each, place, f"{path}: task {k + 1}"):
                    self._target.setdefault(result["from_name"], str(result.get("to_name")))
            if self._target:
                self._place = place
                break
        self._column = {
            name: f"{self._place}.{name}" if name in data_columns else name for name in self._target
        }
        self.tag_columns = list(self._column.values())

    @staticmethod
    def fits(document: Document) -> bool:
        """Whether an object is a task."""
        answers = [document.get(place, []) for place in ("annotations", "predictions")]
        return (
            isinstance(document.get("data"), dict)
            and any(place in document for place in ("annotations", "predictions"))
            and all(isinstance(each, list) for each in answers)
        )

    def row(self, document: Document) -> Document:
        """Return the data of a task, its id and its choices."""
        cells = {"id": document["id"]} if "id" in document else {}
        cells |= document["data"]
        for name, column in self._column.items():
            found = _choices(document, self._place)
            own = (tag for each in found if each["from_name"] == name for tag in _tags(each))
            cells[column] = list(dict.fromkeys(own))
        return cells

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy with other choices in its annotations, and new cells in its data."""
        names = {column: name for name, column in self._column.items()}
        before = self.row(document)
        cells = {key: cell for key, cell in own.items() if key not in names and key != "id"}
        cells = {key: cell for key, cell in cells.items() if cell != before.get(key)}
        whole = {**document, "data": {**document["data"], **cells, **new}}
        for column, tags in own.items():
            if column in names and tags != before[column]:
                whole[self._place] = self._answers(whole, names[column], before[column], tags)
        return whole

    def _answers(
        self, document: Document, name: str, before: list[str], tags: list[str]
    ) -> list[Document]:
        """Return the annotations with other choices; new ones go to the first annotation."""
        answers, is_first = [], True
        for answer in document.get(self._place, []):
            if answer.get("was_cancelled"):
                answers.append(answer)
                continue
            results = []
            for result in answer.get("result") or ():
                if not _is_choice(result) or result["from_name"] != name:
                    results.append(result)
                    continue
                listed = set(_tags(result))
                kept = [t for t in tags if t in listed or (is_first and t not in before)]
                is_first = False
                if kept:
                    results.append({**result, "value": {**result["value"], "choices": kept}})
            answers.append({**answer, "result": results})
        missing = [tag for tag in tags if tag not in before]
        if is_first and missing:
            live = [k for k, each in enumerate(answers) if not each.get("was_cancelled")]
            new = _choice_result(name, self._target[name], missing)
            if live:
                first = answers[live[0]]
                answers[live[0]] = {**first, "result": [*first["result"], new]}
            else:
                answers.append({"result": [new]})
        return answers

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy with the verdict as a prediction, in the place of an earlier one."""
        names = {column: name for name, column in self._column.items()}
        name = names.get(column, column)
        others = [
            each
            for each in document.get("predictions", [])
            if not (isinstance(each, dict) and each.get("model_version") == by)
        ]
        target = self._target.get(name, next(iter(document["data"]), name))
        return {**document, "predictions": [*others, _prediction(name, target, verdict, by)]}


class ArgillaRecords:
    """Records of Argilla 2, with responses to multi-label questions, or else suggestions."""

    tool, unit = "argilla", "record of Argilla"

    def __init__(self, path: Path, documents: list[Document]) -> None:
        self._path = path
        taken = dict.fromkeys(key for each in documents for key in each["fields"])
        self._metadata = _columns_for(documents, "metadata", taken)
        self._vectors = _columns_for(documents, "vectors", taken)
        self._place = "responses"
        questions: dict[str, list[Any]] = {}
        for place in ("responses", "suggestions"):
            for k, each in enumerate(documents):
                for question, values in _answers(each, place, f"{path}: record {k + 1}").items():
                    questions.setdefault(question, []).extend(values)
            if questions:
                self._place = place
                break
        self._column = {
            name: f"{self._place}.{name}" if name in taken else name for name in questions
        }
        self._many = {name for name, found in questions.items() if any(map(_are_tags, found))}
        self.tag_columns = [self._column[name] for name in questions if name in self._many]

    @staticmethod
    def fits(document: Document) -> bool:
        """Whether an object is a record."""
        places = ("responses", "suggestions")
        return (
            isinstance(document.get("fields"), dict)
            and any(place in document for place in places)
            and all(isinstance(document.get(k) or {}, dict) for k in (*places, "metadata"))
        )

    def row(self, document: Document) -> Document:
        """Return the fields, metadata, vectors and answers of a record, and its id."""
        cells = {"id": document["id"]} if "id" in document else {}
        cells |= document["fields"]
        for place, columns in (("metadata", self._metadata), ("vectors", self._vectors)):
            found = document.get(place) or {}
            cells |= {column: found[name] for name, column in columns.items() if name in found}
        answers = _answers(document, self._place)
        for name, column in self._column.items():
            values = answers.get(name, [])
            if name in self._many:
                lists = (value if isinstance(value, list) else [value] for value in values)
                cells[column] = list(dict.fromkeys(str(tag) for tags in lists for tag in tags))
            else:
                cells[column] = values[0] if values else None
        return cells

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy with other answers, and new cells as metadata."""
        before, whole = self.row(document), dict(document)
        names = {column: name for name, column in self._column.items()}
        if new:
            extra = {key: _metadata_value(cell) for key, cell in new.items()}
            whole["metadata"] = {**(document.get("metadata") or {}), **extra}
        for column, cell in own.items():
            if cell == before.get(column):
                continue
            name = names.get(column)
            if name is None or name not in self._many:
                raise DataError(
                    f"{self._path}: the column {brief(column)} is not a multi-label question, so "
                    f"it cannot be changed"
                )
            answers = whole.get(self._place) or {}
            if self._place == "suggestions":
                new_answer: Any = _suggestion_with(answers.get(name, {}), cell)
            else:
                new_answer = self._responses(document, answers.get(name, []), before[column], cell)
            whole[self._place] = {**answers, name: new_answer}
        return whole

    def _responses(
        self, document: Document, responses: list[Document], before: list[str], tags: list[str]
    ) -> list[Document]:
        """Return the responses with other tags; new ones go to the first."""
        if not responses:
            raise DataError(
                f"{self._path}: the record {brief(document.get('id'))} has no response, so no tag "
                f"can be added to it; write suggestions for argilla instead",
                parameter="to",
            )
        found = []
        for k, response in enumerate(responses):
            listed = response.get("value") or []
            listed = set(listed if isinstance(listed, list) else [listed])
            kept = [t for t in tags if t in listed or (k == 0 and t not in before)]
            found.append({**response, "value": kept})
        return found

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy with the verdict as the suggestion."""
        names = {column: name for name, column in self._column.items()}
        suggestions = dict(document.get("suggestions") or {})
        suggestions.pop(names.get(column, column), None)
        return {
            **document,
            "suggestions": suggestions | _suggestion(names.get(column, column), verdict, by),
        }


def label_studio_config(shown: str, column: str, tags: Iterable[str], is_image: bool) -> str:
    """Return the labelling interface of a project for `make_task`."""
    kind = "Image" if is_image else "Text"
    choices = [f"    <Choice value={_quoted(tag)}/>" for tag in tags]
    lines = [
        "<View>",
        f"  <{kind} name={_quoted(shown)} value={_quoted('$' + shown)}/>",
        f'  <Choices name={_quoted(column)} toName={_quoted(shown)} choice="multiple">',
        *choices,
        "  </Choices>",
        "</View>",
    ]
    return "\n".join(lines) + "\n"


def make_task(data: Document, column: str, target: str, verdict: Verdict, by: str) -> Document:
    """Return a new task of Label Studio with a verdict as its prediction."""
    return {"data": data, "predictions": [_prediction(column, target, verdict, by)]}


def make_record(
    name: Any, fields: Document, metadata: Document, column: str, verdict: Verdict, by: str
) -> Document:
    """Return a new record of Argilla with a verdict as its suggestion."""
    return {
        "id": str(name),
        "fields": fields,
        "metadata": {key: _metadata_value(cell) for key, cell in metadata.items()},
        "suggestions": _suggestion(column, verdict, by),
        "responses": {},
        "vectors": {},
        "status": "pending",
        "_server_id": None,
    }


def _prediction(name: str, target: str, verdict: Verdict, by: str) -> Document:
    result = [_choice_result(name, target, verdict.tags)] if verdict.tags else []
    score = {} if verdict.score is None else {"score": round(verdict.score, 4)}
    return {"model_version": by, **score, "result": result}


def _choice_result(name: str, target: str, tags: Iterable[str]) -> Document:
    about = {"id": f"schirn-{name}", "from_name": name, "to_name": target, "type": "choices"}
    return {**about, "value": {"choices": list(tags)}}


def _suggestion(question: str, verdict: Verdict, by: str) -> Document:
    # Argilla has no suggestion of nothing.
    if not verdict.tags:
        return {}
    scores = [round(p, 4) for p in verdict.confidence]
    return {question: {"value": list(verdict.tags), "score": scores, "agent": by}}


def _suggestion_with(suggestion: Document, tags: list[str]) -> Document:
    """Return a suggestion of other tags; scores that no longer fit are left out."""
    value, score = suggestion.get("value"), suggestion.get("score")
    known = {}
    if isinstance(value, list) and isinstance(score, list) and len(value) == len(score):
        known = dict(zip(value, score, strict=True))
    fits = tags and all(tag in known for tag in tags)
    return {**suggestion, "value": tags, "score": [known[tag] for tag in tags] if fits else None}


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


def _choices(document: Document, place: str, where: str = "") -> list[Document]:
    """Return the results with choices in all annotations that were not cancelled."""
    found = []
    for k, answer in enumerate(document.get(place) or ()):
        results = answer.get("result") if isinstance(answer, dict) else answer
        if not isinstance(results, list | None):
            raise DataError(f"{where}: entry {k + 1} of {place} has no list of results")
        if not answer.get("was_cancelled"):
            found += [result for result in results or () if _is_choice(result)]
    return found


def _answers(document: Document, place: str, where: str = "") -> dict[str, list[Any]]:
    """Return the values of all answers to each question."""
    found = {}
    for question, given in (document.get(place) or {}).items():
        entries = given if place == "responses" else [given]
        if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
            raise DataError(
                f"{where}: the {place} to {brief(question)} are {brief(given)}, not as Argilla "
                f"writes them"
            )
        values = [each.get("value") for each in entries]
        found[question] = [value for value in values if value is not None]
    return found


def _are_tags(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(tag, str) for tag in value)


def _columns_for(documents: list[Document], place: str, taken: dict[str, None]) -> dict[str, str]:
    """Return a column for each name; one that is taken gets the place in front."""
    names = dict.fromkeys(key for each in documents for key in each.get(place) or ())
    columns = {name: f"{place}.{name}" if name in taken else name for name in names}
    taken |= dict.fromkeys(columns.values())
    return columns


def _quoted(text: str) -> str:
    """Return an attribute of XML."""
    held = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return f'"{escape(held)}"'


def _metadata_value(cell: Any) -> Any:
    """Return a value that metadata can have: a text, a number, or a list of texts."""
    if isinstance(cell, dict):
        return [f"{key}={value:.4g}" for key, value in cell.items()]
    if isinstance(cell, str | int | float | list | None):
        return cell
    return str(cell)
