"""Sieve on the settings of the paper that have features: quality and noise finding.

    SCHIRN_DATA=folder python -m benchmarks.sieve --jobs 2 --output results.jsonl

Five folds (shuffled, seed 0), noise by the published generator with seed r, true labels for scoring
only. Three models share one factorisation and so the same features: "candidates" is the tuned ridge
that trusts every candidate, "truth" the same ridge on the true labels, both tuned by average
precision on held-out rows of what they learn from. Gap closed = (Sieve - candidates) /
(truth - candidates). With `--rivals`, noise finding is compared with Schirn, NLR and, where it is
installed, cleanlab's per-label quality scores of the leave-one-out probabilities. Results are kept
in the output file; a second run goes on where the first one stopped.
"""

import argparse
import csv
import importlib.util
import json
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy.special import expit
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

from schirn import NLR, CandidateRidge, Schirn, Sieve
from schirn.datasets import add_noise, load
from schirn.exceptions import EmptyCandidatesWarning
from schirn.linalg.features import learn_scale
from schirn.metrics import evaluate, noise_report
from schirn.model_selection import CandidateSearchCV

SETTINGS: list[tuple[str, int | None]] = [
    *[(name, r) for name in ("scene",) for r in (1, 2, 3)],
    *[(name, r) for name in ("birds", "medical", "enron") for r in (3, 7, 11)],
    *[(name, r) for name in ("chess", "philosophy") for r in (10, 20, 30)],
    ("yeastmf", None),
    ("yeastcc", None),
    ("yeastbp", None),
]
HELD_BACK: list[tuple[str, int | None]] = [
    *[("emotions", r) for r in (1, 2, 3)],
    *[("flags", r) for r in (1, 2)],
    *[("yeast", r) for r in (3, 7)],
    ("corel5k", 10),
    ("bibtex", 10),
]
PUBLISHED = Path(__file__).parents[1] / "src" / "schirn" / "bench" / "published.csv"
MEASURES = ("average_precision", "ranking_loss", "coverage", "hamming_loss", "one_error")


def run_cell(name: str, r: int | None, fold: int, rivals: bool, clean: bool) -> dict[str, Any]:
    """All models of one fold."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    data = load(name)
    T = data.y_true
    C = data.candidates if r is None else add_noise(T, r, kind="legacy", seed=r)
    C = T if clean else C
    train, test = list(KFold(5, shuffle=True, random_state=0).split(T))[fold]
    row: dict[str, Any] = {"dataset": name, "r": r, "fold": fold, "clean": clean}
    with threadpool_limits(1):
        start = time.process_time()
        base = Sieve()
        factored = base._factor(base._fit_features(data.X[train]))
        row["factor_seconds"] = time.process_time() - start
        X = factored.source.features(base._scaled(data.X[test]))
        for key, model, Y in (
            ("candidates", Sieve(noise_level=0), C),
            ("sieve", Sieve(), C),
            ("truth", Sieve(noise_level=0), T),
        ):
            start = time.process_time()
            result = model._solve(factored, Y[train])
            seconds = time.process_time() - start
            scores = result.scores(X)
            row[key] = {**evaluate(T[test], scores, y_pred=scores > 0), "seconds": seconds}
            if key != "truth" and not clean:
                P = expit(result.log_odds) if key == "candidates" else result.Q
                row[key]["noise"] = noise_report(
                    T[train], C[train], (result.Q < 0.5) & (C[train] == 1), P * C[train]
                )
            if key == "candidates" and rivals:
                row["cleanlab"] = _cleanlab_auc(T[train], C[train], P)
        if rivals:
            row |= _rival_noise(data.X[train], C[train], T[train])
    return row


def _rival_noise(X: Any, C: np.ndarray, T: np.ndarray) -> dict[str, Any]:
    """Noise finding of Schirn and NLR on scaled features.

    Their ridge weight is the one that a candidate ridge chooses on held-out candidates; the other
    parameters are the defaults, with a weaker coupling for NLR, which scaled features need.
    """
    Z = learn_scale(X).transform(X)
    grid = {"lam": (0.001 * 10.0 ** np.arange(6)).tolist()}
    ridge = CandidateSearchCV(CandidateRidge(fit_intercept=True), grid, cv=3, refit=False)
    lam = ridge.fit(Z, C).best_params_["lam"]
    found = {}
    for model in (
        Schirn(lam=lam, fit_intercept=True),
        NLR(gamma=lam, beta=1.0, fit_intercept=True),
    ):
        model.fit(Z, C)
        name = type(model).__name__
        found[name] = noise_report(T, C, model.noise_, model.label_confidence_)
    return found


def _cleanlab_auc(T: np.ndarray, C: np.ndarray, P: np.ndarray) -> dict[str, Any] | None:
    if importlib.util.find_spec("cleanlab") is None:
        return None
    from cleanlab.multilabel_classification.rank import get_label_quality_scores_per_class

    keep = C.any(axis=1)
    lists = [np.flatnonzero(row).tolist() for row in C[keep]]
    try:
        quality = get_label_quality_scores_per_class(lists, P[keep])
    except ValueError as error:
        return {"failed": str(error)}
    return noise_report(T[keep], C[keep], confidence=quality * C[keep])


def published(path: Path) -> dict[tuple[str, str, int | None], dict[str, float]]:
    """Published means by (measure, data set, r), then by method."""
    table: dict[tuple[str, str, int | None], dict[str, float]] = defaultdict(dict)
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            r = int(float(line["r"])) if line["r"] else None
            key = (line["metric"], line["dataset"].lower(), r)
            table[key][line["method"]] = float(line["mean_percent"])
    return table


def mean(rows: list[dict[str, Any]], key: str, measure: str) -> float:
    """Mean over folds, in percent."""
    return 100 * float(np.mean([row[key][measure] for row in rows]))


def print_tables(results: list[dict[str, Any]], path: Path | None) -> None:
    """Markdown tables of everything measured."""
    known = published(path) if path is not None and path.exists() else {}
    groups: dict[tuple[str, int | None], list[dict[str, Any]]] = defaultdict(list)
    for row in results:
        groups[row["dataset"], row["r"]].append(row)
    order = [s for s in (*SETTINGS, *HELD_BACK) if s in groups]
    order += [s for s in groups if s not in order]
    print("\n### Average precision (%)\n")
    print(
        "| data | r | folds | candidates | Sieve | truth | gap closed | Schirn published | best |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    gaps, above = [], 0
    for name, r in order:
        rows = groups[name, r]
        c, s, t = (mean(rows, k, "average_precision") for k in ("candidates", "sieve", "truth"))
        theirs = known.get(("average_precision", name, r), {})
        # Where truth and candidates are equally good there is no gap to speak of.
        gaps.append((s - c) / (t - c) if t - c > 0.5 else np.nan)
        above += bool(theirs) and s > max(theirs.values())
        best = f"{max(theirs.values()):.1f}" if theirs else "–"
        schirn = f"{theirs['Schirn']:.1f}" if theirs else "–"
        gap = "–" if np.isnan(gaps[-1]) else f"{gaps[-1]:.2f}"
        print(
            f"| {name} | {r or ''} | {len(rows)} | {c:.1f} | {s:.1f} | {t:.1f} | {gap} "
            f"| {schirn} | {best} |"
        )
    average = float(np.nanmean(gaps)) if not np.isnan(gaps).all() else float("nan")
    print(f"\nMean gap closed {average:.3f}; above the published best on {above} settings.")
    print("\n### The other measures (%): candidates / Sieve / truth / Schirn published\n")
    print("| data | r | " + " | ".join(MEASURES[1:]) + " |\n|---|---|" + "---|" * 4)
    for name, r in order:
        rows, cells = groups[name, r], []
        for measure in MEASURES[1:]:
            values = [mean(rows, k, measure) for k in ("candidates", "sieve", "truth")]
            theirs = known.get((measure, name, r), {}).get("Schirn")
            tail = "" if theirs is None else f" / {theirs:.1f}"
            cells.append(" / ".join(f"{v:.1f}" for v in values) + tail)
        print(f"| {name} | {r or ''} | " + " | ".join(cells) + " |")
    _print_noise(order, groups)


def _print_noise(order: list[Any], groups: dict[Any, list[dict[str, Any]]]) -> None:
    keys = [("sieve", "Sieve"), ("candidates", "ridge"), ("Schirn", "Schirn"), ("NLR", "NLR")]
    keys.append(("cleanlab", "cleanlab"))
    print("\n### Finding wrong candidates in the training rows: AUC (%)\n")
    print("| data | r | " + " | ".join(label for _, label in keys) + " |\n|---|---|" + "---|" * 5)
    totals: dict[str, list[float]] = defaultdict(list)
    for name, r in order:
        cells = []
        for key, _ in keys:
            reports = [row.get(key) for row in groups[name, r]]
            reports = [rep.get("noise", rep) for rep in reports if rep]
            values = [rep["auc"] for rep in reports if "auc" in rep]
            value = 100 * float(np.mean(values)) if values else np.nan
            totals[key].append(value)
            cells.append("–" if np.isnan(value) else f"{value:.1f}")
        print(f"| {name} | {r or ''} | " + " | ".join(cells) + " |")
    means = ["–" if np.isnan(totals[k]).all() else f"{np.nanmean(totals[k]):.1f}" for k, _ in keys]
    print("| mean | | " + " | ".join(means) + " |")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("sieve-results.jsonl"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5, help="how many of the five folds")
    parser.add_argument("--only", default="", help="data sets, comma separated")
    parser.add_argument("--rivals", action="store_true", help="noise finding of other methods")
    parser.add_argument("--held-back", action="store_true", help="sets not used in the design")
    parser.add_argument("--clean", action="store_true", help="no noise at all")
    parser.add_argument("--published", type=Path, default=PUBLISHED)
    args = parser.parse_args()
    settings = HELD_BACK if args.held_back else SETTINGS
    if args.clean:
        settings = list({name: (name, None) for name, _ in settings}.values())
    wanted = set(args.only.split(",")) if args.only else None
    done = []
    if args.output.exists():
        done = [json.loads(line) for line in args.output.read_text().splitlines()]
    finished = {(row["dataset"], row["r"], row["fold"]) for row in done}
    cells = [
        (name, r, fold)
        for name, r in settings
        for fold in range(args.folds)
        if (wanted is None or name in wanted) and (name, r, fold) not in finished
    ]
    # The slowest first, so that parallel jobs end together.
    slow = {"yeastbp": 0, "philosophy": 1, "bibtex": 1, "corel5k": 1, "chess": 2}
    cells.sort(key=lambda cell: slow.get(cell[0], 9))
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.sieve import run_cell as task

    jobs = (delayed(task)(*cell, args.rivals, args.clean) for cell in cells)
    with args.output.open("a") as file:
        for row in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()
            done.append(row)
    print_tables(done, args.published)


if __name__ == "__main__":
    main()
