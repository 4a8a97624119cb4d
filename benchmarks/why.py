"""Are explanations faithful? Take the named words out of a row and ask Sieve again.

    SCHIRN_DATA=folder python -m benchmarks.why
    python -m benchmarks.why --debian --rows 3000   # needs apt; --fetch downloads whole texts

Wrong tags are added and all tags are judged. Of the removals, a hundred are drawn at random. For
each, the words that speak most against the tag are taken out of its row (numbers are set to their
mean), and Sieve, trained without these rows, scores the tag before and after. The same number of
random words of the row, five times, and the same number of words with the largest weights are what
it must be compared with.
"""

import argparse
import importlib.util
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn import Sieve, find_noisy_labels
from schirn.datasets import add_noise, load
from schirn.features import TextFeatures
from schirn.labels.matrix import as_labels

SETS = (("medical", 3), ("enron", 3), ("bibtex", 3), ("emotions", 2), ("scene", 1))
CELLS, DRAWS = 100, 5
EXAMPLE = Path(__file__).parents[1] / "examples" / "debian_tags.py"


def without(X: Any, row: int, out: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """A row of X without some of its features, as a dense vector."""
    z = X[[row]].toarray()[0] if sp.issparse(X) else X[row].copy()
    z[out] = 0 if sp.issparse(X) else mean[out]
    return z


def measure(X: Any, C: np.ndarray, n_words: int, text: bool) -> dict[str, float]:
    """What taking words out of the rows of removed tags does to the scores of Sieve."""
    rng = np.random.default_rng(0)
    options = {"features": "none"} if text else {}
    ranking = find_noisy_labels(X, C, method=Sieve(**options)).remove(below=0.5)
    removed = np.flatnonzero(ranking.removed)
    asked = rng.choice(removed, min(CELLS, len(removed)), replace=False)
    rows, columns = ranking.row[asked], ranking.column[asked]
    rest = np.setdiff1d(np.arange(ranking.n_rows), rows)
    model = Sieve(**options).fit(X[rest], C[rest])
    start = time.perf_counter()
    reasons = ranking.reasons(X, feature_names=[f"x{j}" for j in range(X.shape[1])])
    prepared = time.perf_counter()
    whys = reasons.explain_all(zip(rows.tolist(), columns.tolist(), strict=True))
    done = time.perf_counter()
    mean = np.asarray(X.mean(axis=0)).ravel()
    changed, owner, kind = [], [], []
    for k, (row, why) in enumerate(zip(rows, whys, strict=True)):
        against = [int(word.name[1:]) for word in why.words if word.contribution < 0][:n_words]
        own = X[[row]].indices if sp.issparse(X) else np.arange(X.shape[1])
        own = own[own >= 0]
        size = np.abs(without(X, row, np.zeros(0, dtype=int), mean))
        if not sp.issparse(X):
            size = np.abs(X[row] - mean) / np.maximum(X.std(axis=0), 1e-12)
        heavy = own[np.argsort(-size[own], kind="stable")][: len(against)]
        draws = [rng.choice(own, len(against), replace=False) for _ in range(DRAWS)]
        for name, out in (("before", []), ("named", against), ("heavy", heavy)):
            changed.append(without(X, row, np.asarray(out, dtype=int), mean))
            owner.append(k)
            kind.append(name)
        for out in draws:
            changed.append(without(X, row, out, mean))
            owner.append(k)
            kind.append("random")
    Z = np.array(changed)
    if text:
        Z /= np.maximum(np.linalg.norm(Z, axis=1, keepdims=True), 1e-12)
    owners, kinds = np.array(owner), np.array(kind)
    scores = model.decision_function(sp.csr_array(Z) if sp.issparse(X) else Z)
    score = scores[np.arange(len(Z)), columns[owners]]
    before = score[kinds == "before"]
    change = {name: score[kinds == name] - before for name in ("named", "heavy")}
    change["random"] = score[kinds == "random"].reshape(-1, DRAWS).mean(axis=1) - before
    return {
        **{name: float(values.mean()) for name, values in change.items()},
        "above_random": float(np.mean(change["named"] > change["random"])),
        "above_heavy": float(np.mean(change["named"] > change["heavy"])),
        "prepare": prepared - start,
        "each": (done - prepared) / len(asked),
    }


def debian(n: int | None, fetch: bool) -> tuple[Any, np.ndarray]:
    """Features and tags of Debian's packages, one tag of each wrong."""
    spec = importlib.util.spec_from_file_location("debian_tags", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with tempfile.TemporaryDirectory() as name:
        if fetch:
            Path(name, "lists", "partial").mkdir(parents=True)
            example.apt(["apt-get", "update"], name)
        rows = example.sample(example.packages(name if fetch else None), n)
    rows = example.with_wrong_tags(rows)
    # Without character sequences: a word that is taken out must be gone.
    texts = [f"{row['name']} {row['description']}" for row in rows]
    X = TextFeatures(max_characters=0).fit_transform(texts)
    return X, as_labels([row["tags"] for row in rows]).matrix


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000, help="rows of each set (default: 3000)")
    parser.add_argument("--words", type=int, default=3, help="words to take out (default: 3)")
    parser.add_argument("--debian", action="store_true", help="Debian's packages only")
    parser.add_argument("--fetch", action="store_true", help="download the package lists")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"| data | rows | {args.words} named | random | heaviest | named > random |", end=" ")
    print("named > heaviest | prepare, s | each, s |")
    print("|---" + "|--:" * 8 + "|", flush=True)
    names = () if args.debian or not os.environ.get("SCHIRN_DATA") else SETS
    for name, r in names or (("Debian", 1),):
        if name == "Debian":
            X, C = debian(args.rows, args.fetch)
        else:
            data = load(name)
            few = np.random.default_rng(0).permutation(len(data.y_true))[: args.rows]
            X, C = data.X[np.sort(few)], add_noise(data.y_true[np.sort(few)], r, random_state=0)
        got = measure(X, np.asarray(C), args.words, text=name == "Debian")
        values = [f"{got[key]:+.2f}" for key in ("named", "random", "heavy")]
        values += [f"{got[key]:.0%}" for key in ("above_random", "above_heavy")]
        values += [f"{got['prepare']:.2f}", f"{got['each']:.3f}"]
        print(f"| {name} | {X.shape[0]:,} | {' | '.join(values)} |", flush=True)


if __name__ == "__main__":
    main()
