"""The project folder: labels, items with their tags, features; read and checked."""

import hashlib
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn.exceptions import DataError

Array = np.ndarray

FORMAT, VERSION = "schirn-review", 1


class Item(NamedTuple):
    """A row as people see it."""

    id: str
    text: str


class Project(NamedTuple):
    """Items and their tags; a pair is one tag of one item, numbered in the order of the file."""

    folder: Path
    labels: list[str]
    threshold: float
    features: Path | None
    items: list[Item]
    row: Array
    column: Array
    confidence: Array
    kept: Array
    pairs: dict[tuple[str, str], int]
    start: Array
    """Pairs of item i are start[i] to start[i + 1]."""
    fingerprint: str
    """Of ids and labels: decisions and confidences of another project must not be mixed in."""

    def name(self, pair: int) -> tuple[str, str]:
        """Item and label of a pair."""
        return self.items[self.row[pair]].id, self.labels[self.column[pair]]


def read_project(folder: str | os.PathLike[str]) -> Project:
    """Read a project folder; a damaged or foreign one gives a `DataError` in one sentence.

    Parameters
    ----------
    folder : path
        Holds `project.json`, `items.jsonl` and, for retraining, an npz file with the features.

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> from schirn.review import read_project
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> head = {"format": "schirn-review", "version": 1, "labels": ["cat", "dog"],
    ...         "threshold": 0.5, "n_items": 1, "features": None}
    >>> _ = (folder / "project.json").write_text(json.dumps(head))
    >>> item = {"id": "a", "text": "A dog.",
    ...         "tags": [{"label": "dog", "confidence": 0.9, "kept": True}]}
    >>> _ = (folder / "items.jsonl").write_text(json.dumps(item))
    >>> project = read_project(folder)
    >>> project.items[0].text, project.name(0)
    ('A dog.', ('a', 'dog'))
    """
    folder = Path(folder)
    head = _read_head(folder)
    labels, threshold = _labels(folder, head), _threshold(folder, head)
    items, tags = _read_items(folder / "items.jsonl", labels)
    if head.get("n_items") != len(items):
        raise DataError(
            f"{folder / 'items.jsonl'}: {len(items)} items, but project.json counts "
            f"{head.get('n_items')!r}; the folder is not whole, make it again"
        )
    if not tags:
        raise DataError(f"{folder}: no item carries a tag, so there is nothing to review")
    row, column, confidence, kept = (np.array(values) for values in zip(*tags, strict=True))
    names = [(items[i].id, labels[j]) for i, j in zip(row.tolist(), column.tolist(), strict=True)]
    return Project(
        folder,
        labels,
        threshold,
        _features(folder, head),
        items,
        row,
        column,
        confidence.astype(np.float64),
        kept.astype(bool),
        {name: k for k, name in enumerate(names)},
        np.searchsorted(row, np.arange(len(items) + 1)),
        hashlib.sha256(json.dumps(names).encode()).hexdigest(),
    )


def _read_head(folder: Path) -> dict[str, Any]:
    path = folder / "project.json"
    if not path.is_file():
        raise DataError(
            f"{folder}: not a review project (there is no project.json); "
            f"make one with: schirn clean DATA --project {folder}"
        )
    try:
        head = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); make the project again") from None
    found = head.get("format") if isinstance(head, dict) else None
    if found != FORMAT:
        raise DataError(f"{path}: the format is {found!r}, not {FORMAT!r}; choose another folder")
    if head.get("version") != VERSION:
        raise DataError(
            f"{path}: the version is {head.get('version')!r}, and this program reads version "
            f"{VERSION}; update schirn or make the project again"
        )
    return dict(head)


def _labels(folder: Path, head: dict[str, Any]) -> list[str]:
    labels = head.get("labels")
    if not isinstance(labels, list) or not all(isinstance(name, str) for name in labels):
        raise DataError(f"{folder / 'project.json'}: 'labels' must be a list of names")
    if len(set(labels)) != len(labels):
        twice = next(name for name in labels if labels.count(name) > 1)
        raise DataError(f"{folder / 'project.json'}: the label {twice!r} is there twice")
    return labels


def _threshold(folder: Path, head: dict[str, Any]) -> float:
    value = head.get("threshold")
    if not _is_share(value):
        raise DataError(
            f"{folder / 'project.json'}: 'threshold' must be a number from 0 to 1, not {value!r}"
        )
    return float(value)  # type: ignore[arg-type]


def _features(folder: Path, head: dict[str, Any]) -> Path | None:
    """The file of the features, which must lie in the folder itself."""
    name = head.get("features")
    if name is None:
        return None
    if not isinstance(name, str) or name in ("", ".", "..") or set(name) & set("/\\:\0"):
        raise DataError(
            f"{folder / 'project.json'}: 'features' must name a file in the folder, not {name!r}"
        )
    path = folder / name
    if not path.is_file():
        raise DataError(f"{path}: the features are missing; make the project again")
    return path


def _read_items(
    path: Path, labels: list[str]
) -> tuple[list[Item], list[tuple[int, int, float, bool]]]:
    column = {name: j for j, name in enumerate(labels)}
    items: list[Item] = []
    tags: list[tuple[int, int, float, bool]] = []
    seen: set[str] = set()
    for where, record in _records(path):
        if not isinstance(record, dict) or not isinstance(record.get("id"), str | int):
            raise DataError(f"{where}: not an item with an 'id'; make the project again")
        item = Item(str(record["id"]), str(record.get("text") or ""))
        if item.id in seen:
            raise DataError(f"{where}: the id {item.id!r} is there twice; give each item its own")
        seen.add(item.id)
        found = list(_tags(where, record.get("tags"), column))
        if len({j for j, _, _ in found}) < len(found):
            raise DataError(f"{where}: a tag of the item {item.id!r} is there twice")
        tags += [(len(items), *tag) for tag in found]
        items.append(item)
    return items, tags


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Place and content of every line."""
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{path}, line {number}", json.loads(line)
    except FileNotFoundError:
        raise DataError(f"{path}: the file is missing; make the project again") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON lines ({error}); make the project again") from None


def _tags(where: str, tags: Any, column: dict[str, int]) -> Iterator[tuple[int, float, bool]]:
    if not isinstance(tags, list):
        raise DataError(f"{where}: 'tags' must be a list, not {tags!r}")
    for tag in tags:
        label = tag.get("label") if isinstance(tag, dict) else tag
        if not isinstance(tag, dict) or not isinstance(label, str) or label not in column:
            raise DataError(f"{where}: the tag {label!r} is not among the labels of project.json")
        if not _is_share(tag.get("confidence")) or not isinstance(tag.get("kept"), bool):
            raise DataError(
                f"{where}: the tag {label!r} needs a 'confidence' from 0 to 1 and 'kept' true or "
                f"false, not {tag.get('confidence')!r} and {tag.get('kept')!r}"
            )
        yield column[label], float(tag["confidence"]), tag["kept"]


def _is_share(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= 1
