"""Measures computed again from the scores that were kept."""

import os
import secrets
import time
from pathlib import Path

from schirn.bench._scores import Extra, measures, read_arrays
from schirn.bench.rows import Row, RowWriter, plain, read_rows


def rescore(folder: str | os.PathLike[str], *, extra: Extra | None = None) -> list[Row]:
    """Compute the measures of all finished cells again, without fitting anything.

    Parameters
    ----------
    folder : the output folder of a benchmark
    extra : further measures by name, functions f(truth, scores) of a 0/1 matrix and the scores

    Returns
    -------
    list of dict
        All rows of the folder. Those whose measures changed are also written to it.

    Examples
    --------
    >>> import tempfile
    >>> from schirn import bench
    >>> from schirn.datasets import make_partial_multilabel
    >>> from schirn.metrics import precision_at_k
    >>> data = make_partial_multilabel(n_samples=100, n_labels=5, r=1, random_state=0)
    >>> folder = tempfile.mkdtemp()
    >>> rows = bench.run([data], ["CandidateRidge"], output=folder, folds=2, jobs=0)
    >>> rows = bench.rescore(folder, extra={"precision_at_1": precision_at_k})
    >>> "precision_at_1" in rows[0]["metrics"]
    True
    """
    folder = Path(folder)
    writer = RowWriter(folder, f"rescored-{secrets.token_hex(4)}")
    rows = []
    for row in read_rows(folder):
        if row["status"] == "done" and row["scores"]:
            found = plain(measures(read_arrays(folder / row["scores"]), extra))
            if {**row["metrics"], **found} != row["metrics"]:
                row = {**row, "metrics": {**row["metrics"], **found}, "finished": time.time()}
                writer.append(row)
        rows.append(row)
    return rows
