"""What a second rater's opinion is worth, and what a voice costs that answers at random.

    SCHIRN_DATA=folder python -m benchmarks.opinions --seeds 3

On data sets of several raters, one rater per row gives the tags, another one the opinion (yes or no
about each cell of the row), and the others the truth. Printed are the AUC of right against wrong
tags and the share of wrong ones among the 200 most suspicious: without opinions, with the second
rater, and with a voice that says yes as often, but at random; without answers, and among the tags
without an answer after fifty answers.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

from benchmarks.ranking_tables import ANNOTATED
from schirn import find_noisy_labels
from schirn.cleaning import NoisyLabels

Array = np.ndarray

WAYS = ("none", "second rater", "at random")


def table(name: str, seed: int) -> tuple[list[str], Array, Array, Array]:
    """Texts, tags of one rater, opinions of a second one, and the truth by the others."""
    data: Any = np.load(Path(os.environ["SCHIRN_DATA"], f"{name}.npz"))
    texts = [str(text) for text in data["texts"]]
    shape = (len(texts), len(data["label_names"]))
    rng = np.random.default_rng(seed)
    votes: dict[tuple[int, int], list[int]] = {}
    for row, worker, column in data["votes"].tolist():
        votes.setdefault((row, worker), []).append(column)
    workers: dict[int, list[int]] = {}
    for row, worker in data["asked"].tolist():
        workers.setdefault(row, []).append(worker)
    listed = np.zeros(shape, dtype=np.uint8)
    opinion = np.full(shape, np.nan)
    share = np.zeros(shape)
    for row, names in workers.items():
        first, second, *others = rng.permutation(sorted(set(names))).tolist() + [None] * 2
        others = [worker for worker in others if worker is not None]
        if second is None or not others:
            continue
        listed[row, votes.get((row, first), [])] = 1
        opinion[row] = 0
        opinion[row, votes.get((row, second), [])] = 1
        for worker in others:
            share[row, votes.get((row, worker), [])] += 1 / len(others)
    rows = np.flatnonzero(listed.any(axis=1))
    truth = share >= min(ANNOTATED[name], 0.5)
    return [texts[i] for i in rows], listed[rows], opinion[rows], truth[rows]


def quality(ranking: NoisyLabels, truth: Array) -> tuple[float, float]:
    """AUC of the open tags, in percent, and the share of wrong ones among 200 suspects."""
    work = ranking.worklist
    right = truth[ranking.row, ranking.column]
    auc = 100 * roc_auc_score(right[work.order], work.normal_score[work.order])
    return float(auc), float((~right[work.order[:200]]).mean())


def main() -> None:
    """Print one line per data set and voice."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--names", default=",".join(ANNOTATED))
    args = parser.parse_args()
    print("| data set | voice | weight | AUC | wrong of 200 | AUC, 50 answers | wrong of 200 |")
    print("|---|---|--:|--:|--:|--:|--:|")
    totals: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    with threadpool_limits(1):
        for name in args.names.split(","):
            results: dict[str, list[list[float]]] = {way: [] for way in WAYS}
            for seed in range(args.seeds):
                for way, values in measure(name, seed).items():
                    results[way].append(values)
            for way, lines in results.items():
                totals[way] += lines
                _print(name, way, lines)
    for way, lines in totals.items():
        _print("**mean**", way, lines)


def measure(name: str, seed: int) -> dict[str, list[float]]:
    """Weight, and quality without and with answers, for every voice."""
    texts, listed, opinion, truth = table(name, seed)
    ranking = find_noisy_labels(texts, listed)
    rng = np.random.default_rng(seed)
    at_random = np.where(np.isnan(opinion), np.nan, rng.permuted(opinion, axis=0))
    voices = {"none": None, "second rater": opinion, "at random": at_random}
    results = {}
    for way, voice in voices.items():
        heard = ranking if voice is None else ranking.with_opinions(voice)
        weight = heard.voices()[0].weight if heard.voices() else np.nan
        after = heard
        for step in range(2):
            asked = after.questions(25, random_state=10 * seed + step)
            after = after.answered(asked, truth[asked.row, asked.column])
        results[way] = [weight, *quality(heard, truth), *quality(after, truth)]
    return results


def _print(name: str, way: str, lines: list[list[float]]) -> None:
    weight, auc, wrong, later_auc, later_wrong = np.mean(lines, axis=0)
    values = f"{weight:.2f} | {auc:.1f} | {wrong:.2f} | {later_auc:.1f} | {later_wrong:.2f}"
    print(f"| {name} | {way} | {values} |", flush=True)


if __name__ == "__main__":
    main()
