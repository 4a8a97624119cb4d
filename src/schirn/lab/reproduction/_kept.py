"""Finished fits in one file, from which another machine can continue.

A line is one result without its scores, with the folder that it belongs in. The file is small
enough to be committed: 2,000 results take about 300 kB.
"""

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from schirn.exceptions import DataError
from schirn.lab.bench import Batch, renew_results
from schirn.lab.bench.report import write_file
from schirn.lab.bench.results import Result, ResultWriter, newest, read_rows

_BATCH = "batch"
# Fields that other machines do not need: scores are in files, the others describe the machine.
_DROPPED = ("scores", "traceback", "host")


def keep_results(path: str | os.PathLike[str], batches: Sequence[Batch]) -> int:
    """Write the newest results of all batches to one file.

    Results that the file already holds stay, unless their fit has a newer one.

    Parameters
    ----------
    path : path
        Ends in ``.jsonl.gz``. It is replaced completely or not at all.
    batches : list of Batch

    Returns
    -------
    int
        Number of results in the file.
    """
    results = read_kept(path)
    for batch in batches:
        name = batch.folder.name
        fresh = read_rows(batch.folder) if batch.folder.is_dir() else []
        merged = newest([*results.get(name, []), *fresh])
        results[name] = [result | dict.fromkeys(_DROPPED) for result in merged]
    return _write(path, results)


def _write(path: str | os.PathLike[str], results: Mapping[str, Sequence[Result]]) -> int:
    """Write results by batch to a file; return their number."""
    lines = [
        json.dumps({_BATCH: name, **result}, ensure_ascii=False, sort_keys=True)
        for name in sorted(results)
        for result in sorted(results[name], key=lambda result: str(result["key"]))
    ]
    text = "".join(f"{line}\n" for line in lines)
    # Without a time in the header, equal results give equal files.
    write_file(Path(path), gzip.compress(text.encode(), mtime=0))
    return len(lines)


def restore_results(path: str | os.PathLike[str], batches: Sequence[Batch]) -> int:
    """Add the results of a file to the folders of the batches that lack them.

    Parameters
    ----------
    path : path
        From `keep_results`; a missing file holds nothing.
    batches : list of Batch

    Returns
    -------
    int
        Number of results that were added.
    """
    count = 0
    results = read_kept(path)
    for batch in batches:
        planned = {run.key for run in batch.runs}
        batch.folder.mkdir(parents=True, exist_ok=True)
        known = {result["key"] for result in read_rows(batch.folder, history=True)}
        writer = ResultWriter(batch.folder, "kept")
        for result in results.get(batch.folder.name, []):
            if result["key"] in planned - known:
                writer.append(result)
                count += 1
    return count


def renew_kept(path: str | os.PathLike[str], batches: Sequence[Batch], count: int) -> list[str]:
    """Keep the results of a file although code has changed, if repeated fits agree with them.

    Parameters
    ----------
    path : path
        From `keep_results`.
    batches : list of Batch
    count : int
        Number of fits to repeat for each method of a batch whose code has changed.

    Returns
    -------
    list of str
        A sentence for each batch with changed code.
    """
    results = read_kept(path)
    sentences = []
    for batch in batches:
        name = batch.folder.name
        renewal = renew_results(results.get(name, []), batch.runs, count=count)
        if renewal.keys:
            results[name] = renewal.results
            sentences.append(f"{name}: {len(renewal.keys)} fits of changed code were kept")
        for method, reason in renewal.differing.items():
            sentences.append(f"{name}: fits of {method} were not kept: {reason}")
    _write(path, results)
    return sentences


def read_kept(path: str | os.PathLike[str]) -> dict[str, list[Result]]:
    """Read a file of `keep_results`: results by the name of their batch.

    Parameters
    ----------
    path : path

    Returns
    -------
    dict of str to list of dict
        Empty if there is no such file.

    Raises
    ------
    DataError
        If the file is damaged.
    """
    path = Path(path)
    if not path.exists():
        return {}
    results: dict[str, list[Result]] = {}
    try:
        for line in gzip.decompress(path.read_bytes()).decode().splitlines():
            result = json.loads(line)
            results.setdefault(result.pop(_BATCH), []).append(result)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path} holds no results of schirn reproduce: {error}") from error
    return results


def progress_of(
    batches: Sequence[Batch], results: Mapping[str, Sequence[Result]]
) -> dict[str, str]:
    """Return the progress of each batch, such as "12 of 105"."""
    counts = {}
    for batch in batches:
        name = batch.folder.name
        n_done = sum(result["status"] == "done" for result in results[name])
        counts[name] = f"{n_done} of {len(batch.runs)}"
    return counts
