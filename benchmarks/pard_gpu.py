"""Time per epoch and peak memory of PARD with its feature model, on the CPU and on a GPU.

    python benchmarks/pard_gpu.py

Run it from the root of the repository. The GPU is measured if PyTorch finds one. Only numpy, scipy
and torch are required: without scikit-learn, the solver is imported without the rest of the
package.
"""

import argparse
import importlib.util
import platform
import resource
import statistics
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

SOURCE = Path(__file__).resolve().parent.parent / "src" / "schirn"


def solver_modules() -> tuple[Any, Any, Any]:
    """Import the solver modules, from a bare package if scikit-learn is not installed."""
    if importlib.util.find_spec("sklearn") is None:
        package = types.ModuleType("schirn")
        package.__path__ = [str(SOURCE)]
        sys.modules["schirn"] = package
    elif importlib.util.find_spec("schirn") is None:
        sys.path.insert(0, str(SOURCE.parent))
    from schirn.lab.rivals.solvers import pard, pard_torch
    from schirn.linalg import scaling

    return pard, scaling, pard_torch


def make(n: int, d: int, l: int, density: float) -> tuple[Any, np.ndarray]:
    """Features in single precision and candidates that depend on them."""
    rng = np.random.default_rng(0)
    if density < 1:
        X = sp.random_array((n, d), density=density, format="csr", random_state=rng)
        X = X.astype(np.float32)
    else:
        X = rng.random((n, d), dtype=np.float32)
    scores = np.asarray(X @ rng.normal(size=(d, l)).astype(np.float32))
    truth = scores > np.quantile(scores, 0.95, axis=0)
    return X, truth | (rng.random((n, l)) < 0.05)


def measure(modules: tuple[Any, Any, Any], device: str, X: Any, Y: np.ndarray, args: Any) -> None:
    """Train on one device and print one line."""
    import torch

    pard, scaling, pard_torch = modules
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    ends = [time.perf_counter()]

    def timed(epochs: Any, what: str, **_: Any) -> Any:
        for epoch in epochs:
            yield epoch
            ends.append(time.perf_counter())

    pard.track = timed
    # Evaluating the bound after an epoch waits for the device, so wall times are correct.
    result = pard_torch.pard_with_features(
        X,
        Y,
        scaling=scaling.minmax(X, 0, 1),
        feature_weight=0.1,
        schedule=pard.Schedule(max_iter=args.epochs, warm_up=2, batch_size=args.batch_size),
        device=device,
    )
    epochs = np.diff(ends)
    if device == "cuda":
        peak = f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB on the device"
    else:
        peak = f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB of the process"
    name = torch.cuda.get_device_name() if device == "cuda" else platform.machine()
    print(
        f"{device} ({name}), torch {torch.__version__}: first epoch {epochs[0]:.3f} s, "
        f"then {statistics.median(epochs[1:] if len(epochs) > 1 else epochs):.3f} s per epoch, "
        f"peak {peak}, bound {result.bound[0]:.2f} -> {result.bound[-1]:.2f}",
        flush=True,
    )


def main() -> None:
    """Measure every available device."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--features", type=int, default=1_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--density", type=float, default=1.0, help="below 1: sparse features")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--device", choices=["all", "cpu", "cuda"], default="all")
    args = parser.parse_args()
    modules = solver_modules()
    import torch

    X, Y = make(args.rows, args.features, args.labels, args.density)
    print(f"{args.rows} x {args.features} features, {args.labels} labels, batch {args.batch_size}")
    there = torch.cuda.is_available()
    if args.device == "cuda" and not there:
        sys.exit("torch sees no CUDA device here")
    devices = (["cpu"] + ["cuda"] * there) if args.device == "all" else [args.device]
    for device in devices:
        measure(modules, device, X, Y, args)


if __name__ == "__main__":
    main()
