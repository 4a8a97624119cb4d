"""Simulated audits: fifty answers, the certificate they give, and verdicts before and after.

    SCHIRN_DATA=folder python -m benchmarks.audit --jobs 2

Each setting is judged once. Then 200 audits draw 50 tags each with another seed, and the true tags
answer. "holds" is the share of the audits in which the removed tags that the certificate is about
have at least the precision that it states. Noise as in `benchmarks.sieve`; `crowd_relations` as in
`benchmarks.votes`, with three votes per sentence.
"""

import argparse
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from benchmarks.sieve import noisy
from benchmarks.votes import FILE, draw
from schirn import find_noisy_labels
from schirn.cleaning import NoisyLabels
from schirn.datasets import load, load_digits_attributes
from schirn.exceptions import EmptyCandidatesWarning

SETS = (
    ("digits", 2),
    ("medical", 7),
    ("birds", 3),
    ("enron", 7),
    ("emotions", 2),
    ("scene", 2),
)
KINDS = ("count", "coin")
BINS = 10


def judge(name: str, r: int, kind: str) -> tuple[NoisyLabels, np.ndarray]:
    """Verdicts on one setting, and whether each tag is correct."""
    if name == "crowd_relations":
        data = draw(Path(os.environ["SCHIRN_DATA"]) / FILE, 0)
        votes, T = data.votes, data.truth
        found = find_noisy_labels(data.X, votes.candidates, votes=votes)
    else:
        data = load_digits_attributes() if name == "digits" else load(name)
        T = data.y_true
        found = find_noisy_labels(data.X, noisy(kind, r, data))
    return found, T[found.row, found.column] == 1


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Mean distance of confidence and truth over ten bins, weighted by their tags."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = np.bincount(bins, confidence - right, minlength=BINS)
    return float(np.abs(sums).sum() / len(right))


def scores(removed: np.ndarray, wrong: np.ndarray) -> tuple[float, float]:
    """Precision and recall of removals."""
    hits = float((removed & wrong).sum())
    return hits / removed.sum() if removed.any() else np.nan, hits / wrong.sum()


def measure(name: str, r: int, kind: str, audits: int, n: int) -> dict[str, Any]:
    """Means over the audits of one setting."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    with threadpool_limits(1):
        found, right = judge(name, r, kind)
        wrong, judged = ~right, found.judged
        share = wrong[judged].mean()
        precision, recall = scores(found.removed, wrong)
        runs = []
        for seed in range(audits):
            cells = found.audit_sample(n, random_state=seed)
            checked = found.audited(cells, right[cells.index], date="2026-01-01")
            audit, certificate = checked.audit, checked.certificate
            assert audit is not None
            assert certificate is not None
            about = audit.certified
            actual = wrong[about].mean() if about.any() else np.nan
            # The answered tags count neither for nor against the verdicts.
            rest = judged.copy()
            rest[cells.index] = False
            after = scores(checked.removed & rest, wrong & rest)
            plain = found.audited(cells, right[cells.index], precision=None, date="2026-01-01")
            low, high = audit.wrong_share_interval
            runs.append(
                {
                    "holds": not actual < certificate.precision_at_least,
                    "removes": about.any(),
                    "bound": certificate.precision_at_least if about.any() else np.nan,
                    "actual": actual,
                    "answers": certificate.n_answers,
                    "interval": low <= share <= high,
                    "claim_after": abs(checked.wrong_share - share),
                    "precision_after": after[0],
                    "recall_after": after[1],
                    "precision_plain": scores(plain.removed & rest, wrong & rest)[0],
                    "recall_plain": scores(plain.removed & rest, wrong & rest)[1],
                    "error_after": calibration_error(checked.confidence[rest], right[rest]),
                }
            )
    values = {key: np.array([run[key] for run in runs], dtype=float) for key in runs[0]}
    row = {
        key: float(v[~np.isnan(v)].mean()) if len(v) > np.isnan(v).sum() else np.nan
        for key, v in values.items()
    }
    return {
        "name": name if name == "crowd_relations" else f"{name} {r}, {kind}",
        "true": float(share),
        "claim": abs(float(np.mean(1 - found.confidence[judged])) - share),
        "precision": precision,
        "recall": recall,
        "error": calibration_error(found.confidence[judged], right[judged]),
        **row,
    }


def table(rows: list[dict[str, Any]], columns: dict[str, str | tuple[str, ...]]) -> None:
    """Print a Markdown table of shares in per cent."""
    print("| data | " + " | ".join(columns) + " |")
    print("|---|" + "--:|" * len(columns))
    for row in rows:
        cells = []
        for keys in columns.values():
            values = [row[key] for key in ((keys,) if isinstance(keys, str) else keys)]
            cells.append(" → ".join("–" if np.isnan(v) else f"{100 * v:.1f}" for v in values))
        print(f"| {row['name']} | {' | '.join(cells)} |")
    print()


def main() -> None:
    """Print two tables and what must hold."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--sets", help="comma-separated names of data sets")
    args = parser.parse_args()
    tasks = [(name, r, kind) for name, r in SETS for kind in KINDS]
    if (Path(os.environ.get("SCHIRN_DATA", "")) / FILE).exists():
        tasks.append(("crowd_relations", 3, ""))
    else:
        print("Only the digits are audited: SCHIRN_DATA names no folder with the data sets.\n")
        tasks = [task for task in tasks if task[0] == "digits"]
    if args.sets:
        tasks = [task for task in tasks if task[0] in args.sets.split(",")]
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.audit import measure as job

    rows = Parallel(n_jobs=args.jobs)(delayed(job)(*t, args.audits, args.answers) for t in tasks)
    table(
        rows,
        {
            "certificate holds": "holds",
            "audits that remove": "removes",
            "at least": "bound",
            "true precision": "actual",
            "interval of the share holds": "interval",
        },
    )
    table(
        rows,
        {
            "truly wrong": "true",
            "error of the share": ("claim", "claim_after"),
            "calibration error": ("error", "error_after"),
            "precision": ("precision", "precision_after"),
            "recall": ("recall", "recall_after"),
            "precision, no target": "precision_plain",
            "recall, no target": "recall_plain",
        },
    )
    least = min(row["holds"] for row in rows)
    mark = "holds" if least >= 0.95 else "FAILS"
    print(f"- {mark}: every certificate holds in at least 95 % of the audits ({100 * least:.1f})")


if __name__ == "__main__":
    main()
