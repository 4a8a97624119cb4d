"""Expected precision and recall against the threshold, compared with the truth.

    SCHIRN_DATA=folder python -m benchmarks.threshold_curve --jobs 2

The problems of `benchmarks.trust`; sets other than the digits are skipped without SCHIRN_DATA. For
every threshold at which tags would be removed, the true precision and recall of removing all tags
below it are compared with the band of `found.threshold_curve`: before an audit, and after simulated
audits of 50 answers. "In" is the share of the thresholds (and audits) at which the truth is within
the band, "wide" the mean width of the band; a dash if no threshold removes a tag. True tags are
used for scoring only.
"""

import os
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.no_harm import DIGITS, measure_all, parse_jobs
from benchmarks.trust import ADDED, name, problem
from schirn import find_noisy_labels
from schirn.exceptions import EmptyCandidatesWarning

AUDITS, ANSWERS = 20, 50
HEAD = "data | precision in | wide | recall in | wide | precision in, 50 answers | wide | "
HEAD += "recall in, 50 answers | wide"


def compare(curve: Any, wrong: np.ndarray) -> list[tuple[bool, float, bool, float]]:
    """Whether the truth is in both bands, and their widths; tags are sorted by confidence."""
    found = np.r_[0, np.cumsum(wrong)]
    lines = []
    for p in curve:
        if not p.removed or not found[-1]:
            continue
        precision, recall = found[p.removed] / p.removed, found[p.removed] / found[-1]
        lines.append(
            (
                p.precision_low - 1e-9 <= precision <= p.precision_high + 1e-9,
                p.precision_high - p.precision_low,
                p.recall_low - 1e-9 <= recall <= p.recall_high + 1e-9,
                p.recall_high - p.recall_low,
            )
        )
    return lines


def measure(kind: str, what: Any, draw: int) -> list[float]:
    """Means over thresholds, and over thresholds and audits."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    X, C, T = problem(kind, what, draw)
    with threadpool_limits(1):
        found = find_noisy_labels(X, C)
    order = np.argsort(found.confidence, kind="stable")
    order = order[found.judged[order]]
    wrong = T[found.row[order], found.column[order]] == 0
    before = compare(found.threshold_curve, wrong)
    after = []
    for seed in range(AUDITS):
        cells = found.audit_sample(ANSWERS, random_state=seed)
        checked = found.audited(cells, T[cells.row, cells.column] == 1)
        after += compare(checked.threshold_curve, wrong)
    return [
        value
        for lines in (before, after)
        for value in (np.mean(lines, axis=0) if lines else [np.nan] * 4)
    ]


def main() -> None:
    """Print one table, in percent."""
    jobs = parse_jobs(__doc__.partition("\n")[0])
    tasks = [*DIGITS]
    if os.environ.get("SCHIRN_DATA"):
        tasks += [("added", what, 0) for what in ADDED]
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.threshold_curve import measure as job

    rows = measure_all(job, tasks, jobs)
    print(f"| {HEAD} |")
    print("|---|" + "--:|" * 8)
    for task, row in zip(tasks, rows, strict=True):
        cells = ["–" if np.isnan(value) else f"{100 * value:.0f}" for value in row]
        print(f"| {' | '.join([name(*task), *cells])} |")


if __name__ == "__main__":
    main()
