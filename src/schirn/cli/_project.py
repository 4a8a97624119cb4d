"""A project folder for `schirn review`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn.cleaning.found import NoisyLabels
from schirn.cleaning.tables import whole_folder
from schirn.exceptions import InputError


def check_project(path: str) -> None:
    """Refuse a place that is taken, before the work."""
    place = Path(path)
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise InputError(f"{path}: is there already; give a new or empty folder")
    if not place.resolve().parent.is_dir():
        raise InputError(f"{path}: the folder {str(place.resolve().parent)!r} does not exist")


def write_project(
    path: str, found: NoisyLabels, X: Any, *, ids: list[str], texts: list[str]
) -> None:
    """Write project.json, items.jsonl and features.npz, all or nothing."""
    head = {
        "format": "schirn-review",
        "version": 1,
        "labels": found.label_names,
        "threshold": found.threshold,
        "method": found.method,
        "n_items": found.n_rows,
        "features": "features.npz",
    }
    with whole_folder(path) as folder:
        with (folder / "items.jsonl").open("wb") as stream:
            stream.writelines(_line(item) for item in _items(found, ids, texts))
        np.savez_compressed(folder / "features.npz", **_arrays(found, X))
        (folder / "project.json").write_text(json.dumps(head, indent=2), "utf-8")


def _items(found: NoisyLabels, ids: list[str], texts: list[str]) -> Any:
    ends = np.searchsorted(found.row, np.arange(found.n_rows + 1))
    for i, (name, text) in enumerate(zip(ids, texts, strict=True)):
        tags = [
            {
                "label": found.label_names[found.column[k]],
                "confidence": round(float(found.confidence[k]), 6),
                "kept": not found.removed[k],
            }
            for k in range(ends[i], ends[i + 1])
        ]
        yield {"id": name, "text": text, "tags": tags}


def _line(item: dict[str, Any]) -> bytes:
    return (json.dumps(item, ensure_ascii=True) + "\n").encode()


def _arrays(found: NoisyLabels, X: Any) -> dict[str, Any]:
    """Features and candidates in the layout of `schirn.datasets.read_npz`."""
    arrays = {
        "C_indices": found.column.astype(np.int64),
        "C_indptr": np.searchsorted(found.row, np.arange(found.n_rows + 1)).astype(np.int64),
        "label_names": np.array(found.label_names, dtype=str),
    }
    if not sp.issparse(X):
        return {"X": X, **arrays}
    X = sp.csr_array(X)
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    return {**parts, **arrays}
