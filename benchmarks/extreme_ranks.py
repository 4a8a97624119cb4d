"""Exact ranks of generated label matrices with the shapes of the paper's extreme data sets.

    python -m benchmarks.extreme_ranks

Every label occurs at least once; the other entries fall on labels by a power law, and the number
of labels of a row is geometric. Each shape is run in a process of its own.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
from scipy import sparse

from schirn.lab.rank import rank_report


class Shape(NamedTuple):
    """A data set of the paper's Table 1, and its name in the extreme classification repository."""

    source: str
    n: int
    l: int
    labels_per_row: float
    published_rank: int


# Labels per row are those of the repository, except for Amazon-titles, which has 22.2: independent
# labels that dense leave a remainder of 1.8 million rows, whose elimination takes 7 TB.
SHAPES = {
    "LF-Amazon-131k": Shape("LF-AmazonTitles-131K", 294_805, 131_073, 2.29, 126_051),
    "see-also": Shape("LF-WikiSeeAlsoTitles-320K", 693_082, 312_330, 2.11, 271_563),
    "wiki-titles": Shape("LF-WikiTitles-500K", 1_813_391, 501_070, 4.74, 495_540),
    "Amazon-titles": Shape("LF-AmazonTitles-1.3M", 2_248_619, 1_305_265, 5.0, 1_291_202),
    "Amazon-cat": Shape("AmazonCat-13K", 1_186_239, 13_330, 5.04, 13_307),
}


def generate(shape: Shape, seed: int = 0) -> sparse.csr_array:
    """A 0/1 matrix of this shape."""
    rng = np.random.default_rng(seed)
    lengths = rng.geometric(1 / shape.labels_per_row, size=shape.n)
    ends = np.cumsum(lengths)
    share = np.cumsum(np.arange(1, shape.l + 1) ** -0.8)
    labels = np.searchsorted(share / share[-1], rng.random(ends[-1]), side="right")
    labels = labels.astype(np.int32)
    labels[rng.choice(ends[-1], shape.l, replace=False)] = rng.permutation(shape.l)
    indptr = np.concatenate([[0], ends])
    Y = sparse.csr_array((np.ones(len(labels), np.int8), labels, indptr), shape=(shape.n, shape.l))
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y


def measure(name: str) -> dict[str, object]:
    """The rank of one generated matrix, and what it cost."""
    Y = generate(SHAPES[name])
    start = time.perf_counter()
    report = rank_report(Y)
    return {
        "entries": Y.nnz,
        "rank": report.rank,
        "proven": report.proven,
        "seconds": time.perf_counter() - start,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", choices=SHAPES, help="print the figures of one shape as JSON")
    args = parser.parse_args()
    if args.only:
        print(json.dumps(measure(args.only)))
        return
    print(
        "| data | repository | n | l | published rank | labels per row | rank | proven | s | GB |"
    )
    print("|---|---|--:|--:|--:|--:|--:|---|--:|--:|")
    for name, shape in SHAPES.items():
        command = [sys.executable, "-m", "benchmarks.extreme_ranks", "--only", name]
        run = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        row = json.loads(run.stdout)
        cells = [name, shape.source]
        cells += [f"{k:,}" for k in (shape.n, shape.l, shape.published_rank)]
        cells += [f"{row['entries'] / shape.n:.2f}", f"{row['rank']:,}"]
        cells += ["yes" if row["proven"] else "no"]
        cells += [f"{row['seconds']:.1f}", f"{row['peak']:.1f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
