"""Votes of three workers on relations in sentences: votes, features, and both.

    SCHIRN_DATA=folder python -m benchmarks.votes --jobs 2

`crowd_relations.npz` holds about 15 judgments for each of 1,601 sentences. Each draw takes three
workers per sentence at random: the candidates are what any of them chose, a label is true if at
least half of the *other* workers chose it. Features are tf-idf weights of words and word pairs.
AUC, claimed share, precision and recall are computed over the candidates.
"""

import argparse
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from schirn import Sieve
from schirn.datasets import read_npz
from schirn.labels.votes import Votes
from schirn.metrics import noise_report
from schirn.noise.votes import vote_model

WORKERS = 3
FILE = "crowd_relations.npz"


class Draw(NamedTuple):
    """Features, votes of three workers per sentence, and the labels true by the others."""

    X: Any
    votes: Votes
    truth: np.ndarray


def draw(path: Path, seed: int, workers: int = WORKERS) -> Draw:
    """Take some workers per sentence at random; the others tell the truth."""
    data = read_npz(path, workers=workers, random_state=seed)
    columns = [data.label_names.index(name) for name in data.votes.label_names]
    return Draw(data.X, data.votes, data.y_true[:, columns])


def claimed(model: Sieve, C: np.ndarray) -> float:
    """Share of the candidates that the confidences call wrong."""
    return float(1 - model.label_confidence_[C == 1].mean())


def confidences(data: Draw) -> dict[str, tuple[np.ndarray, float | None]]:
    """Confidence of every candidate by each way to judge, and the share that it calls wrong."""
    X, votes, _ = data
    C, counts, voters = votes.candidates, votes.counts, votes.voters
    said = vote_model(counts, voters).posterior
    features = Sieve().fit(X, C)
    joined = Sieve().fit(X, C, votes=(counts, voters))
    named = Sieve().fit(X, C, label_names=votes.label_names, votes=votes)
    return {
        "vote counts": (counts / np.maximum(voters, 1)[:, None], None),
        "vote model": (said, float(1 - said[C == 1].mean())),
        "features": (features.label_confidence_, claimed(features, C)),
        "votes and features": (joined.label_confidence_, claimed(joined, C)),
        "votes with identities and features": (named.label_confidence_, claimed(named, C)),
    }


def measure(path: Path, seed: int) -> dict[str, dict[str, float]]:
    """Scores of all ways to judge in one draw."""
    data = draw(path, seed)
    C, T = data.votes.candidates, data.truth
    share = float((C * (1 - T)).sum() / C.sum())
    found = {}
    with threadpool_limits(1):
        for name, (confidence, claimed) in confidences(data).items():
            wrong = (C == 1) & (confidence < 0.5)
            report = noise_report(T, C, wrong, confidence * C)
            claim = np.nan if claimed is None else claimed
            found[name] = {**report, "claimed": claim, "true": share}
    return found


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--draws", type=int, default=10)
    args = parser.parse_args()
    path = Path(os.environ.get("SCHIRN_DATA", "")) / FILE
    if not path.exists():
        print(f"{FILE} is not in the folder SCHIRN_DATA; nothing is measured.")
        return
    # By its module path, so that workers import it instead of unpacking this script.
    from benchmarks.votes import measure as job

    draws = Parallel(n_jobs=args.jobs)(delayed(job)(path, seed) for seed in range(args.draws))
    keys = ("auc", "claimed", "true", "precision", "recall")
    print("| judged by | AUC | claimed | truly wrong | precision | recall |")
    print("|---|" + "--:|" * len(keys))
    for name in draws[0]:
        cells = []
        for key in keys:
            values = np.array([found[name][key] for found in draws])
            mean = f"{100 * values.mean():.1f}"
            # The spread over the draws says how much of a difference is luck.
            cells.append("–" if np.isnan(values).all() else f"{mean} ± {100 * values.std():.1f}")
        print(f"| {name} | {' | '.join(cells)} |")
    best = draws[0].keys() - {"vote counts", "vote model", "features"}
    aucs = {name: np.mean([found[name]["auc"] for found in draws]) for name in best}
    far = {
        name: abs(np.mean([found[name]["claimed"] - found[name]["true"] for found in draws]))
        for name in best
    }
    print()
    for name in sorted(best):
        holds = aucs[name] >= 0.86 and far[name] <= 0.12
        print(
            f"- {'holds' if holds else 'FAILS'}: {name}: AUC at least 86 and claimed share "
            f"within 12 points ({100 * aucs[name]:.1f}, {100 * far[name]:.1f})"
        )


if __name__ == "__main__":
    main()
