"""Planted tags and the gate: what is expected of removals, what they are worth, and what is kept.

    SCHIRN_DATA=folder python -m benchmarks.trust --jobs 2

The problems of `benchmarks.no_harm`, and medical, enron, emotions and yeast with added wrong tags
(skipped without SCHIRN_DATA). "Before" are all tags below the threshold, "after" those that are
removed by default. The expected precision uses a cautious share of wrong tags; "with the true
share" shows how well planted tags stand for wrong ones. The last lines compare the results with
what must hold. True tags are used for scoring only.
"""

import os
import warnings
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.no_harm import (
    DIGITS,
    RANDOM,
    YEAST,
    make,
    measure_all,
    parse_jobs,
    print_verdicts,
    words,
)
from schirn import find_noisy_labels
from schirn.datasets import add_noise, load
from schirn.exceptions import EmptyCandidatesWarning

ADDED = (("medical", 7), ("enron", 7), ("emotions", 2), ("yeast", 3))
COLUMNS = ("caught", "flagged", "expected", "with_true_share", "before", "found_before")
HEAD = "data | trust | caught | flagged | expected precision | with the true share | "
HEAD += "right before | found before | removed after | right after | found after"


def problem(kind: str, what: Any, draw: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """Features, candidates and true tags of one problem."""
    if kind != "added":
        return make(kind, what, draw)
    name, r = what
    data = load(name)
    return data.X, add_noise(data.y_true, r, kind="legacy", seed=r), data.y_true


def name(kind: str, what: Any, draw: int) -> str:
    """Name of one problem."""
    return f"{what[0]}, {what[1]} wrong tags" if kind == "added" else words(kind, what, draw)


def measure(kind: str, what: Any, draw: int) -> dict[str, Any]:
    """Check and removals of one problem."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    X, C, T = problem(kind, what, draw)
    with threadpool_limits(1):
        found = find_noisy_labels(X, C)
    wrong = T[found.row, found.column] == 0
    flagged = found.judged & (found.confidence < found.threshold)
    trust: Any = found.trust
    true_share = float(wrong[found.judged].mean())

    def share(of: np.ndarray) -> float:
        return float(of.mean()) if len(of) else np.nan

    return {
        "task": (kind, what, draw),
        "level": trust.level,
        "caught": trust.caught,
        "flagged": trust.flagged,
        "expected": trust.expected_precision,
        "with_true_share": true_share * trust.ratio if trust.flagged else np.nan,
        "before": share(wrong[flagged]),
        "found_before": share(flagged[wrong]),
        "removed": int(found.removed.sum()),
        "after": share(wrong[found.removed]),
        "found_after": share(found.removed[wrong]),
    }


def verdicts(rows: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """What must hold, and whether it does."""

    def of(kind: str, *what: Any) -> list[dict[str, Any]]:
        return [r for r in rows if r["task"][0] == kind and (not what or r["task"][1] in what)]

    def careful(r: dict[str, Any]) -> bool:
        return not r["removed"] or r["after"] >= 0.8

    strong = [*of("digits", 64), *of("added", ("medical", 7))]
    found = [
        ("random features: nothing removed", not any(r["removed"] for r in of("random"))),
        ("1 pixel: nothing removed", not any(r["removed"] for r in of("digits", 1))),
        (
            "3 and 6 pixels: 80 % of the removals are right, or none is made",
            all(map(careful, of("digits", 3, 6))),
        ),
        (
            "64 pixels and medical: less than one point of recall lost",
            all(r["found_before"] - r["found_after"] < 0.01 for r in strong),
        ),
    ]
    if of("yeast"):
        text = "full Yeast: 80 % of the removals are right, or none is made"
        found.append((text, all(map(careful, of("yeast")))))
    return found


def main() -> None:
    """Print one table and what must hold."""
    jobs = parse_jobs(__doc__.partition("\n")[0])
    tasks = [*DIGITS, *RANDOM]
    if os.environ.get("SCHIRN_DATA"):
        tasks += [("added", what, 0) for what in ADDED] + [("yeast", what, 0) for what in YEAST]
    else:
        print("All sets but the digits are skipped: SCHIRN_DATA names no folder.\n")
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.trust import measure as job

    rows = measure_all(job, tasks, jobs)
    print(f"| {HEAD} |")
    print("|---|---|" + "--:|" * 9)

    def percent(value: float) -> str:
        return "–" if np.isnan(value) else f"{100 * value:.1f}"

    for row in rows:
        cells = [name(*row["task"]), row["level"], *(percent(row[key]) for key in COLUMNS)]
        cells += [f"{row['removed']:,}", percent(row["after"]), percent(row["found_after"])]
        print(f"| {' | '.join(cells)} |")
    print_verdicts(verdicts(rows))


if __name__ == "__main__":
    main()
