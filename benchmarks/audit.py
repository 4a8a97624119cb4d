"""Simulated audits: fifty answers, the certificate they give, and verdicts before and after.

    SCHIRN_DATA=folder python -m benchmarks.audit --jobs 2

Each setting is judged once. Then 200 audits draw 50 tags each with another seed, and the true tags
answer. "holds" is the share of the audits in which the removed tags that the certificate is about
have at least the precision that it states. Development sets and kinds of noise as in
`benchmarks.sieve`; `crowd_relations` as in `benchmarks.votes`, with 2, 3 and 5 workers per
sentence; simulated annotators who differ in quality and prefer some wrong labels and some rows.
Both are also judged as if their votes had not been counted. Results are kept in the output file; a
second run continues where the first one stopped.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import binom
from threadpoolctl import threadpool_limits

from benchmarks.sieve import DEVELOPMENT, KINDS, noisy
from benchmarks.votes import FILE, draw
from schirn import find_noisy_labels
from schirn.cleaning import NoisyLabels, Votes, votes_to_candidates
from schirn.datasets import load, load_digits_attributes
from schirn.exceptions import EmptyCandidatesWarning

SETS: tuple[tuple[str, int | None], ...] = (("digits", 2), *DEVELOPMENT)
# Workers per sentence, and simulated annotators: sets, annotators per row and share of wrong tags.
WORKERS = (2, 3, 5)
SIMULATED = (("digits", 3, 0.5), ("scene", 5, 0.8), ("emotions", 3, 0.5), ("medical", 5, 0.8))
CROWD, PLAIN = "crowd_relations", "without votes"
PEOPLE = 40
BINS = 10
# The removals without a target precision are scored in some of the audits.
SOME = 10
Task = tuple[str, int | None, str]


def annotators(T: np.ndarray, k: int, share: float, seed: int = 0) -> tuple[Votes, np.ndarray]:
    """Votes of k of 40 people per row, and the true tags in the order of their labels.

    People differ in how many true tags they see and how many wrong ones they add; wrong tags prefer
    some labels and some rows. The wrong ones are as many as give their share of all listed tags.
    """
    rng = np.random.default_rng(seed)
    n, l = T.shape
    sensitivity, factor = rng.beta(8, 3, PEOPLE), rng.gamma(2, 0.5, PEOPLE)
    pull = rng.gamma(2, 0.5, n)[:, None] * rng.gamma(1, 1, l)
    listed = (T * (1 - (1 - sensitivity.mean()) ** k)).sum()
    low, high = 1e-5, 1.0
    for _ in range(40):
        rate = (low * high) ** 0.5
        wrong = ((T == 0) * (1 - (1 - np.clip(rate * pull, 0, 0.6)) ** k)).sum()
        low, high = (rate, high) if wrong < share * (wrong + listed) else (low, rate)
    pull = np.clip(rate * pull, 0, 0.6)
    table: list[tuple[int, int, str | None]] = []
    for row in range(n):
        for person in rng.choice(PEOPLE, k, replace=False):
            chance = np.where(T[row] == 1, sensitivity[person], factor[person] * pull[row])
            chosen = np.flatnonzero(rng.random(l) < np.clip(chance, 0, 0.95))
            table += [(row, int(person), str(j)) for j in chosen] or [(row, int(person), None)]
    votes = votes_to_candidates(*zip(*table, strict=True), order=range(n))
    return votes, T[:, [int(name) for name in votes.label_names]]


def read(name: str) -> Any:
    """One data set with its true tags."""
    return load_digits_attributes() if name == "digits" else load(name)


def judge(name: str, r: int | None, kind: str) -> tuple[NoisyLabels, np.ndarray]:
    """Verdicts on one setting, and whether each tag is correct."""
    options: dict[str, Any] = {}
    if name == CROWD:
        X, votes, T = draw(Path(os.environ["SCHIRN_DATA"]) / FILE, 0, r or 3)
    elif kind.startswith("people"):
        data = read(name)
        X, (votes, T) = data.X, annotators(data.y_true, r or 3, float(kind.split()[1]))
    else:
        data = read(name)
        found = find_noisy_labels(data.X, noisy(kind, r, data))
        return found, data.y_true[found.row, found.column] == 1
    if not kind.endswith(PLAIN):
        options["votes"] = votes
    found = find_noisy_labels(X, votes.candidates, **options)
    return found, T[found.row, found.column] == 1


def words(name: str, r: int | None, kind: str) -> str:
    """Name of one setting."""
    without = f", {PLAIN}" if kind.endswith(PLAIN) else ""
    if name == CROWD:
        return f"{name}, {r} workers{without}"
    if kind.startswith("people"):
        return f"{name}, {r} annotators{without}"
    return f"{name}, own" if r is None else f"{name} {r}, {kind}"


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Mean distance of confidence and truth over ten bins, weighted by their tags."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    sums = np.bincount(bins, confidence - right, minlength=BINS)
    return float(np.abs(sums).sum() / len(right))


def scores(removed: np.ndarray, wrong: np.ndarray) -> tuple[float, float]:
    """Precision and recall of removals."""
    hits = float((removed & wrong).sum())
    return hits / removed.sum() if removed.any() else np.nan, hits / wrong.sum()


def measure(
    name: str, r: int | None, kind: str, audits: int, n: int, output: Path | None
) -> dict[str, Any]:
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
            plain = (np.nan, np.nan)
            if seed % SOME == 0:
                free = found.audited(cells, right[cells.index], precision=None, date="2026-01-01")
                plain = scores(free.removed & rest, wrong & rest)
            low, high = audit.wrong_share_interval
            runs.append(
                {
                    "holds": not actual < certificate.precision_at_least,
                    "removes": about.any(),
                    "bound": certificate.precision_at_least if about.any() else np.nan,
                    "actual": actual,
                    "answers": certificate.n_answers,
                    "interval": low <= share <= high,
                    "claimed_after": checked.wrong_share,
                    "claim_after": abs(checked.wrong_share - share),
                    "covers": (about & checked.removed & rest).sum()
                    / max(1, (checked.removed & rest).sum()),
                    "precision_after": after[0],
                    "recall_after": after[1],
                    "precision_plain": plain[0],
                    "recall_plain": plain[1],
                    "error_after": calibration_error(checked.confidence[rest], right[rest]),
                }
            )
    values = {key: np.array([run[key] for run in runs], dtype=float) for key in runs[0]}
    row = {
        key: float(v[~np.isnan(v)].mean()) if len(v) > np.isnan(v).sum() else np.nan
        for key, v in values.items()
    }
    result = {
        "task": [name, r, kind],
        "name": words(name, r, kind),
        "audits": audits,
        "true": float(share),
        "claimed": float(np.mean(1 - found.confidence[judged])),
        "precision": precision,
        "recall": recall,
        "error": calibration_error(found.confidence[judged], right[judged]),
        **row,
    }
    if output is not None:
        with output.open("a") as stream:
            stream.write(json.dumps(result) + "\n")
    return result


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
    parser.add_argument("--output", type=Path, help="file that keeps the results")
    args = parser.parse_args()
    tasks: list[Task] = []
    for name, r in SETS:
        tasks += [(name, r, kind) for kind in (KINDS if r is not None else ("count",))]
    for workers in WORKERS:
        tasks += [(CROWD, workers, kind) for kind in ("", PLAIN)]
    for name, k, share in SIMULATED:
        tasks += [(name, k, f"people {share}{kind}") for kind in ("", f" {PLAIN}")]
    if not (Path(os.environ.get("SCHIRN_DATA", "")) / FILE).exists():
        print("Only the digits are audited: SCHIRN_DATA names no folder with the data sets.\n")
        tasks = [task for task in tasks if task[0] == "digits"]
    if args.sets:
        tasks = [task for task in tasks if task[0] in args.sets.split(",")]
    done = {}
    if args.output is not None and args.output.exists():
        results = map(json.loads, args.output.read_text().splitlines())
        done = {tuple(each["task"]): each for each in results if each["audits"] == args.audits}
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.audit import measure as job

    left = [task for task in tasks if task not in done]
    run = delayed(job)
    found = Parallel(n_jobs=args.jobs)(
        run(*task, args.audits, args.answers, args.output) for task in left
    )
    done |= dict(zip(left, found, strict=True))
    rows = [done[task] for task in tasks]
    mean = {
        key: float(np.nanmean([row[key] for row in rows]))
        for key, value in rows[0].items()
        if isinstance(value, float)
    }
    rows_and_mean = [*rows, {**mean, "name": "mean"}]
    table(
        rows_and_mean,
        {
            "certificate holds": "holds",
            "audits that remove": "removes",
            "at least": "bound",
            "true precision": "actual",
            "certified of all removals": "covers",
            "interval of the share holds": "interval",
        },
    )
    table(
        rows_and_mean,
        {
            "truly wrong": "true",
            "claimed share": ("claimed", "claimed_after"),
            "error after": "claim_after",
            "calibration error": ("error", "error_after"),
            "precision": ("precision", "precision_after"),
            "recall": ("recall", "recall_after"),
            "precision, no target": "precision_plain",
            "recall, no target": "recall_plain",
        },
    )
    whole, least = np.mean([row["holds"] for row in rows]), min(row["holds"] for row in rows)
    mark = "holds" if whole >= 0.95 else "FAILS"
    print(f"- {mark}: certificates hold in at least 95 % of the audits ({100 * whole:.1f})")
    # A bound that holds in exactly 95 % of the audits falls below this in one of a thousand tables.
    limit = binom.ppf(0.001 / len(rows), args.audits, 0.95) / args.audits
    mark = "holds" if least >= limit else "FAILS"
    print(f"- {mark}: in no setting they hold clearly less often ({100 * least:.1f} at least)")


if __name__ == "__main__":
    main()
