"""The project folder of a review: labels, items with their tags, features and the whole table."""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._files import brief, file_hash, read_archive, whole_folder
from schirn._input import Array, is_share, repeated, whole_text
from schirn.cleaning.noisy_labels import PRECISION, MissingTags, NoisyLabels
from schirn.cleaning.questions import LIKELY
from schirn.datasets.arrays import features_of
from schirn.exceptions import DataError
from schirn.linalg.features import has_unit_rows
from schirn.review.table import TableRoles, read_roles, write_project_table
from schirn.tables.files import Table

FORMAT, VERSION = "schirn-review", 2
FEATURES, EVIDENCE = "features.npz", "evidence.npz"


def _is_file_name(name: Any) -> bool:
    is_text = isinstance(name, str) and name not in ("", ".", "..") and name.isprintable()
    return is_text and not set(name) & set("/\\:")


# What the entries of project.json must be; other programs need not write the optional ones.
_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "labels": (
        "be a list of names",
        lambda names: isinstance(names, list) and all(isinstance(name, str) for name in names),
    ),
    "features": (
        "name a file in the folder",
        lambda name: name is None or _is_file_name(name),
    ),
    "precision": (
        "be null or a number from 0 to 1",
        lambda value: value is None or (is_share(value) and value > 0),
    ),
}


class Item(NamedTuple):
    """A row as the reviewer sees it."""

    id: str
    text: str


class Project(NamedTuple):
    """Items and their tags, listed and suggested, numbered in the order of the file."""

    folder: Path
    labels: list[str]
    features: Path | None
    items: list[Item]
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
    start: Array
    """The tags of item i are start[i] to start[i + 1]."""
    table: TableRoles | None
    """How to read the copy of the table; None in projects of version 1."""
    fingerprint: str
    """Hash of ids and labels; the decisions and confidences of another project do not fit."""

    def ranking(self) -> NoisyLabels:
        """Return the ranking of `schirn clean`."""
        listed, suggested = self.listed, ~self.listed
        p = self.confidence[listed]
        # Tags that were known or answered beforehand have confidence 0 or 1.
        known = np.where(p == 1, 1, np.where(p == 0, -1, 0)).astype(np.int8)
        return NoisyLabels(
            n_rows=len(self.items),
            label_names=self.labels,
            row=self.row[listed],
            column=self.column[listed],
            model_confidence=p,
            judged=self.judged[listed],
            method=self.method,
            known=known,
            missing=MissingTags(
                self.row[suggested],
                self.column[suggested],
                self.confidence[suggested],
                self.labels,
            ),
            **self._evidence(),
            **self.limits,
        )

    def _evidence(self) -> dict[str, Any]:
        """Confidences of planted tags, if the project has them."""
        path = self.folder / EVIDENCE
        if not path.is_file():
            return {}
        planted = read_archive(path).get("planted", np.zeros(0))
        if planted.ndim != 1 or planted.dtype.kind != "f" or not np.isfinite(planted).all():
            raise DataError(f"{path}: has no usable confidences; create the project again")
        return {"planted_confidence": planted}

    def features_of_items(self) -> Any:
        """Return the features of the items; raise DataError if there are none."""
        path = self.features
        if path is None:
            raise DataError(f"{self.folder}: the project has no features")
        X = features_of(path, read_archive(path))
        if X is None or X.shape[0] != len(self.items):
            held = "no features" if X is None else f"{X.shape[0]} rows"
            raise DataError(f"{path}: {held}, but the project has {len(self.items)} items")
        return X

    def is_scaled(self, X: Any) -> bool:
        """Whether the features need no scaling; projects of earlier versions do not say."""
        known = None if self.features is None else read_archive(self.features).get("scaled")
        if known is None or known.shape != () or known.dtype.kind != "b":
            return has_unit_rows(X)
        return bool(known)


def write_project(
    path: str,
    ranking: NoisyLabels,
    X: Any,
    *,
    ids: list[str],
    texts: list[str],
    table: Table | None = None,
    source: str = "",
    roles: TableRoles | None = None,
    feature_names: Iterable[object] | None = None,
    scaled: bool | None = None,
    command: Sequence[str] = (),
) -> None:
    """Write a new project folder, completely or not at all.

    Parameters
    ----------
    path : str
        Folder that is empty or does not exist.
    ranking : NoisyLabels
        Tags to review.
    X : (n, d) array or CSR matrix
        Features, which explain the ranks.
    ids, texts : list of str
        Name and text of each row.
    table, source, roles : Table, str and TableRoles, optional
        The table, its path, and the roles of its columns. The project keeps all of them.
    feature_names : iterable of str, optional
        Names of the columns of X.
    scaled : bool, optional
        Whether the features need no scaling, as those of texts and pictures; by default sparse
        rows of length one need none.
    command : sequence of str
        Words of the command that ranked the tags.
    """
    head: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "labels": ranking.label_names,
        "method": ranking.method,
        "n_items": ranking.n_rows,
        "features": FEATURES,
        "precision": ranking.precision,
        "keep_one": ranking.keep_one,
        "command": list(command),
        "source_sha256": _hash_file(source),
    }
    suggested: list[list[dict[str, Any]]] = [[] for _ in range(ranking.n_rows)]
    swaps = ranking.swaps()
    swapped = set(zip(swaps.row.tolist(), swaps.right_label.tolist(), strict=True))
    for record in ranking.missing.records():
        row, label, confidence = record["row"], record["label"], record["confidence"]
        if confidence >= LIKELY or (row, label) in swapped:
            suggested[row].append({"label": label, "confidence": confidence})
    start = np.searchsorted(ranking.row, np.arange(ranking.n_rows + 1))
    arrays = _feature_arrays(X, feature_names, scaled)
    arrays |= {"C_indices": ranking.column.astype(np.int64), "C_indptr": start.astype(np.int64)}
    arrays["label_names"] = np.array(ranking.label_names, dtype=str)
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
        np.savez_compressed(folder / FEATURES, **arrays)
        np.savez_compressed(folder / EVIDENCE, planted=ranking.planted_confidence)
        if table is not None and roles is not None:
            head["table"] = write_project_table(folder, table, source, roles)
        (folder / "project.json").write_text(json.dumps(head, indent=2), "utf-8")


def _feature_arrays(
    X: Any, feature_names: Iterable[object] | None, scaled: bool | None
) -> dict[str, Any]:
    """Return the features in the layout of `schirn.datasets.read_npz`."""
    arrays: dict[str, Any] = {"X": X}
    if sp.issparse(X):
        X = sp.csr_array(X)
        arrays = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    if feature_names is not None:
        # Cut, since every entry of the array takes the room of the longest.
        arrays["feature_names"] = np.array([str(name)[:80] for name in feature_names], dtype=str)
    if scaled is not None:
        arrays["scaled"] = np.array(scaled)
    return arrays


def was_made_by(folder: str | os.PathLike[str], command: Sequence[str], source: str) -> bool:
    """Whether a project was made from what a file holds now, by this command if any is given."""
    head = _read_head(Path(folder))
    is_same = head.get("source_sha256") == _hash_file(source)
    return is_same and (not command or head.get("command") == list(command))


def _hash_file(path: str) -> str | None:
    """Hash of a file; None for a folder."""
    if not os.path.isfile(path):
        return None
    return file_hash(path)


def read_project(folder: str | os.PathLike[str]) -> Project:
    """Read a project folder; raise `DataError` if it is damaged or not a project.

    Parameters
    ----------
    folder : path
        Holds `project.json`, `items.jsonl` and, to explain the ranks, the features.
    """
    folder = Path(folder)
    head = _read_head(folder)
    labels = [whole_text(name) for name in head["labels"]]
    items, tags = _read_items(folder / "items.jsonl", labels)
    if head.get("n_items") != len(items):
        raise DataError(
            f"{folder / 'items.jsonl'}: has {len(items)} items, but project.json announces "
            f"{brief(head.get('n_items'))}; the folder is incomplete, create the project again"
        )
    if not tags:
        raise DataError(f"{folder}: no item has a tag, so there is nothing to review")
    row, column, confidence, kept, judged, listed = map(np.array, zip(*tags, strict=True))
    names = [(items[i].id, labels[j]) for i, j in zip(row.tolist(), column.tolist(), strict=True)]
    return Project(
        folder=folder,
        labels=labels,
        features=None if head.get("features") is None else folder / head["features"],
        items=items,
        row=row,
        column=column,
        confidence=confidence,
        kept=kept,
        judged=judged,
        listed=listed,
        method=str(head.get("method")),
        limits={
            "precision": head.get("precision") or PRECISION,
            "keep_one": head.get("keep_one") is True,
        },
        start=np.searchsorted(row, np.arange(len(items) + 1)),
        table=read_roles(folder, head.get("table")),
        fingerprint=_fingerprint(names, listed),
    )


def _read_head(folder: Path) -> dict[str, Any]:
    path = folder / "project.json"
    if folder.is_file():
        raise DataError(
            f"{folder}: is a file, not a review project; "
            f"if it is a table, run: schirn review {folder}"
        )
    if not path.is_file():
        raise DataError(
            f"{folder}: not a review project (project.json is missing); "
            f"create one with: schirn clean TABLE --project {folder}"
        )
    try:
        head = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not valid JSON ({error}); create the project again") from None
    form = head.get("format") if isinstance(head, dict) else None
    if form != FORMAT:
        raise DataError(
            f"{path}: the format is {brief(form)}, not {FORMAT!r}; choose another folder"
        )
    # Projects of version 1 have no table.
    if head.get("version") not in (1, VERSION) or head.get("version") is True:
        raise DataError(
            f"{path}: the version is {brief(head.get('version'))}, but this program reads versions "
            f"1 and {VERSION}; update schirn or create the project again"
        )
    for key, (must, fits) in _RULES.items():
        if not fits(head.get(key)):
            raise DataError(f"{path}: {key!r} must {must}, not {brief(head.get(key))}")
    duplicate = repeated(map(whole_text, head["labels"]))
    if duplicate is not None:
        raise DataError(f"{path}: the label {brief(duplicate)} is listed twice")
    if head.get("features") is not None and not (folder / head["features"]).is_file():
        name = folder / head["features"]
        raise DataError(f"{name}: the features are missing; create the project again")
    return dict(head)


def _fingerprint(names: list[tuple[str, str]], listed: Array) -> str:
    content = names if listed.all() else [names, listed.tolist()]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def _read_items(
    path: Path, labels: list[str]
) -> tuple[list[Item], list[tuple[int, int, float, bool, bool, bool]]]:
    column = {name: j for j, name in enumerate(labels)}
    items: list[Item] = []
    tags: list[tuple[int, int, float, bool, bool, bool]] = []
    ids: set[str] = set()
    for where, record in _records(path):
        if not isinstance(record, dict) or not isinstance(record.get("id"), str | int):
            raise DataError(f"{where}: not an item with an 'id'; create the project again")
        item = Item(whole_text(str(record["id"])), whole_text(str(record.get("text") or "")))
        if item.id in ids:
            raise DataError(
                f"{where}: the id {brief(item.id)} occurs twice; give each item its own"
            )
        ids.add(item.id)
        item_tags = list(_tags(where, record.get("tags"), column))
        suggested = record.get("suggested", [])
        item_tags += _tags(where, suggested, column, suggested=True)
        if len({tag[0] for tag in item_tags}) < len(item_tags):
            raise DataError(f"{where}: the item {brief(item.id)} has the same tag twice")
        tags += [(len(items), *tag) for tag in item_tags]
        items.append(item)
    return items, tags


def _records(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the location and the content of every line."""
    try:
        with path.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if line.strip():
                    yield f"{path}, line {number}", json.loads(line)
    except FileNotFoundError:
        raise DataError(f"{path}: the file is missing; create the project again") from None
    except (ValueError, RecursionError) as error:
        raise DataError(
            f"{path}: not valid JSON lines ({error}); create the project again"
        ) from None


def _tags(
    where: str, tags: Any, column: dict[str, int], *, suggested: bool = False
) -> Iterator[tuple[int, float, bool, bool, bool]]:
    """Yield column, confidence, kept, judged and listed of each tag."""
    if not isinstance(tags, list):
        name = "suggested" if suggested else "tags"
        raise DataError(f"{where}: '{name}' must be a list, not {brief(tags)}")
    for tag in tags:
        label = tag.get("label") if isinstance(tag, dict) else tag
        label = whole_text(label) if isinstance(label, str) else label
        if not isinstance(tag, dict) or not isinstance(label, str) or label not in column:
            raise DataError(
                f"{where}: the tag {brief(label)} is not among the labels of project.json"
            )
        confidence, kept = tag.get("confidence"), False if suggested else tag.get("kept")
        if not is_share(confidence) or not isinstance(kept, bool):
            raise DataError(
                f"{where}: the tag {brief(label)} needs a 'confidence' from 0 to 1 and 'kept' true "
                f"or false, not {brief(confidence)} and {brief(kept)}"
            )
        # Tags that could not be judged have one half.
        judged = tag.get("judged", confidence != 0.5) is True
        yield column[label], float(confidence), kept, judged, not suggested  # type: ignore[arg-type]
