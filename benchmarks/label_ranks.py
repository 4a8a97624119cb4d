"""Exact rank of label matrices as large as the largest of the paper: 2.2 million × 1.3 million.

    python -m benchmarks.label_ranks
    python -m benchmarks.label_ranks --rows 200000 --labels 50000

Labels per row follow a Poisson distribution (at least one), label frequencies a power law.
"""

import argparse
import time

import numpy as np
from scipy import sparse

from schirn.lab.bench.running.memory import peak_memory
from schirn.lab.rank import rank_report


def power_law_labels(
    n: int, l: int, per_row: float, exponent: float, seed: int = 0
) -> sparse.csr_array:
    """Draw a sparse 0/1 matrix with about `per_row` labels in every row."""
    rng = np.random.default_rng(seed)
    weights = np.cumsum(np.arange(1, l + 1) ** -exponent)
    per_row_counts = 1 + rng.poisson(per_row - 1, n)
    draws = rng.random(per_row_counts.sum()) * weights[-1]
    columns = np.minimum(np.searchsorted(weights, draws), l - 1)
    rows = np.repeat(np.arange(n), per_row_counts)
    cells = sparse.coo_array((np.ones(len(rows), dtype=bool), (rows, columns)), shape=(n, l))
    return cells.tocsr()


def main() -> None:
    """Print rank, time and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_200_000)
    parser.add_argument("--labels", type=int, default=1_300_000)
    parser.add_argument("--per-row", type=float, default=5.0)
    parser.add_argument("--exponent", type=float, default=1.0)
    arguments = parser.parse_args()
    y = power_law_labels(arguments.rows, arguments.labels, arguments.per_row, arguments.exponent)
    print(f"{y.shape[0]:,} x {y.shape[1]:,}, {y.nnz:,} labels, peak {peak_memory():.0f} MiB")
    start = time.process_time()
    report = rank_report(y)
    print(report)
    print(f"{time.process_time() - start:.1f} s of CPU time, peak {peak_memory():.0f} MiB in all")


if __name__ == "__main__":
    main()
