"""Does the 90% interval of the share hold? Coverage and width in whatever order people answer.

    SCHIRN_DATA=folder python -m benchmarks.shares --audits 4

On some tables of `benchmarks.answers`, the truth answers 25 questions that are spread over all
ranks, and then 25 in each round: along the limit of the removals, about the most suspicious tags,
about the tags of one name after the other, or about swaps. The tables show how often the interval
covers the true share, and its mean width, after 50, 100, 200 and 400 answers. With
`--kind missing`, the share is that of the right tags among those ranked as missing. `--removals`
prints what is removed at several targets instead, answered tags not counted; `--seeds 20` how far
the number of removals after 50 answers varies with the seed of the questions.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.answers import Table, tables
from schirn.cleaning import NoisyLabels, Questions
from schirn.exceptions import EmptyCandidatesWarning

Array = np.ndarray

STEP = 25
AT = (50, 100, 200, 400)
ORDERS = ("limit", "suspicious", "tag", "swaps")
TARGETS = (0.9, 0.8, 0.7)
DEFAULT_TABLES = (
    *("titles, 0% wrong, 94% mentioned, 0% silent", "titles, 5% wrong, 98% mentioned, 33% silent"),
    *("titles, 10% wrong, 94% mentioned, 0% silent", "titles, 20% wrong, 90% mentioned, 0% silent"),
    *("titles, 30% wrong, 98% mentioned, 20% silent", "scores, 10% wrong, 2 apart, 5% silent"),
    *("scores, 20% wrong, 3 apart, 0% silent", "scores, 40% wrong, 1 apart, 20% silent"),
    *("crowd_relations", "cmc", "brighter_ron", "brighter_ukr"),
    *("emotions, 3 wrong tags added", "yeast, 3 wrong tags added", "enron, 3 wrong tags added"),
)


def next_questions(ranking: NoisyLabels, order: str, kind: str, seed: int) -> Questions:
    """Questions of the next round in an order; of the first one, spread over all ranks."""
    options: dict[str, Any] = {"kind": kind, "random_state": seed}
    if not ranking.n_answers and not len(_answered(ranking, kind)):
        return ranking.questions(STEP, **options)
    if order == "tag":
        # The name with the most suspicious open tags, until all of its tags have an answer.
        work = ranking.worklist if kind == "listed" else ranking.missing.worklist
        columns = work.column[work.order[:200]]
        if not len(columns):
            return ranking.questions(STEP, **options)
        name = ranking.label_names[int(np.bincount(columns).argmax())]
        return ranking.questions(STEP, tag=name, **options)
    questions = ranking.questions(STEP, order=order, **options)
    # Without a swap left, people go on with the most suspicious tags.
    return questions if len(questions) else ranking.questions(STEP, order="suspicious", **options)


def _answered(ranking: NoisyLabels, kind: str) -> Array:
    work = ranking.worklist if kind == "listed" else ranking.missing.worklist
    return np.asarray(work.answered)


def audits(
    table: Table, order: str, kind: str, seed: int, last: int
) -> Iterator[tuple[int, NoisyLabels]]:
    """Yield the number of answers and the ranking after 50, 100, 200 and 400 of them."""
    ranking = table.ranking
    n_answers = 0
    for step in range(last // STEP):
        asked = next_questions(ranking, order, kind, 1000 * seed + step)
        if not len(asked):
            return
        ranking = ranking.answered(asked, table.truth[asked.row, asked.column] == 1)
        n_answers += STEP
        if n_answers in AT:
            yield n_answers, ranking


def share_of(table: Table, ranking: NoisyLabels, kind: str) -> tuple[float, tuple[float, float]]:
    """The true share, and the interval."""
    if kind == "missing":
        missing = ranking.missing
        share = (table.truth[missing.row, missing.column] == 1).mean()
        return float(share), missing.right_share_interval
    judged = ranking.judged
    share = (table.truth[ranking.row, ranking.column] == 0)[judged].mean()
    return float(share), ranking.wrong_share_interval


def coverage(chosen: list[Table], n_audits: int, kind: str, orders: list[str], last: int) -> None:
    """Print coverage and width of the interval."""
    totals: dict[tuple[str, int], list[tuple[bool, float]]] = {}
    for table in chosen:
        start = time.perf_counter()
        cells = []
        for order in orders:
            by_number: dict[int, list[tuple[bool, float]]] = {}
            for seed in range(n_audits):
                for n_answers, ranking in audits(table, order, kind, seed, last):
                    share, (low, high) = share_of(table, ranking, kind)
                    result = (low - 1e-9 <= share <= high + 1e-9, high - low)
                    by_number.setdefault(n_answers, []).append(result)
                    totals.setdefault((order, n_answers), []).append(result)
            values = (np.mean(results, axis=0) for results in by_number.values())
            cells.append(order + " " + ", ".join(f"{c:.2f}/{w:.2f}" for c, w in values))
        seconds = time.perf_counter() - start
        print(f"- {table.name} ({seconds:.0f} s): {'; '.join(cells)}", flush=True)
    print("\n| order | answers | covered | mean width | audits |\n|---|--:|--:|--:|--:|")
    for (order, n_answers), results in sorted(totals.items()):
        covered, width = np.mean(results, axis=0)
        print(f"| {order} | {n_answers} | {covered:.3f} | {width:.3f} | {len(results)} |")


def removals(chosen: list[Table], n_audits: int, last: int) -> None:
    """Print what is removed at several targets, without the answered tags."""
    lines: dict[tuple[int, float], list[tuple[float, float]]] = {}
    for table in chosen:
        for seed in range(n_audits):
            for n_answers, ranking in audits(table, "limit", "listed", seed, last):
                is_wrong = table.truth[ranking.row, ranking.column] == 0
                unasked = np.isnan(ranking.answer)
                for target in TARGETS:
                    removed = ranking.at(precision=target).removed & unasked
                    precision = is_wrong[removed].mean() if removed.any() else np.nan
                    recall = (is_wrong & removed).sum() / max(int((is_wrong & unasked).sum()), 1)
                    lines.setdefault((n_answers, target), []).append((precision, recall))
        print(f"- {table.name}", flush=True)
    columns = ("answers", "target", "precision", "audits that remove", "far below in %", "of all")
    print(f"\n| {' | '.join(columns)} | recall |\n{'|--:' * 7}|")
    for (n_answers, target), results in sorted(lines.items()):
        precision, recall = np.array(results).T
        acts = ~np.isnan(precision)
        mean = precision[acts].mean() if acts.any() else np.nan
        is_far = precision[acts] < target - 0.1
        below = f"{100 * is_far.sum() / max(acts.sum(), 1):.1f}"
        of_all = f"{100 * is_far.sum() / len(acts):.1f}"
        cells = (f"{mean:.3f}", f"{acts.mean():.2f}", below, of_all, f"{recall.mean():.3f}")
        print(f"| {n_answers} | {target} | {' | '.join(cells)} |")


def steadiness(chosen: list[Table], n_seeds: int) -> None:
    """Print how far the number of removals varies with the seed."""
    print("| table | target | fewest | quarter | median | three quarters | most |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    spreads: dict[float, list[float]] = {target: [] for target in TARGETS}
    for table in chosen:
        counts: dict[float, list[int]] = {target: [] for target in TARGETS}
        for seed in range(n_seeds):
            *_, (_, ranking) = audits(table, "limit", "listed", seed, 50)
            for target in TARGETS:
                counts[target].append(int(ranking.at(precision=target).removed.sum()))
        for target, values in counts.items():
            cells = " | ".join(f"{q:.0f}" for q in np.quantile(values, [0, 0.25, 0.5, 0.75, 1]))
            print(f"| {table.name} | {target} | {cells} |", flush=True)
            spreads[target].append(float(np.std(values) / max(np.mean(values), 1)))
    for target, values in spreads.items():
        print(f"Target {target}: standard deviation / mean {np.mean(values):.3f}, mean over tables")


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=4)
    parser.add_argument("--kinds", default="scores,titles,real", help="kinds of tables")
    parser.add_argument("--every", action="store_true", help="all tables, not a selection")
    parser.add_argument("--kind", choices=("listed", "missing"), default="listed")
    parser.add_argument("--orders", default=",".join(ORDERS))
    parser.add_argument("--answers", type=int, default=AT[-1])
    parser.add_argument("--removals", action="store_true")
    parser.add_argument("--seeds", type=int)
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    wanted = None if args.every else DEFAULT_TABLES
    with threadpool_limits(1):
        chosen: Any = tables(args.kinds.split(","), wanted)
        if args.kind == "missing":
            chosen = (table for table in chosen if len(table.ranking.missing))
        if args.seeds:
            steadiness(chosen, args.seeds)
        elif args.removals:
            removals(chosen, args.audits, args.answers)
        else:
            coverage(chosen, args.audits, args.kind, args.orders.split(","), args.answers)


if __name__ == "__main__":
    main()
