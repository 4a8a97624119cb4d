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


class _ToolRows:
    """Documents of a tool: data under one key, the answers of people and of models under others.

    If nobody has answered, the answers of models are the tags.
    """

    unit: str
    body: str
    places: tuple[str, str]
    container: type
    beside: tuple[str, ...] = ()

    def __init__(self, path: Path, documents: list[Document]) -> None:
        self._path = path
        taken = dict.fromkeys(key for each in documents for key in each[self.body])
        self._beside = {place: _columns_for(documents, place, taken) for place in self.beside}
        questions: dict[str, list[Any]] = {}
        for place in self.places:
            for k, each in enumerate(documents):
                where = f"{path}: {self.unit.partition(' ')[0]} {k + 1}"
                for name, values in self.answers(each, place, where).items():
                    questions.setdefault(name, []).extend(values)
            self._place = place if questions else self.places[0]
            if questions:
                break
        self._column = {
            name: f"{self._place}.{name}" if name in taken else name for name in questions
        }
        self._name = {column: name for name, column in self._column.items()}
        self._many = {name for name, values in questions.items() if any(map(_are_tags, values))}
        self.tag_columns = [self._column[name] for name in questions if name in self._many]

    @classmethod
    def fits(cls, document: Document) -> bool:
        """Whether an object is a document of the tool."""
        # What nobody has answered may lack the places for answers.
        is_bare = set(document) <= {"id", "meta", "metadata", cls.body}
        return (
            isinstance(document.get(cls.body), dict)
            and (is_bare or any(place in document for place in cls.places))
            and all(
                isinstance(document.get(k) or cls.container(), cls.container) for k in cls.places
            )
            and all(isinstance(document.get(place) or {}, dict) for place in cls.beside[:1])
        )

    def answers(self, document: Document, place: str, where: str = "") -> dict[str, list[Any]]:
        """Return the values of all answers to each question."""
        raise NotImplementedError

    def row(self, document: Document) -> Document:
        """Return the data, metadata, vectors and answers of a document, and its id."""
        cells = {"id": document["id"]} if "id" in document else {}
        cells |= document[self.body]
        for place, columns in self._beside.items():
            values = document.get(place) or {}
            cells |= {column: values[name] for name, column in columns.items() if name in values}
        answers = self.answers(document, self._place)
        for name, column in self._column.items():
            values = answers.get(name, [])
            if name in self._many:
                lists = (value if isinstance(value, list) else [value] for value in values)
                cells[column] = list(dict.fromkeys(str(tag) for tags in lists for tag in tags))
            else:
                cells[column] = values[0] if values else None
        return cells


class LabelStudioTasks(_ToolRows):
    """Tasks of Label Studio, with choices in their annotations, or else in their predictions."""

    tool, unit = "label-studio", "task of Label Studio"
    body, places, container = "data", ("annotations", "predictions"), list

    def __init__(self, path: Path, documents: list[Document]) -> None:
        self._target: dict[str, str] = {}
        super().__init__(path, documents)

    def answers(self, document: Document, place: str, where: str = "") -> dict[str, list[Any]]:
        """Return the choices in all annotations that were not cancelled."""
        values: dict[str, list[Any]] = {}
        for k, answer in enumerate(document.get(place) or ()):
            results = answer.get("result") if isinstance(answer, dict) else answer
            if not isinstance(results, list | None):
                raise DataError(f"{where}: entry {k + 1} of {place} has no list of results")
            for result in () if answer.get("was_cancelled") else results or ():
                if _is_choice(result):
                    name = result["from_name"]
                    self._target.setdefault(name, str(result.get("to_name")))
                    values.setdefault(name, []).append(_tags(result))
        return values

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy with other choices in its annotations, and new cells in its data."""
        before = self.row(document)
        cells = {key: cell for key, cell in own.items() if cell != before.get(key) and key != "id"}
        data = {key: cell for key, cell in cells.items() if key not in self._name}
        whole = {**document, "data": {**document["data"], **data, **new}}
        for column, tags in cells.items():
            if column in self._name:
                name = self._name[column]
                whole[self._place] = self._annotations(whole, name, before[column], tags)
        return whole

    def _annotations(
        self, document: Document, name: str, before: list[str], tags: list[str]
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
                choices = _chosen(tags, before, _tags(result), is_first)
                is_first = False
                if choices:
                    results.append({**result, "value": {**result["value"], "choices": choices}})
            annotations.append({**answer, "result": results})
        missing = _chosen(tags, before, (), is_first)
        if missing:
            new = _choice_result(name, self._target[name], missing)
            live = [k for k, each in enumerate(annotations) if not each.get("was_cancelled")]
            if not live:
                return [*annotations, {"result": [new]}]
            first = annotations[live[0]]
            annotations[live[0]] = {**first, "result": [*first["result"], new]}
        return annotations

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy with the verdict as a prediction, in the place of an earlier one."""
        name = self._name.get(column, column)
        others = [
            each
            for each in document.get("predictions") or ()
            if not (isinstance(each, dict) and each.get("model_version") == by)
        ]
        target = self._target.get(name, next(iter(document["data"]), name))
        return {**document, "predictions": [*others, _prediction(name, target, verdict, by)]}


class ArgillaRecords(_ToolRows):
    """Records of Argilla 2, with responses to multi-label questions, or else suggestions."""

    tool, unit = "argilla", "record of Argilla"
    body, places, container = "fields", ("responses", "suggestions"), dict
    beside = ("metadata", "vectors")

    def answers(self, document: Document, place: str, where: str = "") -> dict[str, list[Any]]:
        """Return the values of all answers to each question."""
        answers = {}
        for question, content in (document.get(place) or {}).items():
            entries = content if place == "responses" else [content]
            if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
                raise DataError(
                    f"{where}: the {place} to {brief(question)} are {brief(content)}, not as "
                    f"Argilla writes them"
                )
            values = [each.get("value") for each in entries]
            answers[question] = [value for value in values if value is not None]
        return answers

    def changed(self, document: Document, own: Document, new: Document) -> Document:
        """Return a copy with other answers, and new cells as metadata."""
        before, whole = self.row(document), dict(document)
        if new:
            extra = {key: _metadata_value(cell) for key, cell in new.items()}
            whole["metadata"] = {**(document.get("metadata") or {}), **extra}
        for column, cell in own.items():
            if cell == before.get(column):
                continue
            name = self._name.get(column)
            if name is None or name not in self._many:
                raise DataError(
                    f"{self._path}: the column {brief(column)} is not a multi-label question, so "
                    f"it cannot be changed"
                )
            answers = whole.get(self._place) or {}
            if self._place == "suggestions":
                answer: Any = _suggestion_with(answers.get(name, {}), cell)
            else:
                answer = self._responses(document, answers.get(name, []), before[column], cell)
            whole[self._place] = {**answers, name: answer}
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
        return [
            {**each, "value": _chosen(tags, before, _listed(each.get("value")), k == 0)}
            for k, each in enumerate(responses)
        ]

    def judged(self, document: Document, column: str, verdict: Verdict, by: str) -> Document:
        """Return a copy with the verdict as the suggestion."""
        name = self._name.get(column, column)
        suggestions = dict(document.get("suggestions") or {})
        suggestions.pop(name, None)
        return {**document, "suggestions": suggestions | _suggestion(name, verdict, by)}


def _chosen(
    tags: Iterable[str], before: Iterable[str], answer: Iterable[str], is_first: bool
) -> list[str]:
    """Return the tags of one answer: those it had, and new ones in the first answer."""
    return [tag for tag in tags if tag in answer or (is_first and tag not in before)]


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
