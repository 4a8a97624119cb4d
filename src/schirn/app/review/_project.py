"""The project folder of a review: labels, items with their tags, and the whole table."""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import brief, content_hash, file_hash, read_archive, whole_folder
from schirn._input import Array, whole_text
from schirn.app.review._table import TableRoles, read_roles, write_project_table
from schirn.app.tables import Table
from schirn.app.workflow import OpinionRecord
from schirn.cleaning import MissingTags, Vocabulary
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.questions import LIKELY, UNSURE, cells_of
from schirn.exceptions import DataError

FORMAT = "schirn-review"
VERSION = 6
TAGS = "tags.npz"
_RESTART = "start the review again from the table"

Cell = tuple[int, str]
"""Row and label name of a tag."""


@dataclass(frozen=True, eq=False)
class Project:
    """Items and their tags, listed and suggested, numbered in file order."""

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
    """True for tags of the table, False for suggestions."""
    method: str
    limits: dict[str, Any]
    """Limits of the removals: `precision` and `keep_one`."""
    opinions: list[OpinionRecord]
    """Second opinions about some tags; the ranking uses them as far as they can be trusted."""
    table: TableRoles
    fingerprint: str
    """Checksum of the project; a journal belongs to one project only."""

    def tags_of_row(self, i: int) -> range:
        """Return the numbers of the tags of an item.

        Parameters
        ----------
        i : int
            Number of the item.

        Returns
        -------
        range
        """
        return range(*np.searchsorted(self.row, (i, i + 1)).tolist())

    def ranking(self) -> NoisyLabels:
        """Return the ranking of `schirn clean`, with all opinions.

        Returns
        -------
        NoisyLabels
            Without answers.
        """
        is_listed = self.listed
        suggested = ~self.listed
        p = self.confidence[is_listed]
        # Tags that were known or answered before have confidence 0 or 1.
        known = np.where(p == 1, 1, np.where(p == 0, -1, 0)).astype(np.int8)
        missing = MissingTags(
            self.row[suggested], self.column[suggested], self.confidence[suggested], self.labels
        )
        ranking = NoisyLabels.from_arrays(
            n_rows=len(self.ids),
            label_names=self.labels,
            row=self.row[is_listed],
            column=self.column[is_listed],
            confidence=p,
            judged=self.judged[is_listed],
            method=self.method,
            known=known,
            missing=missing,
            **self.limits,
        )
        return ranking.with_opinions(self.opinions) if self.opinions else ranking


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
    opinions: Sequence[OpinionRecord] = (),
    command: Sequence[str] = (),
) -> None:
    """Write a new project folder, completely or not at all.

    Parameters
    ----------
    path : str
        An empty or new folder.
    ranking : NoisyLabels
        Tags to review.
    ids, texts : list of str
        Name and text of each row.
    table, source, roles : Table, str and TableRoles
        The table, its path, and the roles of its columns; all are stored in the project.
    accepted : iterable of (row, tag)
        Tags answered "right" before; those that are not listed become suggestions.
    opinions : sequence of (row, tag, opinion, who)
        Second opinions about some tags.
    command : sequence of str
        Words of the command that ranked the tags.
    """
    suggestions = _suggestions(ranking, accepted)
    labels = list(ranking.label_names)
    labels += dict.fromkeys(tag for _, tag in suggestions if tag not in labels)
    column_of = {name: j for j, name in enumerate(labels)}
    new = np.array([(row, column_of[label]) for row, label in suggestions], int).reshape(-1, 2)
    no_tag = np.zeros(len(new), bool)
    tags = {
        "row": np.r_[ranking.row, new[:, 0]],
        "column": np.r_[ranking.column, new[:, 1]],
        "confidence": np.r_[ranking.confidence, list(suggestions.values())],
        "kept": np.r_[~ranking.removed, no_tag],
        "judged": np.r_[ranking.judged, ~no_tag],
        "listed": np.r_[np.ones(len(ranking.row), bool), no_tag],
    }
    order = np.argsort(tags["row"], kind="stable")
    with whole_folder(path) as folder:
        arrays = {name: values[order] for name, values in tags.items()}
        np.savez_compressed(folder / TAGS, **arrays)
        head = {
            "format": FORMAT,
            "version": VERSION,
            "labels": labels,
            "method": ranking.method,
            "ids": ids,
            "texts": texts,
            "precision": ranking.precision,
            "keep_one": ranking.keep_one,
            "opinions": list(opinions),
            "command": list(command),
            "source_sha256": content_hash(source),
            "table": write_project_table(folder, table, source, roles),
        }
        head["sha256"] = checksum(head, folder / TAGS)
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


def was_made_by(
    folder: str | os.PathLike[str],
    command: Sequence[str],
    source: str,
    vocabulary: Vocabulary | None = None,
) -> bool:
    """Check whether a project was made from the present content of a table.

    Parameters
    ----------
    folder : path
        The project.
    command : sequence of str
        Words of the command that must have made it; empty for any command.
    source : str
        The table.
    vocabulary : Vocabulary, optional
        If given, its accepted lines must be the ones applied before the ranking.

    Returns
    -------
    bool
    """
    head = _read_head(Path(folder))
    if head.get("source_sha256") != content_hash(source):
        return False
    if vocabulary is not None:
        ranked = Vocabulary.from_records(head["table"]["vocabulary"])
        if _meaning(ranked) != _meaning(vocabulary):
            return False
    return not command or head.get("command") == list(command)


def _meaning(vocabulary: Vocabulary) -> set[tuple[str, str, str]]:
    """Return action, tag and target of the accepted lines."""
    return {(line.action, line.tag, line.target) for line in vocabulary.accepted}


def read_project(folder: str | os.PathLike[str]) -> Project:
    """Read a project folder; raise `DataError` if it is damaged or not a project.

    Parameters
    ----------
    folder : path
        The project folder.

    Returns
    -------
    Project
    """
    folder = Path(folder)
    head = _read_head(folder)
    labels, ids, texts = ([*map(whole_text, head[name])] for name in ("labels", "ids", "texts"))
    arrays = read_archive(folder / TAGS)
    if not len(arrays["row"]):
        raise DataError(f"{folder}: no item has a tag, so there is nothing to review")
    return Project(
        folder=folder,
        labels=labels,
        ids=ids,
        texts=texts,
        **arrays,
        method=head["method"],
        limits={name: head[name] for name in ("precision", "keep_one")},
        opinions=[tuple(record) for record in head["opinions"]],
        table=read_roles(folder, head["table"]),
        fingerprint=head["sha256"],
    )


def checksum(head: Mapping[str, Any], tags: Path) -> str:
    """Return the hash of a project: of its head, without this hash, and of its file of tags.

    Parameters
    ----------
    head : dict
        Content of project.json.
    tags : Path
        The file of its tags.

    Returns
    -------
    str
    """
    content = json.dumps({**head, "sha256": file_hash(tags)}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def _read_head(folder: Path) -> dict[str, Any]:
    """Read project.json, and check it against its checksum."""
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
    if head.get("version") != VERSION:
        raise DataError(
            f"{path}: made by another version of schirn (format {brief(head.get('version'))}, not "
            f"{VERSION}); move the folder away, and {_RESTART}"
        )
    tags = folder / TAGS
    if not tags.is_file():
        raise DataError(f"{tags}: the file is missing; {_RESTART}")
    if head.get("sha256") != checksum(head, tags):
        raise DataError(f"{path} or {TAGS}: damaged or edited (wrong checksum); {_RESTART}")
    return dict(head)
