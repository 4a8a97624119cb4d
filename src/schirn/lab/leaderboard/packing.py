"""Result files to send: complete runs of a folder as one small file, and their scores as another.

``NAME.jsonl.gz`` holds the results, ``NAME.scores.npz`` what the metrics of the test rows need: the
true and the predicted labels as bits, and the scores as ranks among all scores of the run, which
keep every order and every tie. Confidences of candidates are not packed.
"""

import gzip
import io
import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from schirn._files import atomic_write, read_archive
from schirn._input import Array
from schirn.exceptions import DataError, InputError
from schirn.lab.bench.results import IDENTITY, Result, read_rows
from schirn.lab.bench.running.scores import read_arrays

SUFFIX = ".jsonl.gz"
_SCORES = ".scores.npz"
# What a file to send does not need: it is about a machine.
_DROPPED = ("traceback", "host")
_DIGITS = 6
_FLAT = ("scores", "truth", "predicted")


def pack_results(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> list[Path]:
    """Write the complete runs of a benchmark as two small files that others can check.

    Parameters
    ----------
    folder : path
        Output folder of a benchmark.
    path : path
        File of the results, ``NAME.jsonl.gz``.

    Returns
    -------
    list of Path
        The file of the results, and the file of their scores if any were stored.

    Examples
    --------
    >>> import tempfile
    >>> from schirn.lab import bench, leaderboard
    >>> folder = tempfile.mkdtemp()
    >>> data, method = "digits_attributes:1", "CandidateRidge"
    >>> results = bench.run([data], [method], output=folder, folds=2, tuning="none", jobs=0)
    >>> files = leaderboard.pack_results(folder, folder + "/mine.jsonl.gz")
    >>> [file.name for file in files], leaderboard.check_results(files[0]).verdict
    (['mine.jsonl.gz', 'mine.scores.npz'], 'verified')
    """
    folder, path = Path(folder), Path(path)
    if not path.name.endswith(SUFFIX):
        raise InputError(f"{path}: a packed file of results must be called NAME{SUFFIX}.")
    results = read_rows(folder)
    n_folds = Counter(_without_fold(result) for result in results)
    # Some folds of a method would look like a selection.
    complete = [r for r in results if n_folds[_without_fold(r)] == r["folds"]]
    stored = [result for result in complete if result["scores"]]
    arrays = {r["key"]: read_arrays(folder / r["scores"]) for r in stored}
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(_shortened(r), separators=(',', ':'))}\n" for r in complete)
    with atomic_write(path) as file:
        file.write(gzip.compress(lines.encode(), mtime=0))
    if not arrays:
        return [path]
    scores = scores_file(path)
    with atomic_write(scores) as file:
        file.write(_packed(arrays))
    return [path, scores]


def scores_file(path: Path) -> Path:
    """File of the scores that belong to a packed file of results."""
    return path.with_name(path.name.removesuffix(SUFFIX) + _SCORES)


def _without_fold(result: Result) -> tuple[Any, ...]:
    return tuple(result[name] for name in IDENTITY if name != "fold")


def _shortened(result: Result) -> Result:
    metrics = {name: value and round(value, _DIGITS) for name, value in result["metrics"].items()}
    rounded = {"finished": round(result["finished"]), "metrics": metrics}
    return {**result, **dict.fromkeys(_DROPPED), **rounded}


def _packed(arrays: Mapping[str, Mapping[str, Array]]) -> bytes:
    """All scores as one archive: the arrays of all runs, one after the other."""
    ranks = [np.unique(a["scores"], return_inverse=True)[1].ravel() for a in arrays.values()]
    largest = max(int(values.max()) for values in ranks)
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        keys=np.array(list(arrays)),
        shapes=np.array([a["scores"].shape for a in arrays.values()]),
        scores=np.concatenate(ranks).astype(np.uint16 if largest < 2**16 else np.uint32),
        truth=np.concatenate([a["truth"].ravel() for a in arrays.values()]),
        predicted=np.concatenate([_predicted(a).ravel() for a in arrays.values()]),
    )
    return buffer.getvalue()


def _predicted(arrays: Mapping[str, Array]) -> Array:
    """Predicted labels as bits; without `predict` they follow from the scores, which ranks lose."""
    if "predicted" in arrays:
        return arrays["predicted"]
    return np.packbits(arrays["scores"] > 0.5, axis=1)


def read_scores(path: Path) -> dict[str, dict[str, Array]]:
    """Read packed scores by the key of their run."""
    packed = read_archive(path)
    try:
        n_rows, n_labels = packed["shapes"].astype(int).T
        n_bytes = n_rows * ((n_labels + 7) // 8)
        sizes = {"scores": n_rows * n_labels, "truth": n_bytes, "predicted": n_bytes}
        pieces = {name: _split(packed[name], sizes[name]) for name in _FLAT}
        runs = {}
        for k, key in enumerate(packed["keys"].tolist()):
            rows = int(n_rows[k])
            run = {name: pieces[name][k].reshape(rows, -1) for name in _FLAT}
            runs[key] = run | {"scores": run["scores"].astype(float)}
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        raise DataError(f"{path}: not a file of packed scores.") from None
    return runs


def _split(flat: Array, sizes: Array) -> list[Array]:
    if len(flat) != sizes.sum():
        raise ValueError
    return np.split(flat, np.cumsum(sizes)[:-1])
