"""Result files to send: complete runs of a folder as one small file, and their scores as another.

``NAME.jsonl.gz`` holds the results, ``NAME.scores.npz`` what the metrics of single test rows need:
for every row, its labels in the order of their scores, and whether each is true, predicted, and
tied with the one before. That takes a few bits per row, a hundredth of the scores. Metrics over
labels and confidences of candidates cannot be computed from it.
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
from schirn.lab.bench import read_arrays
from schirn.lab.bench.results import IDENTITY, Result, read_rows

SUFFIX = ".jsonl.gz"
_SCORES = ".scores.npz"
# What a file to send does not need: it is about a machine.
_DROPPED = ("traceback", "host")
_DIGITS = 6
_BITS = ("truth", "predicted", "tied")


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
        file.write(pack_scores(arrays))
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


def pack_scores(arrays: Mapping[str, Mapping[str, Array]]) -> bytes:
    """All scores as one archive: the bits of all runs, one after the other."""
    runs = [_bits_in_order(run) for run in arrays.values()]
    buffer = io.BytesIO()
    bits = {name: np.concatenate([run[name].ravel() for run in runs]) for name in _BITS}
    np.savez_compressed(
        buffer,
        keys=np.array(list(arrays)),
        shapes=np.array([run["scores"].shape for run in arrays.values()]),
        **bits,  # type: ignore[arg-type]
    )
    return buffer.getvalue()


def _bits_in_order(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """True, predicted and tied labels of each row as bits, in the order of the scores."""
    scores = arrays["scores"]
    order = np.argsort(-scores, axis=1, kind="stable")
    truth = np.unpackbits(arrays["truth"], axis=1, count=scores.shape[1])
    # Without `predict`, labels with a score above one half are predicted.
    predicted = (
        np.unpackbits(arrays["predicted"], axis=1, count=scores.shape[1])
        if "predicted" in arrays
        else scores > 0.5
    )
    descending = np.take_along_axis(scores, order, axis=1)
    tied = np.diff(descending, axis=1, prepend=np.inf) == 0
    in_order = [np.take_along_axis(bits, order, axis=1) for bits in (truth, predicted)]
    return {
        name: np.packbits(bits, axis=1) for name, bits in zip(_BITS, (*in_order, tied), strict=True)
    }


def read_scores(path: Path) -> dict[str, dict[str, Array]]:
    """Read packed runs by key: scores, true and predicted labels, each row in its own order."""
    packed = read_archive(path)
    try:
        shapes = packed["shapes"].astype(int).tolist()
        ends = np.cumsum([n * ((l + 7) // 8) for n, l in shapes])
        if any(len(packed[name]) != ends[-1] for name in _BITS):
            raise ValueError
        pieces = {name: np.split(packed[name], ends[:-1]) for name in _BITS}
        runs = {}
        for k, (key, (n, l)) in enumerate(zip(packed["keys"].tolist(), shapes, strict=True)):
            bits = {name: pieces[name][k].reshape(n, -1) for name in _BITS}
            tied = np.unpackbits(bits.pop("tied"), axis=1, count=l)
            runs[key] = bits | {"scores": -np.cumsum(1.0 - tied, axis=1)}
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        raise DataError(f"{path}: not a file of packed scores.") from None
    return runs
