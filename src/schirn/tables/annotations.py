"""Exports of Label Studio as JSON: the data of each task, and its choices as columns of tags.

If several people have answered, a row carries the tags of all of them.
"""

from pathlib import Path
from typing import Any

from schirn._files import brief
from schirn.exceptions import DataError
from schirn.tables.table import LABEL_COLUMNS

Document = dict[str, Any]


def is_task(document: Document) -> bool:
    """Whether an object is a task; one that nobody has answered may lack its annotations."""
    return (
        isinstance(document.get("data"), dict)
        and isinstance(document.get("annotations"), list | None)
        and ("annotations" in document or not document.keys() & set(LABEL_COLUMNS))
    )


def read_tasks(path: Path, tasks: list[Document]) -> tuple[list[Document], list[str]]:
    """Return the rows of tasks, and their columns of tags: one for each control with choices."""
    for k, task in enumerate(tasks, start=1):
        if not is_task(task):
            raise DataError(
                f"{path}: entry {k} is not a task of Label Studio as the entries before it: "
                f"{brief(task)}"
            )
    choices = [_choices(task, f"{path}: task {k}") for k, task in enumerate(tasks, start=1)]
    names = {key for task in tasks for key in task["data"]}
    controls = dict.fromkeys(control for of_task in choices for control in of_task)
    columns = {name: f"annotations.{name}" if name in names else name for name in controls}
    rows = []
    for task, of_task in zip(tasks, choices, strict=True):
        about = {"id": task["id"]} if "id" in task else {}
        tags = {column: [*of_task.get(name, ())] for name, column in columns.items()}
        rows.append({**about, **task["data"], **tags})
    return rows, list(columns.values())


def _choices(task: Document, where: str) -> dict[str, dict[str, None]]:
    """Return the choices of each control, in all answers that were not cancelled."""
    choices: dict[str, dict[str, None]] = {}
    for k, answer in enumerate(task.get("annotations") or ()):
        results = answer.get("result") if isinstance(answer, dict) else answer
        if not isinstance(results, list | None):
            raise DataError(f"{where}: entry {k + 1} of annotations has no list of results")
        for result in () if answer.get("was_cancelled") else results or ():
            if _is_choice(result):
                tags = dict.fromkeys(map(str, result["value"]["choices"]))
                choices.setdefault(result["from_name"], {}).update(tags)
    return choices


def _is_choice(result: Any) -> bool:
    """Whether a result holds choices about the task, rather than about a region of it."""
    if not isinstance(result, dict) or result.get("type") != "choices":
        return False
    value = result.get("value")
    return (
        isinstance(result.get("from_name"), str)
        and isinstance(value, dict)
        and list(value) == ["choices"]
        and isinstance(value["choices"], list)
    )
