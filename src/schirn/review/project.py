"""The project folder of a review: labels, items with their tags, and the whole table."""

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief, file_hash, reason_of, whole_folder
from schirn._input import Array, is_count, is_share, repeated, whole_text
from schirn.cleaning.noisy_labels import PRECISION, MissingTags, NoisyLabels
from schirn.cleaning.questions import LIKELY, UNSURE, cells_of
from schirn.exceptions import DataError
from schirn.review.table import TableRoles, read_roles, write_project_table
from schirn.tables.files import Table

FORMAT, VERSION = "schirn-review", 2
_RESTART = "start the review again from the table"

Cell = tuple[int, str]
"""Row and name of a tag."""


@dataclass(frozen=True, eq=False)
class Project:
    """Items and their tags, listed and suggested, numbered in the order of the file."""

    folder: Path
    labels: list[str]
    ids: list[str]
    texts: list[str]
    row: Array
    column: Array
    confidence: Array
    kept: Array
    judged: Array
    listed: Array
    """Whether each tag is in the table; the others are suggestions."""
    method: str
    limits: dict[str, Any]
    """Limits of the removals: `precision` and `keep_one`."""
    table: TableRoles
    fingerprint: str
    """Hash of ids and labels; the decisions and confidences of another project do not fit."""

    def tags_of_row(self, i: int) -> range:
        """Return the tags of an item."""
        return range(*np.searchsorted(self.row, (i, i + 1)).tolist())

    def ranking(self) -> NoisyLabels:
        """Return the ranking of `schirn clean`."""
        is_listed, suggested = self.listed, ~self.listed
        p = self.confidence[is_listed]
        # Tags that were known or answered beforehand have confidence 0 or 1.
        known = np.where(p == 1, 1, np.where(p == 0, -1, 0)).astype(np.int8)
        missing = MissingTags(
            self.row[suggested], self.column[suggested], self.confidence[suggested], self.labels
        )
        return NoisyLabels(
            n_rows=len(self.ids),
            label_names=self.labels,
            row=self.row[is_listed],
            column=self.column[is_listed],
            model_confidence=p,
            judged=self.judged[is_listed],
            method=self.method,
            known=known,
            missing=missing,
            **self.limits,
        )


def write_project(
    path: str,
    ranking: NoisyLabels,
    *,
    ids: list[str],
    texts: list[str],
    table: Table,
    source: str,
    roles: TableRoles,
    accepted: Iterable[Cell] = (),
    command: Sequence[str] = (),
) -> None:
    """Write a new project folder, completely or not at all.

    Parameters
    ----------
    path : str
        Folder that is empty or does not exist.
    ranking : NoisyLabels
        Tags to review.
    ids, texts : list of str
        Name and text of each row.
    table, source, roles : Table, str and TableRoles
        The table, its path, and the roles of its columns. The project keeps all of them.
    accepted : iterable of (row, tag)
        Tags that people have called right before; those that are not listed become suggestions.
    command : sequence of str
        Words of the command that ranked the tags.
    """
    suggestions = _suggestions(ranking, accepted)
    labels = list(ranking.label_names)
    labels += dict.fromkeys(tag for _, tag in suggestions if tag not in labels)
    suggested: list[list[dict[str, Any]]] = [[] for _ in range(ranking.n_rows)]
    for (row, label), confidence in suggestions.items():
        suggested[row].append({"label": label, "confidence": confidence})
    start = np.searchsorted(ranking.row, np.arange(ranking.n_rows + 1))
    with whole_folder(path) as folder:
        with (folder / "items.jsonl").open("wb") as stream:
            for i, (name, text) in enumerate(zip(ids, texts, strict=True)):
                tags = [
                    {
                        "label": ranking.label_names[ranking.column[k]],
                        "confidence": float(ranking.confidence[k]),
                        "kept": not ranking.removed[k],
                        "judged": bool(ranking.judged[k]),
                    }
                    for k in range(start[i], start[i + 1])
                ]
                item = {"id": name, "text": text, "tags": tags, "suggested": suggested[i]}
                stream.write((json.dumps(item, ensure_ascii=True) + "\n").encode())
        head = {
            "format": FORMAT,
            "version": VERSION,
            "labels": labels,
            "method": ranking.method,
            "n_items": ranking.n_rows,
            "precision": ranking.precision,
            "keep_one": ranking.keep_one,
            "command": list(command),
            "source_sha256": _hash_file(source),
            "table": write_project_table(folder, table, source, roles),
        }
        (folder / "project.json").write_text(json.dumps(head, indent=2), "utf-8")


def _suggestions(ranking: NoisyLabels, accepted: Iterable[Cell]) -> dict[Cell, float]:
    """Return the missing tags to ask about, with the probability that they are right."""
    swaps = ranking.swaps()
    swapped = set(zip(swaps.row.tolist(), swaps.right_label.tolist(), strict=True))
    values = ranking.missing.confidence.tolist()
    confidence = dict(zip(cells_of(ranking.missing), values, strict=True))
    suggestions = {cell: p for cell, p in confidence.items() if p >= LIKELY or cell in swapped}
    tags = set(cells_of(ranking))
    new = {cell: confidence.get(cell, UNSURE) for cell in accepted if cell not in tags}
    return new | suggestions


def was_made_by(folder: str | os.PathLike[str], command: Sequence[str], source: str) -> bool:
    """Whether a project was made from what a file holds now, by this command if any is given."""
    head = _read_head(Path(folder))
    is_same = head.get("source_sha256") == _hash_file(source)
    return is_same and (not command or head.get("command") == list(command))


def _hash_file(path: str) -> str | None:
    """Hash of a file; None for a folder."""
    return file_hash(path) if os.path.isfile(path) else None


def read_project(folder: str | os.PathLike[str]) -> Project:
    """Read a project folder; raise `DataError` if it is damaged or not a project."""
    folder = Path(folder)
    head = _read_head(folder)
    labels = [whole_text(name) for name in head["labels"]]
    path = folder / "items.jsonl"
    ids, texts, tags = _read_items(path, labels)
    if head["n_items"] != len(ids):
        raise DataError(
            f"{path}: has {len(ids)} items, but project.json announces {head['n_items']}; "
            f"{_RESTART}"
        )
    if not tags:
        raise DataError(f"{folder}: no item has a tag, so there is nothing to review")
    row, column, confidence, is_kept, is_judged, is_listed = map(np.array, zip(*tags, strict=True))
    names = [(ids[i], labels[j]) for i, j in zip(row.tolist(), column.tolist(), strict=True)]
    content = names if is_listed.all() else [names, is_listed.tolist()]
    return Project(
        folder=folder,
        labels=labels,
        ids=ids,
        texts=texts,
        row=row,
        column=column,
        confidence=confidence,
        kept=is_kept,
        judged=is_judged,
        listed=is_listed,
        method=str(head.get("method")),
        limits={
            "precision": head.get("precision") or PRECISION,
            "keep_one": head.get("keep_one") is True,
        },
        table=read_roles(folder, head.get("table")),
        fingerprint=hashlib.sha256(json.dumps(content).encode()).hexdigest(),
    )


def _read_head(folder: Path) -> dict[str, Any]:
    """Read project.json and check its entries."""
    path = folder / "project.json"
    if not path.is_file():
        raise DataError(
            f"{folder}: not a review project (project.json is missing); start a review of a table "
            f"with: schirn review TABLE"
        )
    try:
        head = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); {_RESTART}") from None
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise DataError(f"{path}: does not describe a review project; choose another folder")
    if type(head.get("version")) is not int or head["version"] != VERSION:
        raise DataError(
            f"{path}: made by another version of schirn (format {brief(head.get('version'))}, not "
            f"{VERSION}); {_RESTART}"
        )
    labels, precision = head.get("labels"), head.get("precision")
    rules = {
        "labels": isinstance(labels, list)
        and all(isinstance(name, str) for name in labels)
        and repeated(map(whole_text, labels)) is None,
        "precision": precision is None or (is_share(precision) and precision > 0),
        "n_items": is_count(head.get("n_items")),
    }
    for key, holds in rules.items():
        if not holds:
            raise DataError(f"{path}: {key!r} cannot be {brief(head.get(key))}; {_RESTART}")
    return dict(head)


Tag = tuple[int, float, bool, bool, bool]
"""Column, confidence, kept, judged and listed."""


def _read_items(
    path: Path, labels: list[str]
) -> tuple[list[str], list[str], list[tuple[int, *Tag]]]:
    """Return the ids, the texts, and row and description of every tag."""
    column = {name: j for j, name in enumerate(labels)}
    ids: list[str] = []
    texts: list[str] = []
    tags: list[tuple[int, *Tag]] = []
    try:
        with path.open(encoding="utf-8") as stream:
            for i, line in enumerate(stream):
                record = json.loads(line)
                item_tags = [_read_tag(tag, column, True) for tag in record["tags"]]
                item_tags += [_read_tag(tag, column, False) for tag in record.get("suggested", ())]
                if repeated(str(tag[0]) for tag in item_tags) is not None:
                    raise ValueError("a tag occurs twice")
                ids.append(whole_text(record["id"]))
                texts.append(whole_text(record["text"]))
                tags += [(i, *tag) for tag in item_tags]
        if repeated(ids) is not None:
            raise ValueError("an id occurs twice")
    except FileNotFoundError:
        raise DataError(f"{path}: the file is missing; {_RESTART}") from None
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(
            f"{path}, line {len(ids) + 1}: not an item of a review ({reason_of(error)}); {_RESTART}"
        ) from None
    return ids, texts, tags


def _read_tag(tag: Any, column: dict[str, int], is_listed: bool) -> Tag:
    """Return the description of a tag after checking it."""
    label, confidence = whole_text(tag["label"]), tag["confidence"]
    is_kept = tag["kept"] if is_listed else False
    if not is_share(confidence) or type(is_kept) is not bool:
        raise ValueError(f"the tag {brief(label)} needs 'confidence' and 'kept'")
    # Tags that could not be judged have one half.
    is_judged = tag.get("judged", confidence != UNSURE) is True
    return column[label], float(confidence), is_kept, is_judged, is_listed
