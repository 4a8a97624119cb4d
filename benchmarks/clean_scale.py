"""Cleaning many rows on a processor: minutes and peak memory, measured by the operating system.

    python -m benchmarks.clean_scale --shape 200000,512,50
    python -m benchmarks.clean_scale --shape 200000,512,50 --map --max-memory 0.5
    python -m benchmarks.clean_scale --series --svg docs/images/clean_growth.svg
    python -m benchmarks.clean_scale --compare --shape 200000,64,30
    python -m benchmarks.clean_scale --compare memory,device --device cuda --shape 200000,64,30
    python -m benchmarks.clean_scale --compare memory,dask --text --shape 50000,0,30
    python -m benchmarks.clean_scale --compare memory,sgd --text --shape 100000,0,500

Every shape runs in a process of its own, which reads the features from an .npy file (`--map` maps
it), calls `find_noisy_labels`, and reports its highest resident size (VmHWM). The series double one
of rows, features and labels at a time. `--compare` cleans one table in several storages, and prints
how far their verdicts and confidences are from those of the first. `--text` cleans product titles
instead of vectors; Dask workers are then two processes, whose peaks are reported as well. `sgd` is
no storage, but what people do without this library: one linear model per tag, trained by stochastic
gradient descent on weights of words and word pairs, in three folds.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import KFold

from benchmarks.ranking import classify
from benchmarks.titles import make_titles
from schirn import find_noisy_labels
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import noise_auc

BASE = {"rows": 12_500, "features": 256, "labels": 50}
SERIES = {
    "rows": (6_250, 12_500, 25_000, 50_000, 100_000),
    "features": (128, 256, 512, 1024),
    "labels": (25, 50, 100, 200),
}
# Rows of a block on Dask workers.
BLOCK_ROWS = 20_000


def main() -> None:
    """Measure one shape, the series, or the difference between storages."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", default="200000,512,50", help="rows, features, labels")
    parser.add_argument("--map", action="store_true", help="map the features instead of reading")
    parser.add_argument("--max-memory", type=float, help="gigabytes, as in find_noisy_labels")
    parser.add_argument("--series", action="store_true")
    parser.add_argument("--svg", help="file of the plot of the series")
    parser.add_argument(
        "--compare", nargs="?", const="memory,blocks,dask",
        help="storages to compare with the first: memory, blocks, dask, device, sgd",
    )  # fmt: skip
    parser.add_argument("--text", action="store_true", help="titles, with --compare memory,dask")
    parser.add_argument("--device", default="cpu", help="PyTorch device of the storage 'device'")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--storage", default="memory", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(measured(args)))
    elif args.compare:
        compare(dict(zip(BASE, map(int, args.shape.split(",")), strict=True)), args)
    elif args.series:
        points = {name: [point({**BASE, name: k}) for k in ks] for name, ks in SERIES.items()}
        if args.svg:
            Path(args.svg).write_text(plot(points), encoding="utf-8")
    else:
        names = dict(zip(BASE, map(int, args.shape.split(",")), strict=True))
        options = ["--map"] * args.map
        options += [] if args.max_memory is None else ["--max-memory", str(args.max_memory)]
        point(names, options)


def point(shape: dict[str, int], options: list[str] | None = None) -> dict[str, Any]:
    """Measure one shape in a process of its own, and print it."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder), **shape)
        command = [sys.executable, "-m", "benchmarks.clean_scale", "--child", folder]
        out = subprocess.run([*command, *(options or [])], check=True, stdout=subprocess.PIPE)
    found = {**shape, **json.loads(out.stdout)}
    print("{rows:>9,} x {features:>5,} x {labels:>4}: {seconds:6.0f} s, {cpu:6.0f} s of CPU time, "
          "peak {peak:.2f} GB, noise AUC {auc:.3f}".format(**found), flush=True)  # fmt: skip
    return found


def compare(shape: dict[str, int], args: argparse.Namespace) -> None:
    """Clean one table in every storage, and print differences from the first."""
    n, l = shape["rows"], shape["labels"]
    # Less than the landmark features of Sieve need.
    gigabytes = {"blocks": n * 1500 / 1e9}
    print(f"{n:,} x {shape['features']} x {l}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        if args.text:
            generate_titles(Path(folder), n, l)
        else:
            generate(Path(folder), **shape)
        first: Any = None
        line = "{seconds:.0f} s, {cpu:.0f} s of CPU time, peak {peak:.2f} GB, "
        line += "noise AUC {auc:.6f}{workers}"
        for storage in args.compare.split(","):
            command = [sys.executable, "-m", "benchmarks.clean_scale", "--child", folder]
            command += ["--storage", storage, "--device", args.device]
            command += ["--max-memory", str(gigabytes[storage])] if storage in gigabytes else []
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE)
            with np.load(Path(folder) / f"{storage}.npz") as stored:
                found = {name: stored[name] for name in stored.files}
            print(f"{storage}: {line.format(**json.loads(out.stdout))}", flush=True)
            if not found:
                continue
            first = first or found
            gap = np.abs(found["confidence"] - first["confidence"])
            order = spearmanr(found["confidence"], first["confidence"]).statistic
            others = np.setxor1d(found["missing"], first["missing"])
            turned = (found["removed"] != first["removed"]).sum()
            print(
                f"    confidences of {len(gap):,} tags differ by at most {gap.max():.1e}, in the "
                f"median {np.median(gap):.1e}, rank correlation {order:.4f}; {turned} "
                f"of {first['removed'].sum():,} removals and {len(others)} of "
                f"{len(first['missing']):,} suggestions differ",
                flush=True,
            )


def generate(folder: Path, rows: int, features: int, labels: int) -> None:
    """Write features, true labels and candidates, block by block."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((features, labels), dtype=np.float32)
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", np.float32, (rows, features))
    truth = np.zeros((rows, labels), dtype=np.uint8)
    for i in range(0, rows, 10_000):
        block = rng.standard_normal((min(10_000, rows - i), features), dtype=np.float32)
        X[i : i + 10_000] = block
        top = np.argpartition(-(block @ W), 3, axis=1)[:, :3]
        np.put_along_axis(truth[i : i + 10_000], top, 1, axis=1)
    X.flush()
    wrong = rng.random((rows, labels), dtype=np.float32) < 5 / (labels - 3)
    np.savez(folder / "labels.npz", truth=truth, candidates=truth | wrong)


def generate_titles(folder: Path, rows: int, labels: int) -> None:
    """Write titles, true tags and listed tags."""
    titles = make_titles(rows, random_state=0, n_tags=labels)
    (folder / "texts.json").write_text(json.dumps(titles.texts), encoding="utf-8")
    np.savez(folder / "labels.npz", truth=titles.truth, candidates=titles.listed)


def measured(args: argparse.Namespace) -> dict[str, Any]:
    """Clean the table in this process and in one storage, and leave the verdicts there."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    folder = Path(args.child)
    is_text, workers_peak = (folder / "texts.json").exists(), ""
    X: Any = None
    if is_text:
        X = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    else:
        X = np.load(folder / "X.npy", mmap_mode="r" if args.map else None)
    with np.load(folder / "labels.npz") as stored:
        truth, candidates = stored["truth"], stored["candidates"]
    with ExitStack() as stack:
        if args.storage == "device":
            import torch

            X = torch.asarray(X, device=args.device)
        elif args.storage == "dask":
            import dask
            import dask.array as da
            from distributed import LocalCluster

            options: dict[str, Any] = {"processes": is_text, "dashboard_address": None}
            workers = LocalCluster(n_workers=2, threads_per_worker=1, **options)
            client = stack.enter_context(stack.enter_context(workers).get_client())
            if is_text:
                starts = range(0, len(X), BLOCK_ROWS)
                X = [dask.delayed(X[i : i + BLOCK_ROWS]) for i in starts]
            else:
                X = da.from_array(X, chunks=(BLOCK_ROWS, -1))
        start = time.perf_counter(), time.process_time()
        if args.storage == "sgd":
            confidence = candidates * sgd_probabilities(X, candidates)
        else:
            ranking = find_noisy_labels(X, candidates, max_memory=args.max_memory)
        seconds, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
        if is_text and args.storage == "dask":
            peaks = client.run(peak_gigabytes).values()
            workers_peak = "; workers " + ", ".join(f"{peak:.2f} GB" for peak in peaks)
    peak = peak_gigabytes()
    columns = {}
    if args.storage != "sgd":
        removed = ranking.remove(below=0.5).removed
        missing = ranking.missing.row * candidates.shape[1] + ranking.missing.column
        columns = {"confidence": ranking.confidence, "removed": removed, "missing": missing}
        confidence = np.zeros(candidates.shape)
        confidence[ranking.row, ranking.column] = ranking.confidence
    np.savez(folder / f"{args.storage}.npz", **columns)
    auc = float(noise_auc(truth, candidates, confidence))
    return {"seconds": seconds, "cpu": cpu, "peak": peak, "auc": auc, "workers": workers_peak}


def sgd_probabilities(texts: list[str], listed: np.ndarray) -> np.ndarray:
    """Probabilities (n, l) by linear models that are trained on the other two folds."""
    X = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(texts)
    P = np.zeros(listed.shape)
    for train, test in KFold(3, shuffle=True, random_state=0).split(P):
        model = SGDClassifier(loss="log_loss", random_state=0)
        P[test] = classify(model, X[train], listed[train], X[test])
    return P


def peak_gigabytes() -> float:
    """Highest resident size of this process."""
    return next(
        int(line.split()[1]) * 1024 / 1e9
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )


def plot(points: dict[str, list[dict[str, Any]]]) -> str:
    """CPU seconds and peak memory against each size, on logarithmic scales, as SVG."""
    width, height, left, top = 230, 150, 60, 30
    parts = []
    for j, (name, series) in enumerate(points.items()):
        for i, (key, label) in enumerate((("cpu", "CPU s"), ("peak", "peak GB"))):
            x0, y0 = left + j * (width + 50), top + i * (height + 60)
            x = np.log2([p[name] for p in series])
            y = np.log2([p[key] for p in series])
            low, high = np.floor(y.min()), np.ceil(y.max())
            px = x0 + (x - x[0]) / (x[-1] - x[0]) * width
            py = y0 + height - (y - low) / max(high - low, 1) * height
            line = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
            parts.append(f'<rect x="{x0}" y="{y0}" width="{width}" height="{height}" class="f"/>')
            parts.append(f'<polyline points="{line}" class="l"/>')
            for a, b, p in zip(px, py, series, strict=True):
                value = f"{p[key]:.0f}" if key == "cpu" else f"{p[key]:.2g}"
                parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3"/>')
                parts.append(f'<text x="{a:.1f}" y="{b - 8:.1f}" class="m">{value}</text>')
                tick = f'<text x="{a:.1f}" y="{y0 + height + 16}" class="m">{p[name]:,}</text>'
                parts.append(tick)
            slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
            title = f"{label} against {name} (last slope {slope:.2f})"
            parts.append(f'<text x="{x0}" y="{y0 - 10}">{title}</text>')
    style = (
        "text{font:12px sans-serif;fill:#333}.m{text-anchor:middle;font-size:11px}"
        ".f{fill:none;stroke:#bbb}.l{fill:none;stroke:#1f6fb4;stroke-width:2}circle{fill:#1f6fb4}"
    )
    size = left + 3 * (width + 50), top + 2 * (height + 60)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]} {size[1]}" role="img">'
        f"<title>Growth of time and memory</title><style>{style}</style>"
        f'<rect width="100%" height="100%" fill="white"/>{"".join(parts)}</svg>\n'
    )


if __name__ == "__main__":
    main()
