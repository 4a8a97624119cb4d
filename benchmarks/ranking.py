"""Rank suspicious tags, and tags that may be missing, on all development tables.

    SCHIRN_DATA=folder python -m benchmarks.ranking --quick
    SCHIRN_DATA=folder python -m benchmarks.ranking --jobs 2
    SCHIRN_DATA=folder python -m benchmarks.ranking --redo schirn
    python -m benchmarks.ranking --many --rankers schirn,sgd
    python -m benchmarks.ranking --stability
    SCHIRN_DATA=folder python -m benchmarks.ranking --swaps

Every ranker scores the listed tags and the unlisted cells of every table
(`benchmarks.ranking_tables`); the truth is used for measuring only. The first AUC tells wrong
listed tags from right ones, the second missing tags from those that are rightly not listed. Next to
the first one stands the share of wrong tags among the most suspicious 50 and 100, which are what
people see first, and among 5, 10 and 20%. Times are CPU
seconds on one thread, for both kinds of cells.

- `schirn`: `find_noisy_labels` with default settings; `sieve`: the same with ``method="Sieve"``;
- `lr`, `ridge`, `sgd`: logistic regression (C=10), kernel ridge regression (linear, weight 1) and
  logistic regression by stochastic gradient descent, each trained on the listed tags in five folds,
  on tf-idf weights of words and pairs of words, or on standardised columns;
- `frequency`: the number of rows that list the tag;
- `0.2`: `find_noisy_labels` of version 0.2, which ranked everything by `Sieve`
  (`benchmarks.version_0_2`; its seconds are not measured).

With `--many`, the tables are texts that are too many for `Sieve`. The summary compares `schirn`
with the best of the last five on each table. With `--stability`, the 500 most suspicious tags of a
table are compared with those of the same rows among more rows, and with those of another seed.
Results are kept in the file `--out`; what is there is not run again, unless `--redo` names the
ranker.

With `--swaps`, product titles list some tags instead of confusable ones ("coat" instead of
"jacket"). The surest swaps of `ranking.swaps` are compared with pairs of the same rows in the order
of both confidences alone, without counting how often two labels are confused. In the tables of
annotators, any wrong tag and any missing tag of one row are a true swap.
"""

import argparse
import contextlib
import fnmatch
import json
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.ranking_tables import (
    ANNOTATED,
    MANY_TEXTS,
    TABLES,
    UNIFORM,
    Table,
    annotated,
    debian,
    titles,
)
from benchmarks.titles import make_titles
from benchmarks.version_0_2 import scores_of_0_2
from schirn import find_noisy_labels
from schirn.cleaning import Evidence, NoisyLabels, Ranker, RankingTask, Swaps
from schirn.cleaning.find import choose_ranker, has_unit_rows
from schirn.cleaning.swaps import best_pairs, pair_by_row
from schirn.exceptions import DataError
from schirn.features.pipeline import make_method

Array = np.ndarray
Result = dict[str, Any]

RIVALS = ("lr", "ridge", "sgd", "frequency", "0.2")
DEPTHS = (0.05, 0.1, 0.2)
HEADS = (50, 100)
QUICK_ROWS = 600
QUICK = ("cmc", "brighter_ron", "debian_uniform", "titles", "titles_dropped", "scene_uniform")
# What must hold: differences to the best of the others, on every table and on average.
WORST, MEAN = -0.005, 0.015
N_SUSPECTS = 500
RESULTS = Path("ranking-results.jsonl")
STABLE = 0.9


class AllCells(Ranker):
    """What `find_noisy_labels` takes for a method, with the log-odds of every unlisted cell."""

    def __init__(self, method: Any, scaled: bool) -> None:
        self.method, self.scaled = method, scaled

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Let the ranker of the method judge the task and all other cells."""
        sparse = sp.issparse(X)
        scaled = self.scaled or (sparse and has_unit_rows(X))
        ranker = choose_ranker(self.method, task, scaled=scaled, sparse=sparse)
        return ranker.rank(X, replace(task, n_unlisted=task.tags.n_rows * len(task.columns)))


def library_scores(table: Table, seed: int, method: Any = None) -> Array:
    """Scores (n, l) by this library; unlisted cells that it does not judge get the lowest."""
    ranker = AllCells(method, table.is_text)
    ranking = find_noisy_labels(table.X, table.listed, method=ranker, random_state=seed)
    scores = np.full(table.listed.shape, -1.0)
    scores[ranking.row, ranking.column] = ranking.confidence
    scores[ranking.missing.row, ranking.missing.column] = ranking.missing.confidence
    return scores


def sieve_scores(table: Table, seed: int) -> Array:
    """Scores (n, l) by `Sieve`, whose landmarks follow the seed too."""
    model = make_method("Sieve", scaled=table.is_text, sparse=table.is_text)
    model.set_params(random_state=seed)
    return library_scores(table, seed, model)


def features(table: Table) -> Any:
    """Features for the simple models."""
    if table.is_text:
        return TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(table.X)
    if sp.issparse(table.X):
        return TfidfTransformer(sublinear_tf=True).fit_transform(table.X)
    return StandardScaler().fit_transform(table.X)


def fold_scores(table: Table, seed: int, fit: Callable[[Any, Array, Any], Array]) -> Array:
    """Scores (n, l) of every row by a model that is trained on the other folds."""
    Z, scores = features(table), np.zeros(table.listed.shape)
    for train, test in KFold(5, shuffle=True, random_state=seed).split(scores):
        scores[test] = fit(Z[train], table.listed[train], Z[test])
    return scores


def classify(classifier: Any, Z: Any, Y: Array, Z_test: Any) -> Array:
    """Probabilities by one classifier per label."""
    # Wide integers: scikit-learn mixes up the columns of more than 256 labels in uint8. And
    # probabilities: decision values of labels that no training row lists are 0, not far below.
    model = OneVsRestClassifier(classifier).fit(Z, Y.astype(np.int64))
    return np.asarray(model.predict_proba(Z_test))


def regress(Z: Any, Y: Array, Z_test: Any) -> Array:
    """Scores by ridge regression with an intercept."""
    mean = Y.mean(axis=0)
    # tf-idf weights have rows of unit length, standardised columns have rows of length sqrt(d).
    weight = 1 if sp.issparse(Z) else Z.shape[1]
    model = KernelRidge(kernel="linear", alpha=weight).fit(Z, Y - mean)
    return np.asarray(model.predict(Z_test) + mean)


def frequency(table: Table, seed: int) -> Array:
    """Count the rows that list each label."""
    return np.broadcast_to(table.listed.sum(axis=0, dtype=np.float64), table.listed.shape)


def version_0_2(table: Table, seed: int) -> Array:
    """Scores (n, l) by version 0.2 with its default settings."""
    return scores_of_0_2(table.X, table.listed)


LOGISTIC = LogisticRegression(C=10, max_iter=1000)
RANKERS: dict[str, Callable[[Table, int], Array]] = {
    "schirn": library_scores,
    "sieve": sieve_scores,
    "lr": partial(fold_scores, fit=partial(classify, LOGISTIC)),
    "ridge": partial(fold_scores, fit=regress),
    "sgd": partial(
        fold_scores, fit=partial(classify, SGDClassifier(loss="log_loss", random_state=0))
    ),
    "frequency": frequency,
    "0.2": version_0_2,
}


class Job(NamedTuple):
    """A ranker on a table, to be measured or tested for stability, with all rows or few."""

    is_stability: bool
    is_quick: bool
    table: str
    ranker: str


def measure(scores: Array, table: Table) -> Result:
    """AUC of wrong and of missing tags, and the share of wrong ones among the most suspicious."""
    listed, truth = table.listed == 1, table.truth == 1
    confidence, wrong = scores[listed], ~truth[listed]
    # Equal scores in random order.
    order = np.random.default_rng(0).permutation(len(wrong))
    order = order[np.argsort(confidence[order], kind="stable")]
    depths = [max(1, round(depth * len(wrong))) for depth in DEPTHS]
    heads = {f"P@{head}": float(wrong[order[:head]].mean()) for head in HEADS}
    return {
        "rows": len(truth),
        "labels": truth.shape[1],
        "wrong": float(wrong.mean()),
        "missing": int((truth & ~listed).sum()),
        "auc": auc(wrong, -confidence),
        **heads,
        "precision": [float(wrong[order[:depth]].mean()) for depth in depths],
        "auc_missing": auc(truth[~listed], scores[~listed]),
    }


def auc(positive: Array, scores: Array) -> float | None:
    """AUC of scores that should be high for positive cells; None if all or none are."""
    return float(roc_auc_score(positive, scores)) if 0 < positive.sum() < len(positive) else None


def common_share(first: Array, second: Array, listed: Array) -> float:
    """Share of the most suspicious tags that two rankings of the same rows have in common."""
    cells = np.flatnonzero(listed)
    tops = [
        set(cells[np.argsort(scores.ravel()[cells], kind="stable")[:N_SUSPECTS]].tolist())
        for scores in (first, second)
    ]
    return len(tops[0] & tops[1]) / max(len(tops[0]), 1)


def stability(table: Table, ranker: str, sizes: tuple[int, int, int]) -> list[float]:
    """Shares in common between the two pairs of sizes, and between two seeds at two sizes."""
    plain, below, above = sizes
    scores: dict[tuple[int, int], Array] = {}
    shares = []
    for pair in (
        ((below, 0), (above, 0)),
        ((plain, 0), (round(1.05 * plain), 0)),
        ((plain, 0), (plain, 1)),
        ((above, 0), (above, 1)),
    ):
        for n_rows, seed in pair:
            if (n_rows, seed) not in scores:
                rows = Table(table.X[:n_rows], table.listed[:n_rows], table.truth[:n_rows])
                scores[n_rows, seed] = RANKERS[ranker](rows, seed)
        n_common = min(n_rows for n_rows, _ in pair)
        first, second = (scores[run][:n_common] for run in pair)
        shares.append(common_share(first, second, table.listed[:n_common]))
    return shares


# Rows of a table, rows below the limit of the exact kernel, and rows above it.
SIZES = {False: (3000, 3900, 4100), True: (600, 780, 820)}
STABILITY_TABLES: dict[str, Callable[[int], Table]] = {
    "titles_unstated": partial(titles, unstated=0.13),
    "debian_uniform": partial(debian, "uniform"),
}


def run(job: Job) -> Result:
    """Result of one job; a table that is not here gives the reason."""
    warnings.simplefilter("ignore")
    result: Result = job._asdict()
    try:
        if job.is_stability:
            sizes = SIZES[job.is_quick]
            table = STABILITY_TABLES[job.table](max(sizes))
        else:
            table = (TABLES | MANY_TEXTS)[job.table]()
            table = table.head(QUICK_ROWS if job.is_quick else len(table.listed))
        start = time.process_time()
        with threadpool_limits(1):
            if job.is_stability:
                result["shares"] = stability(table, job.ranker, sizes)
            else:
                result |= measure(RANKERS[job.ranker](table, 0), table)
    except DataError as error:
        return result | {"skipped": str(error)}
    return result | {"seconds": time.process_time() - start}


def read_results(path: Path) -> dict[Job, Result]:
    """Results of earlier runs; the last one of a job counts."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        # A run that was killed may leave half a line.
        with contextlib.suppress(json.JSONDecodeError):
            result = json.loads(line)
            results[Job(*(result[key] for key in Job._fields))] = result
    return results


def run_all(jobs: list[Job], path: Path, n_jobs: int, redo: list[str]) -> list[Result]:
    """Run the jobs that have no result yet, and return the results of all."""
    results = {job: each for job, each in read_results(path).items() if job.ranker not in redo}
    open_jobs = [job for job in jobs if "seconds" not in results.get(job, {})]
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.ranking import run as task

    parallel = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    for k, result in enumerate(parallel(delayed(task)(job) for job in open_jobs), 1):
        job = Job(*(result[key] for key in Job._fields))
        results[job] = result
        print(f"{k}/{len(open_jobs)} {job.table} {job.ranker}", file=sys.stderr)
        if "skipped" not in result:
            with path.open("a") as stream:
                # Not after half a line of a run that was killed.
                stream.write("\n" + json.dumps(result))
    return [results[job] for job in jobs]


def percent(value: float | None, sign: str = "") -> str:
    """Return a share in percent; a dash if there is none."""
    return "–" if value is None else f"{100 * value:{sign}.1f}"


def print_table(*columns: str, rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown, with names in the first two columns."""
    print(f"| {' | '.join(columns)} |\n|---|---|{'--:|' * (len(columns) - 2)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print()


def print_rankings(results: list[Result]) -> None:
    """Print the scores of all rankers, then `schirn` beside the best of the others."""
    depths = [f"P@{head}" for head in HEADS]
    depths += [f"wrong in {100 * depth:.0f}%" for depth in DEPTHS]
    print_table(
        *("table", "ranker", "rows", "labels", "wrong", "AUC", *depths, "AUC, missing", "seconds"),
        rows=(
            [
                *(result["table"], result["ranker"], f"{result['rows']:,}"),
                *(str(result["labels"]), percent(result["wrong"]), percent(result["auc"])),
                # Results of earlier runs have no heads.
                *(percent(result.get(f"P@{head}")) for head in HEADS),
                *(*map(percent, result["precision"]), percent(result["auc_missing"])),
                f"{result['seconds']:.1f}",
            ]
            for result in results
        ),
    )
    for key, what in (("auc", "wrong tags"), ("auc_missing", "missing tags")):
        print_summary(results, key, what)
    print_heads(results)


def print_heads(results: list[Result]) -> None:
    """Print the mean share of wrong tags at the head of every ranking, over all tables."""
    heads: dict[str, list[list[float]]] = {}
    for result in results:
        if all(f"P@{head}" in result for head in HEADS):
            values = [result[f"P@{head}"] for head in HEADS]
            heads.setdefault(result["ranker"], []).append(values)
    for ranker, rows in heads.items():
        means = ", ".join(
            f"{percent(mean)} of the first {head}"
            for head, mean in zip(HEADS, np.mean(rows, axis=0).tolist(), strict=True)
        )
        print(f"- {ranker}: wrong are {means} (mean of {len(rows)} tables)")
    print()


def print_summary(results: list[Result], key: str, what: str) -> None:
    """Print the best other ranker of each table, and how far `schirn` is ahead of it."""
    tables: dict[str, dict[str, float]] = {}
    for result in results:
        if result[key] is not None:
            tables.setdefault(result["table"], {})[result["ranker"]] = result[key]
    lines, differences = [], {}
    for table, scores in tables.items():
        rivals = [name for name in RIVALS if name in scores]
        if "schirn" in scores and rivals:
            best = max(rivals, key=scores.__getitem__)
            differences[table] = scores["schirn"] - scores[best]
            values = (
                percent(scores["schirn"]),
                percent(scores[best]),
                percent(differences[table], "+"),
            )
            lines.append([table, best, *values])
    if not lines:
        return
    print_table(f"AUC of {what}", "best other ranker", "schirn", "best", "difference", rows=lines)
    worst = min(differences, key=differences.__getitem__)
    mean = float(np.mean([*differences.values()]))
    print(
        f"- {_verdict(mean >= MEAN)}: {what}: mean difference "
        f"{percent(mean, '+')} points (at least {percent(MEAN, '+')})\n"
        f"- {_verdict(differences[worst] >= WORST)}: {what}: worst difference "
        f"{percent(differences[worst], '+')} points, on {worst} (at least {percent(WORST, '+')})\n"
    )
    print_groups({name: scores for name, scores in tables.items() if name in differences})


def print_groups(tables: dict[str, dict[str, float]]) -> None:
    """Print how far `schirn` is ahead on texts, vectors and synthetic noise."""
    groups: dict[str, list[dict[str, float]]] = {}
    for name, scores in tables.items():
        is_synthetic = name.partition("_")[0] in ("digits", *UNIFORM)
        kind = "vectors" if name.endswith("_vectors") else "texts"
        groups.setdefault("synthetic noise" if is_synthetic else kind, []).append(scores)
    lines = []
    for kind, members in groups.items():
        for others in (RIVALS, RIVALS[:-1], RIVALS[-1:]):
            if any(name in scores for scores in members for name in others):
                ahead = [
                    scores["schirn"] - max(scores.get(name, 0.0) for name in others)
                    for scores in members
                ]
                values = (percent(float(np.mean(ahead)), "+"), percent(min(ahead), "+"))
                lines.append([kind, ", ".join(others), str(len(members)), *values])
    print_table("tables", "compared with the best of", "number", "mean", "worst", rows=lines)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "FAILS"


def print_stability(results: list[Result], is_quick: bool) -> None:
    """Print the shares of suspicious tags in common."""
    plain, below, above = SIZES[is_quick]
    pairs = (
        *(f"{below:,} and {above:,} rows", f"{plain:,} and {round(1.05 * plain):,} rows"),
        *(f"two seeds, {plain:,} rows", f"two seeds, {above:,} rows"),
    )
    print(f"Share of the {N_SUSPECTS} most suspicious tags in common:\n")
    print_table(
        *("table", "ranker", *pairs, "seconds"),
        rows=(
            [each["table"], each["ranker"], *map(percent, each["shares"]), f"{each['seconds']:.1f}"]
            for each in results
        ),
    )
    shares = [min(each["shares"]) for each in results if each["ranker"] == "schirn"]
    if shares:
        print(
            f"- {_verdict(min(shares) >= STABLE)}: schirn: smallest share {percent(min(shares))} "
            f"(at least {percent(STABLE)})"
        )


# Knobs of titles with swaps; the last two have none, or hardly any.
SWAPS: dict[str, dict[str, Any]] = {
    "swaps": {"confusable": 0.8, "swapped": 0.8},
    "swaps, unstated": {"confusable": 0.8, "swapped": 0.8, "unstated": 0.13},
    "swaps, 100 tags, dropped": {
        **{"confusable": 0.8, "swapped": 0.8, "dropped": 0.08, "rare": 0.7, "n_tags": 100}
    },
    "random wrong tags": {},
    "random wrong tags, dropped": {"dropped": 0.08},
}
SWAP_SEEDS = (11, 12, 13)
N_SWAPS = 100


def pairs_without_counts(ranking: NoisyLabels) -> Swaps:
    """Swaps in the order of both confidences alone, at most one per tag."""
    missing = ranking.missing
    listed, other = pair_by_row(ranking.row, ranking.confidence, missing.row, missing.confidence)
    score = (1 - ranking.confidence[listed]) * missing.confidence[other]
    best = best_pairs(score, listed, other)
    listed, other = listed[best], other[best]
    columns = ranking.column[listed], missing.column[other]
    return Swaps(ranking.row[listed], *columns, score[best], ranking.label_names)


def swap_tables(n_rows: int) -> Iterator[tuple[str, Table, Array | None]]:
    """Tables with the confusable label of each label; None if any two labels may be confused."""
    for name, knobs in SWAPS.items():
        for seed in SWAP_SEEDS:
            made = make_titles(n_rows, random_state=seed, **knobs)
            yield f"{name}, seed {seed}", Table(made.texts, made.listed, made.truth), made.neighbour
    for name in ANNOTATED:
        with contextlib.suppress(DataError):
            yield name, annotated(name).head(n_rows), None


def print_swaps(n_rows: int) -> None:
    """Print the share of true swaps among the surest, with and without counting."""
    lines = []
    for name, table, neighbour in swap_tables(n_rows):
        is_wrong, is_missing = table.listed > table.truth, table.truth > table.listed
        if neighbour is None:
            total = (is_wrong.sum(axis=1) * is_missing.sum(axis=1)).sum()
        else:
            total = (is_missing & is_wrong[:, neighbour] & (neighbour >= 0)).sum()
        ranking = find_noisy_labels(table.X, table.listed)
        cells = [name, f"{total:,}"]
        for swaps in (ranking.swaps(), pairs_without_counts(ranking)):
            row, wrong, right = swaps.row, swaps.wrong_column, swaps.right_column
            is_true = is_wrong[row, wrong] & is_missing[row, right]
            if neighbour is not None:
                is_true &= neighbour[wrong] == right
            first = float(is_true[:N_SWAPS].mean()) if len(is_true) else None
            cells += [percent(first), f"{len(swaps):,}", f"{is_true.sum():,}"]
        lines.append(cells)
    print(f"Share of true swaps among the first {N_SWAPS}, number of swaps and of true ones:\n")
    columns = (f"{what}{how}" for how in ("", ", not counted") for what in ("first", "all", "true"))
    print_table("table", "true swaps", *columns, rows=lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    several = "comma separated, * stands for any characters; default: all of"
    parser.add_argument("--tables", help=f"{several} {', '.join(TABLES)}")
    parser.add_argument("--rankers", default="*", help=f"{several} {', '.join(RANKERS)}")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows of few tables")
    parser.add_argument("--many", action="store_true", help="tables of many texts")
    parser.add_argument("--stability", action="store_true", help="compare the most suspicious tags")
    parser.add_argument("--swaps", action="store_true", help="compare swaps of confused tags")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"results file ({RESULTS})")
    parser.add_argument("--redo", default="", help="rankers to run again, comma separated")
    args = parser.parse_args(arguments)
    if args.swaps:
        print_swaps(QUICK_ROWS if args.quick else 3000)
        return

    def select(patterns: str, names: Iterable[str]) -> list[str]:
        selection = []
        for pattern in patterns.split(","):
            selection += fnmatch.filter(names, pattern)
            if not fnmatch.filter(names, pattern):
                parser.error(f"{pattern!r} is not one of {', '.join(names)}")
        return selection

    default = ",".join(QUICK) if args.quick and not args.stability else "*"
    every = STABILITY_TABLES if args.stability else MANY_TEXTS if args.many else TABLES
    tables = select(args.tables or default, every)
    rankers = select(args.rankers, RANKERS)
    redo = select(args.redo, RANKERS) if args.redo else []
    jobs = [
        Job(args.stability, args.quick, table, ranker) for table in tables for ranker in rankers
    ]
    results = run_all(jobs, args.out, args.jobs, redo)
    for table in dict.fromkeys(each["table"] for each in results if "skipped" in each):
        reason = next(each["skipped"] for each in results if each["table"] == table)
        print(f"Without {table}: {reason}.\n")
    results = [result for result in results if "skipped" not in result]
    if results and args.stability:
        print_stability(results, args.quick)
    elif results:
        print_rankings(results)


if __name__ == "__main__":
    main()
