"""Result files to send: complete runs of a folder as one small file, and their scores as another.

``NAME.jsonl.gz`` holds the results. ``NAME.scores.npz`` holds the order of the scores, which takes
a few bits per row: for every test row, its labels in the order of their scores, and whether each is
true, predicted, and tied with the one before; and all candidates of the training rows in the order
of their confidence, and whether each is true and tied with the one before. Metrics that need more
than an order, such as those over labels and the calibration error, are left out of the results:
they could not be recomputed.
"""

import gzip
import io
import json
import os
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import atomic_write, read_archive
from schirn._input import Array
from schirn.exceptions import DataError, InputError
from schirn.lab.bench import compute_metrics, read_arrays
from schirn.lab.bench.results import IDENTITY, Result, read_rows

SUFFIX = ".jsonl.gz"
_SCORES = ".scores.npz"
# Fields about the machine, which a file for submission does not need.
_DROPPED = ("traceback", "host")
_DIGITS = 6


class PackedRun(NamedTuple):
    """The order of the scores of a run, as bits padded to whole bytes.

    Attributes
    ----------
    n_rows, n_labels : int
        Shape of the scores.
    n_candidates : int
        Number of candidates in the training rows; 0 for a method without confidences.
    truth, predicted, tied : uint8 array
        Bits of each test row, its labels in the order of their scores.
    candidate_truth, candidate_tied : uint8 array
        Bits of all candidates, in the order of their confidences.
    """

    n_rows: int
    n_labels: int
    n_candidates: int
    truth: Array
    predicted: Array
    tied: Array
    candidate_truth: Array
    candidate_tied: Array


_SIZES = PackedRun._fields[:3]
_BITS = PackedRun._fields[3:]


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

    Raises
    ------
    InputError
        If the file has another name.

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
    path = Path(path)
    if not path.name.endswith(SUFFIX):
        raise InputError(f"{path}: a packed file of results must be called NAME{SUFFIX}.")
    results = complete_results(read_rows(folder))
    packed = pack_scores(folder, results)
    return write_results(path, results, packed)


def complete_results(results: Iterable[Result]) -> list[Result]:
    """Return the results of runs with all folds, because single folds could be a selection.

    Parameters
    ----------
    results : list of dict
        Results of a benchmark.

    Returns
    -------
    list of dict
    """
    results = list(results)
    n_folds = Counter(_without_fold(result) for result in results)
    return [result for result in results if n_folds[_without_fold(result)] == result["folds"]]


def pack_scores(folder: str | os.PathLike[str], results: Iterable[Result]) -> dict[str, PackedRun]:
    """Pack the stored scores of results of a folder, by key.

    Parameters
    ----------
    folder : path
        Output folder of a benchmark.
    results : list of dict
        Results of the folder.

    Returns
    -------
    dict of str to PackedRun
    """
    folder = Path(folder)
    return {
        result["key"]: pack_run(read_arrays(folder / result["scores"]))
        for result in results
        if result["scores"]
    }


def write_results(
    path: Path, results: Iterable[Result], packed: Mapping[str, PackedRun]
) -> list[Path]:
    """Write results and packed scores as two files; return those that were written.

    Parameters
    ----------
    path : Path
        File of the results.
    results : list of dict
        Results to write.
    packed : dict of str to PackedRun
        Their scores, by key.

    Returns
    -------
    list of Path
        The files.
    """
    lines = []
    for result in results:
        short = _shortened(result, packed.get(result["key"]))
        lines.append(json.dumps(short, separators=(",", ":")) + "\n")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(gzip.compress("".join(lines).encode(), mtime=0))
    if not packed:
        return [path]
    scores = scores_file(path)
    with atomic_write(scores) as file:
        file.write(as_archive(packed))
    return [path, scores]


def scores_file(path: Path) -> Path:
    """Return the file of the scores that belong to a packed file of results."""
    return path.with_name(path.name.removesuffix(SUFFIX) + _SCORES)


def _without_fold(result: Result) -> tuple[Any, ...]:
    return tuple(result[name] for name in IDENTITY if name != "fold")


def _shortened(result: Result, packed: PackedRun | None) -> Result:
    """Return a result without machine fields, and with the metrics of its packed scores."""
    metrics = result["metrics"]
    if packed is not None:
        names = compute_metrics(arrays_of(packed), ranks_only=True)
        metrics = {name: value for name, value in metrics.items() if name in names}
    rounded = {name: value and round(value, _DIGITS) for name, value in metrics.items()}
    finished = round(result["finished"])
    return {**result, **dict.fromkeys(_DROPPED), "metrics": rounded, "finished": finished}


def pack_run(arrays: Mapping[str, Array]) -> PackedRun:
    """Keep the order of the scores of a run, and drop their values.

    Parameters
    ----------
    arrays : dict of str to array
        What a run stored.

    Returns
    -------
    PackedRun
    """
    scores = arrays["scores"]
    n_rows, n_labels = scores.shape
    order = np.argsort(-scores, axis=1, kind="stable")
    truth = np.unpackbits(arrays["truth"], axis=1, count=n_labels)
    if "predicted" in arrays:
        predicted = np.unpackbits(arrays["predicted"], axis=1, count=n_labels).astype(bool)
    else:
        # Without `predict`, labels with a score above one half are predicted.
        predicted = scores > 0.5
    candidate_truth, candidate_tied = _candidates_in_order(arrays)
    return PackedRun(
        n_rows,
        n_labels,
        len(candidate_truth),
        np.packbits(np.take_along_axis(truth, order, axis=1), axis=1).ravel(),
        np.packbits(np.take_along_axis(predicted, order, axis=1), axis=1).ravel(),
        np.packbits(_is_tied(np.take_along_axis(scores, order, axis=1)), axis=1).ravel(),
        np.packbits(candidate_truth),
        np.packbits(candidate_tied),
    )


def _candidates_in_order(arrays: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return masks of the true and of the tied candidates, sorted by confidence."""
    if "confidence" not in arrays or "candidate_truth" not in arrays:
        nothing = np.zeros(0, dtype=bool)
        return nothing, nothing
    confidence = arrays["confidence"]
    order = np.argsort(-confidence, kind="stable")
    return arrays["candidate_truth"][order].astype(bool), _is_tied(confidence[order])


def _is_tied(descending: Array) -> Array:
    """Return a mask of the values equal to their predecessor along the last axis."""
    return np.diff(descending, axis=-1, prepend=np.inf) == 0


def arrays_of(run: PackedRun) -> dict[str, Array]:
    """Return arrays with the metrics of a packed run: ranks instead of scores and confidences.

    Parameters
    ----------
    run : PackedRun
        Order of the scores.

    Returns
    -------
    dict of str to array
        As `pack_run` takes them.
    """
    n_bytes = (run.n_labels + 7) // 8
    tied = np.unpackbits(run.tied.reshape(run.n_rows, n_bytes), axis=1, count=run.n_labels)
    arrays = {
        "scores": -np.cumsum(1.0 - tied, axis=1),
        "truth": run.truth.reshape(run.n_rows, n_bytes),
        "predicted": run.predicted.reshape(run.n_rows, n_bytes),
    }
    if run.n_candidates:
        is_true = np.unpackbits(run.candidate_truth, count=run.n_candidates)
        is_tied = np.unpackbits(run.candidate_tied, count=run.n_candidates)
        arrays["candidate_truth"] = is_true.astype(bool)
        ranks = np.cumsum(1.0 - is_tied)
        arrays["confidence"] = 1 - ranks / (run.n_candidates + 1)
    return arrays


def as_archive(packed: Mapping[str, PackedRun]) -> bytes:
    """Return all packed runs as one archive: the bits of all runs, one after the other."""
    runs = list(packed.values())
    arrays = {name: np.concatenate([getattr(run, name) for run in runs]) for name in _BITS}
    arrays["keys"] = np.array(list(packed))
    arrays["sizes"] = np.array([run[: len(_SIZES)] for run in runs])
    buffer = io.BytesIO()
    # A tenth smaller than the output of `numpy.savez_compressed`, and without a time stamp.
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy")
            entry.compress_type = zipfile.ZIP_LZMA
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(entry, content.getvalue())
    return buffer.getvalue()


def read_scores(path: Path) -> dict[str, PackedRun]:
    """Read packed runs by key; raise DataError unless the file holds some.

    Parameters
    ----------
    path : Path
        File of packed scores.

    Returns
    -------
    dict of str to PackedRun
    """
    archive = read_archive(path)
    try:
        sizes = archive["sizes"].astype(int).tolist()
        keys = archive["keys"].tolist()
        n_row_bytes = [n_rows * ((n_labels + 7) // 8) for n_rows, n_labels, _ in sizes]
        n_candidate_bytes = [(n_candidates + 7) // 8 for _, _, n_candidates in sizes]
        pieces = []
        for name in _BITS:
            lengths = n_candidate_bytes if name.startswith("candidate") else n_row_bytes
            ends = np.cumsum(lengths)
            if len(archive[name]) != ends[-1]:
                raise ValueError
            pieces.append(np.split(archive[name], ends[:-1]))
        runs = [PackedRun(*size, *bits) for size, *bits in zip(sizes, *pieces, strict=True)]
        return dict(zip(keys, runs, strict=True))
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        raise DataError(f"{path}: not a file of packed scores.") from None
