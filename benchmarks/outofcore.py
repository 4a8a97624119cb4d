"""Schirn on rows in a file and in memory: time, and peak memory compared with the promised peak.

python -m benchmarks.outofcore --rows 200000 --features 300 --labels 50 --block-rows 20000

Every fit runs in its own process, so that peak memory is that of one fit.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import peak_gigabytes
from schirn import Schirn
from schirn.exceptions import EmptyCandidatesWarning
from schirn.scale import RowFile

_BLOCK = 10_000


def write_data(folder: Path, n: int, d: int, l: int, dtype: str) -> None:
    """Write random rows and candidates, block by block."""
    rng = np.random.default_rng(0)
    W = rng.normal(size=(d, l)) / np.sqrt(d)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=dtype, shape=(n, d))
    listed = []
    for i in range(0, n, _BLOCK):
        rows = rng.normal(size=(min(_BLOCK, n - i), d))
        X[i : i + _BLOCK] = rows
        candidates = (rows @ W > 1.5) | (rng.random((len(rows), l)) < 0.03)
        listed.append(sp.csr_array(candidates.astype(np.uint8)))
    X.flush()
    sp.save_npz(folder / "Y.npz", sp.vstack(listed, format="csr"))


def measure(folder: Path, block_rows: int, rounds: int) -> None:
    """Fit with blocks of `block_rows` rows (0: in memory), and print time and memory as JSON."""
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    Y = sp.csr_array(sp.load_npz(folder / "Y.npz"))
    model = Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=rounds)
    # Libraries are loaded on first use, which should not count.
    warm = RowFile(np.eye(4), block_rows=2)
    Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=2).fit(warm, np.eye(4))
    before = _resident()
    start = time.perf_counter()
    if block_rows:
        model.fit(RowFile(folder / "X.npy", block_rows=block_rows, scratch=folder), Y)
    else:
        model.fit(np.load(folder / "X.npy"), Y)
    seconds = time.perf_counter() - start
    peak = 1e9 * peak_gigabytes() - before
    np.save(folder / f"coef{block_rows}.npy", model.coef_)
    print(json.dumps({"seconds": seconds, "peak": peak}))


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def main() -> None:
    """Run both variants alternately, each in its own process, and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--features", type=int, default=300)
    parser.add_argument("--labels", type=int, default=50)
    parser.add_argument("--block-rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument(
        "--scratch", help="folder for the data (default: the temporary folder of the system)"
    )
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        measure(Path(args.child[0]), int(args.child[1]), args.rounds)
        return
    with tempfile.TemporaryDirectory(dir=args.scratch) as name:
        folder = Path(name)
        write_data(folder, args.rows, args.features, args.labels, args.dtype)
        runs: dict[int, list[dict[str, float]]] = {0: [], args.block_rows: []}
        for _ in range(args.repeats):
            for block_rows, found in runs.items():
                found.append(_run(folder, block_rows, args.rounds))
        _report(args, folder, runs)


def _run(folder: Path, block_rows: int, rounds: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.outofcore", "--rounds", str(rounds)]
    done = subprocess.run(
        [*command, "--child", str(folder), str(block_rows)],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)


def _report(
    args: argparse.Namespace, folder: Path, runs: dict[int, list[dict[str, float]]]
) -> None:
    n, d, l, block_rows = args.rows, args.features, args.labels, args.block_rows
    memory, files = (
        {key: min(run[key] for run in found) for key in ("seconds", "peak")}
        for found in runs.values()
    )
    coef = [np.load(folder / f"coef{k}.npy") for k in runs]
    size = np.dtype(args.dtype).itemsize
    print(f"{n} x {d} {args.dtype} ({n * d * size / 1e6:.0f} MB), {l} labels, {args.rounds} rounds")
    print(f"in memory   {memory['seconds']:7.1f} s, peak {memory['peak'] / 1e6:6.0f} MB")
    print(f"in blocks of {block_rows} rows")
    print(f"in a file   {files['seconds']:7.1f} s, peak {files['peak'] / 1e6:6.0f} MB")
    print(f"time in a file / time in memory {files['seconds'] / memory['seconds']:.2f}")
    print(f"largest difference of weights {np.abs(coef[0] - coef[1]).max():.1e}")


if __name__ == "__main__":
    main()
