"""Networks trained on candidates: average precision of every loss, between two references.

    SCHIRN_DATA=folder python -m benchmarks.deep --jobs 2 --output deep-results.jsonl

Each of five seeds determines the split (30% test rows), the noise if the data set has none of its
own, and the initial weights. True labels are used for scoring and by "truth" only. "candidates"
and "truth" are cross-entropy by `DeepSieve(estimate_noise=False)` on the candidates and on the true
labels: the same network, folds and early stopping as DeepSieve. Gap closed = (x -
candidates)/(truth - candidates), per seed. The single-network losses share one plain training
loop, which holds out a tenth of the rows and stops early by the average precision on their
candidates. Results are appended to the output file; a second run resumes where the first one
stopped.
"""

import argparse
import json
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from schirn import Sieve
from schirn.datasets import add_noise, load, load_digits_attributes
from schirn.deep import DeepSieve, PartialMultiLabelLoss, SieveHead
from schirn.exceptions import EmptyCandidatesWarning
from schirn.lab.rivals.losses import GeneralizedCrossEntropy
from schirn.metrics import average_precision, noise_report

SETTINGS: list[tuple[str, int | None]] = [
    ("birds", 3),
    ("scene", 3),
    ("digits", 3),
    ("yeastmf", None),
]
# Maximum number of epochs.
EPOCHS = {"birds": 80, "scene": 80, "digits": 40, "yeastmf": 40}
SINGLE = ("BCE", "GCE", "PartialMultiLabelLoss", "SieveHead")
MODELS = ("candidates", *SINGLE, "Sieve", "DeepSieve", "truth")


def rows_of(name: str, r: int | None, seed: int) -> tuple[np.ndarray, ...]:
    """Features, candidates and truth of the training rows; features and truth of the test rows."""
    if name == "digits":
        data = load_digits_attributes(r=r, random_state=seed)
        X, C = data.X / 16, data.candidates
    else:
        data = load(name)
        X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
        C = data.candidates if r is None else add_noise(data.y_true, r, random_state=seed)
    train, test = train_test_split(np.arange(len(X)), test_size=0.3, random_state=seed)
    T = data.y_true
    return X[train].astype(np.float32), C[train], T[train], X[test].astype(np.float32), T[test]


def convnet() -> nn.Module:
    """A small convolutional backbone for 8 x 8 images."""
    layers: list[nn.Module] = []
    for channels, out in ((1, 32), (32, 64)):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    dense = [nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*layers, nn.Flatten(), *dense)


def estimator(name: str, seed: int, **options: Any) -> DeepSieve:
    """DeepSieve with a network for this data set."""
    torch.manual_seed(seed)
    if name == "digits":
        options |= {"module": convnet(), "input_shape": (1, 8, 8), "scale": "none"}
        options |= {"batch_size": 64, "learning_rate": 3e-3}
    return DeepSieve(random_state=seed, **options)


def single(name: str, loss: str, rows: tuple[np.ndarray, ...], seed: int) -> Any:
    """Test scores of a single network, trained with the named loss in a plain loop."""
    X, C, _, X_test, _ = rows
    base = estimator(name, seed)
    base._start(X, C.shape[1])
    # Backbone, averaging of weights and optimiser are those of DeepSieve.
    learner = base._learner(0)
    source, test = base._rows(X), base._rows(X_test)
    order = np.random.default_rng(seed).permutation(len(X))
    held, train = order[: len(X) // 10], np.sort(order[len(X) // 10 :])
    candidates = torch.as_tensor(C.astype(np.float32))
    step, end = make_loss(loss, base._n_hidden, candidates[torch.as_tensor(train)], learner)
    position = np.full(len(X), -1)
    position[train] = np.arange(len(train))
    best, stale, kept = -1.0, 0, None
    for epoch in range(EPOCHS[name]):
        rng = np.random.default_rng([seed, epoch])
        torch.manual_seed(1000 * seed + epoch)
        learner.network.train()
        for batch in np.array_split(rng.permutation(train), max(1, len(train) // base.batch_size)):
            features, logits = learner.network(source[batch])
            index = torch.as_tensor(position[batch])
            value = step(features, logits, candidates[torch.as_tensor(batch)], index)
            learner.adam.zero_grad()
            value.backward()
            learner.adam.step()
            learner._average()
        end()
        _, logits = learner.outputs(source, held)
        score = average_precision(C[held], logits.numpy())
        if score > best:
            best, stale = score, 0
            kept = learner.outputs(test, np.arange(len(X_test)))[1].numpy()
        elif (stale := stale + 1) >= base.n_iter_no_change:
            break
    return kept


def make_loss(
    name: str, n_hidden: int, candidates: torch.Tensor, learner: Any
) -> tuple[Callable[..., torch.Tensor], Callable[[], None]]:
    """The loss as a function of (features, logits, candidates, rows), and an end-of-epoch hook."""
    n, l = candidates.shape
    if name == "SieveHead":
        head = SieveHead(n_hidden, l, n)
        head.linear = learner.network.linear
        return lambda f, z, c, i: head.loss(f, c, i), head.end_epoch
    made: Any = {
        "BCE": lambda: lambda z, c, i: binary_cross_entropy_with_logits(z, c),
        "GCE": GeneralizedCrossEntropy,
        "PartialMultiLabelLoss": lambda: PartialMultiLabelLoss(n, l),
    }[name]()
    return lambda f, z, c, i: made(z, c, i), lambda: None


def run_one(name: str, r: int | None, seed: int, model: str) -> dict[str, Any]:
    """Result of one model on one split of the rows."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    torch.set_num_threads(1)
    rows = rows_of(name, r, seed)
    X, C, T, X_test, T_test = rows
    start = time.process_time()
    row: dict[str, Any] = {"dataset": name, "r": r, "seed": seed, "model": model}
    if model in SINGLE:
        scores = single(name, model, rows, seed)
    elif model == "Sieve":
        fitted = Sieve().fit(X.astype(np.float64), C)
        scores = fitted.decision_function(X_test.astype(np.float64))
    else:
        trust = 0 if model in ("candidates", "truth") else None
        deep = estimator(name, seed, max_iter=EPOCHS[name], estimate_noise=trust)
        fitted = deep.fit(X, T if model == "truth" else C)
        scores = fitted.decision_function(X_test)
        row["epoch"] = fitted.best_iter_
    if model in ("DeepSieve", "Sieve"):
        report = noise_report(T, C, fitted.noise_, fitted.label_confidence_)
        row["noise_auc"] = report["auc"]
    row["average_precision"] = float(average_precision(T_test, scores))
    row["seconds"] = time.process_time() - start
    return row


def print_tables(results: list[dict[str, Any]]) -> None:
    """Print Markdown tables of all results."""
    cells: dict[Any, dict[int, dict[str, Any]]] = defaultdict(dict)
    for row in results:
        cells[row["dataset"], row["r"], row["model"]][row["seed"]] = row
    print("\n| data | r | model | seeds | average precision (%) | gap closed | noise AUC (%) | s |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for name, r in dict.fromkeys((row["dataset"], row["r"]) for row in results):
        low, high = (cells[name, r, key] for key in ("candidates", "truth"))
        for model in MODELS:
            found = cells[name, r, model]
            if not found:
                continue
            ap = np.array([row["average_precision"] for row in found.values()])
            gaps = [gap(found[s], low[s], high[s]) for s in found if s in low and s in high]
            ends = model in ("candidates", "truth")
            closed = "" if ends or not gaps else f"{np.mean(gaps):.2f} ± {np.std(gaps):.2f}"
            auc = [row["noise_auc"] for row in found.values() if "noise_auc" in row]
            seconds = np.mean([row["seconds"] for row in found.values()])
            print(
                f"| {name} | {r or ''} | {model} | {len(ap)} | "
                f"{100 * ap.mean():.1f} ± {100 * ap.std():.1f} | {closed} | "
                f"{f'{100 * np.mean(auc):.1f}' if auc else ''} | {seconds:.0f} |"
            )
    print_order(cells)


def gap(row: dict[str, Any], low: dict[str, Any], high: dict[str, Any]) -> float:
    """Fraction of the gap between candidates and truth that is closed."""
    x, c, t = (cell["average_precision"] for cell in (row, low, high))
    return float((x - c) / (t - c))


def print_order(cells: dict[Any, dict[int, dict[str, Any]]]) -> None:
    """Print for how many seeds DeepSieve lies between its references."""
    print()
    for name, r in dict.fromkeys((name, r) for name, r, _ in list(cells)):
        three = [cells[name, r, key] for key in ("candidates", "DeepSieve", "truth")]
        seeds = set(three[0]) & set(three[1]) & set(three[2])
        values = [[results[s]["average_precision"] for results in three] for s in sorted(seeds)]
        between = sum(c < x < t for c, x, t in values)
        print(f"{name}: candidates < DeepSieve < truth on {between} of {len(values)} seeds")


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("deep-results.jsonl"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="comma-separated data sets")
    parser.add_argument("--models", default="", help="semicolon-separated models")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else [name for name, _ in SETTINGS]
    models = args.models.split(";") if args.models else list(MODELS)
    done = []
    if args.output.exists():
        done = [json.loads(line) for line in args.output.read_text().splitlines()]
    finished = {(row["dataset"], row["seed"], row["model"]) for row in done}
    cells = [
        (name, r, seed, model)
        for name, r in SETTINGS
        for seed in range(args.seeds)
        for model in models
        if name in names and (name, seed, model) not in finished
    ]
    # The main results come first, in case the run is interrupted.
    main_models = ("DeepSieve", "candidates", "truth")
    cells.sort(key=lambda cell: cell[3] not in main_models)
    # Imported by its module path, so that workers import it too instead of unpickling it.
    from benchmarks.deep import run_one as task

    jobs = (delayed(task)(*cell) for cell in cells)
    with args.output.open("a") as file:
        for row in Parallel(n_jobs=args.jobs, return_as="generator_unordered")(jobs):
            file.write(json.dumps(row) + "\n")
            file.flush()
            done.append(row)
    print_tables(done)


if __name__ == "__main__":
    main()
