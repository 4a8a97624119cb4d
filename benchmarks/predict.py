"""Prediction: streams of texts, batches and single rows, dense features, and the start.

    python -m benchmarks.predict
    python -m benchmarks.predict --rows 20000 --tags 60

A tagger learns from 4,000 product titles. Beside it stands what people use: words and pairs as
tf-idf weights, and one linear model per tag, trained by stochastic gradients. Seconds are processor
time, so that other work on the machine counts less; peaks of memory are those of whole processes.
Sieve computes kernels of many landmarks in single precision; the same in double is beside it.
"""

import argparse
import csv
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from time import process_time
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

import schirn
from benchmarks.titles import Titles, make_titles
from schirn.features import TagPipeline
from schirn.linalg import features

TRAINING, BATCH, SINGLE = 4_000, 4_096, 300
MEASURED = """
import re, sys, time
{run}
peak = re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]
print(time.process_time(), int(peak) / 1024)
"""
RIVAL = """
import csv, pickle
pipeline, names = pickle.load(open(sys.argv[1], "rb"))
with open(sys.argv[2], newline="") as source, open(sys.argv[3], "w", newline="") as target:
    rows = list(csv.DictReader(source))
    out = csv.writer(target)
    out.writerow([*rows[0], "predicted"])
    for row, tags in zip(rows, pipeline.predict([row["title"] for row in rows])):
        out.writerow([*row.values(), ";".join(names[j] for j in tags.nonzero()[0])])
"""
PROGRAM = "from schirn.app.cli import main\nassert main(['predict', *sys.argv[1:], '--quiet']) == 0"


def process(run: str, *argv: str) -> tuple[float, float]:
    """Processor seconds and peak megabytes of a fresh process."""
    command = [sys.executable, "-c", MEASURED.format(run=run), *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds, megabytes = map(float, done.stdout.split()[-2:])
    return seconds, megabytes


def single_rows(predict: Callable[[str], Any], texts: list[str]) -> tuple[float, float]:
    """Median and 99th percentile of the milliseconds for one row."""
    times = []
    for text in texts:
        start = process_time()
        predict(text)
        times.append(1e3 * (process_time() - start))
    return median(times), quantiles(times, n=100)[98]


def batches(predict: Callable[[list[str]], Any], texts: list[str]) -> float:
    """Rows per second in batches."""
    start = process_time()
    for i in range(0, len(texts), BATCH):
        predict(texts[i : i + BATCH])
    return len(texts) / (process_time() - start)


def write(titles: Titles, rows: range, path: Path) -> None:
    """Write titles as a table."""
    with path.open("w", newline="") as stream:
        out = csv.writer(stream)
        out.writerow(["id", "title"])
        out.writerows([i, titles.texts[i]] for i in rows)


def start_up() -> None:
    """Print the time of imports beside that of NumPy."""
    help_page = "import contextlib, io\nfrom schirn.app.cli import main\n"
    help_page += "with contextlib.redirect_stdout(io.StringIO()): main(['--help'])"
    ways = {
        "import numpy": "import numpy",
        "import sklearn.base": "import sklearn.base",
        "import schirn": "import schirn",
        "schirn --help": help_page,
        "from schirn import Sieve": "from schirn import Sieve",
    }
    empty = min(process("pass")[0] for _ in range(3))
    seconds = {name: min(process(run)[0] for _ in range(3)) - empty for name, run in ways.items()}
    print("| start | seconds | times numpy |\n|---|--:|--:|")
    for name, value in seconds.items():
        print(f"| {name} | {value:.2f} | {value / seconds['import numpy']:.1f} |", flush=True)


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=100_000, help="number of titles to tag")
    parser.add_argument("--tags", type=int, default=60)
    args = parser.parse_args()
    titles = make_titles(TRAINING + args.rows, args.tags, typos=0.05, random_state=1)
    new = range(TRAINING, TRAINING + args.rows)
    known, texts = titles.texts[:TRAINING], [titles.texts[i] for i in new]
    tags = [titles.names_of(row) for row in titles.listed[:TRAINING]]
    tagger = TagPipeline(text="title").fit({"title": known}, tags)
    words = TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), dtype=np.float32)
    linear = OneVsRestClassifier(SGDClassifier(loss="log_loss", random_state=0))
    rival = make_pipeline(words, linear).fit(known, titles.listed[:TRAINING])
    truth = titles.truth[new.start :]
    order = [tagger.label_names_.index(name) for name in titles.labels]

    def f1(predicted: np.ndarray) -> float:
        return 200 * float((predicted & truth).sum() / (predicted.sum() + truth.sum()))

    ours = {
        "batch": batches(lambda rows: tagger.predict({"title": rows}), texts),
        "one": single_rows(lambda row: tagger.predict({"title": [row]}), texts[:SINGLE]),
        "f1": f1(tagger.predict({"title": texts}).astype(np.uint8)[:, order]),
    }
    theirs = {
        "batch": batches(rival.predict, texts),
        "one": single_rows(lambda row: rival.predict([row]), texts[:SINGLE]),
        "f1": f1(rival.predict(texts).astype(np.uint8)),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(titles, new, folder / "new.csv")
        write(titles, range(new.start, new.start + 10), folder / "few.csv")
        schirn.save(tagger, folder / "tagger.schirn")
        (folder / "rival.pickle").write_bytes(pickle.dumps((rival, titles.labels)))
        columns = []
        for run, model in ((PROGRAM, "tagger.schirn"), (RIVAL, "rival.pickle")):
            argv = [str(folder / model), str(folder / "new.csv")]
            out = ["-o", str(folder / "out.csv")] if run == PROGRAM else [str(folder / "out.csv")]
            columns.append(process(run, *argv, *out))
        few = process(
            PROGRAM,
            str(folder / "tagger.schirn"),
            str(folder / "few.csv"),
            "-o",
            str(folder / "o.csv"),
        )
    (file_a, memory_a), (file_b, memory_b) = columns
    print(f"{args.rows:,} titles, {args.tags} tags; processor time\n")
    print("| | Sieve tagger | tf-idf + SGD | ratio |\n|---|--:|--:|--:|")
    lines = [
        ("table to table, s", file_a, file_b),
        ("the same, peak MB", memory_a, memory_b),
        ("batches, rows/s", ours["batch"], theirs["batch"]),
        ("one row, p50 ms", ours["one"][0], theirs["one"][0]),
        ("one row, p99 ms", ours["one"][1], theirs["one"][1]),
        ("micro-F1 against the truth", ours["f1"], theirs["f1"]),
    ]
    for label, a, b in lines:
        digits = 0 if max(a, b) >= 100 else 1 if max(a, b) >= 10 else 2
        print(f"| {label} | {a:,.{digits}f} | {b:,.{digits}f} | {a / b:.2f} |")
    print(f"\nTen titles instead: {few[0]:.1f} s, {few[1]:.0f} MB\n", flush=True)
    dense()
    start_up()


def dense(n_rows: int = 20_000, n_labels: int = 20) -> None:
    """Print rows per second for dense features, in single and double precision of landmarks."""
    print("| dense features | Sieve, rows/s | the same in double | logistic regression |")
    print("|--:|--:|--:|--:|")
    for d in (32, 64, 256):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((5_000 + n_rows, d))
        scores = X @ rng.standard_normal((d, n_labels)) / np.sqrt(d)
        candidates = scores + 0.3 * rng.standard_normal(scores.shape) > 1
        candidates[np.arange(len(X)), rng.integers(0, n_labels, len(X))] = True
        known, new = X[:5_000], X[5_000:]
        sieve = schirn.Sieve(random_state=0, max_iter=2).fit(known, candidates[:5_000])
        rival = OneVsRestClassifier(LogisticRegression(max_iter=50))
        rival.fit(known, candidates[:5_000])
        speeds = [best_speed(sieve.predict, new)]
        single, features.SCORE_ERROR = features.SCORE_ERROR, 0.0
        speeds.append(best_speed(sieve.predict, new))
        features.SCORE_ERROR = single
        speeds.append(best_speed(rival.predict, new))
        print(f"| {d} | {' | '.join(f'{speed:,.0f}' for speed in speeds)} |", flush=True)
    print()


def best_speed(predict: Callable[[np.ndarray], Any], X: np.ndarray) -> float:
    """Rows per processor second, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = process_time()
        predict(X)
        best = min(best, process_time() - start)
    return len(X) / best


if __name__ == "__main__":
    main()
