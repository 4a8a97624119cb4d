"""Sieve on a GPU: time, memory and quality, and the share of the time that products need.

    python -m benchmarks.sieve_gpu --shape 200000,512,50
    python -m benchmarks.sieve_gpu --shape 2000000,512,50
    python -m benchmarks.sieve_gpu --shape 200000,512,50 --clean    (also find_noisy_labels)
    python -m benchmarks.sieve_gpu --shape 50000,256,50 --compare   (also NumPy on the processor)

Rows are drawn on the device; three labels per row are true and about five more are listed. The
first fit, which loads the libraries of the device, is on a tenth of the rows and not timed. The
products are those of the fit (features, Gram matrix, leverages, ridges of every round); their time
is their operations over the rate of one such product alone, in single or double precision.
"""

import argparse
import cProfile
import pstats
import time
import warnings
from typing import Any

import numpy as np
import torch

from schirn import Sieve, find_noisy_labels
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import noise_auc


def main() -> None:
    """Fit, and print time, memory and quality."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shape", default="200000,512,50", help="rows, features, labels")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--compare", action="store_true", help="also fit in main memory")
    parser.add_argument("--clean", action="store_true", help="also find the wrong labels")
    parser.add_argument("--profile", action="store_true", help="print where the host spends time")
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    n, d, l = (int(size) for size in args.shape.split(","))
    X, truth, candidates = generated(n, d, l, args.device)
    some = max(5000, n // 10)
    clocked(args.device, lambda: Sieve().fit(X[:some], candidates[:some]))
    if args.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    profile = cProfile.Profile(subcalls=False)
    if args.profile:
        profile.enable()
    model, seconds = clocked(args.device, lambda: Sieve().fit(X, candidates))
    profile.disable()
    products = product_seconds(X, l, args.device)
    confidence = model.label_confidence_.cpu().numpy()
    quality = noise_auc(truth, candidates, confidence)
    print(f"{n} x {d}, {l} labels: {seconds:.2f} s, of which products {products:.2f} s "
          f"({products / seconds:.0%}); noise AUC {quality:.4f}")  # fmt: skip
    if args.device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 1e9:.1f} GB")
    if args.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(32)
    if args.clean:
        ranking, seconds = clocked(args.device, lambda: find_noisy_labels(X, candidates))
        print(f"find_noisy_labels {seconds:.2f} s, {len(ranking.row):,} tags ranked")
    if args.compare:
        rows = X.cpu().numpy()
        other, seconds = clocked("cpu", lambda: Sieve().fit(rows, candidates))
        differ = np.abs(other.label_confidence_ - confidence)
        print(f"in main memory {seconds:.2f} s; confidences differ by {differ.max():.1e} at most, "
              f"{(other.noise_ != model.noise_.cpu().numpy()).sum()} verdicts differ")  # fmt: skip


def generated(n: int, d: int, l: int, device: str) -> tuple[Any, np.ndarray, np.ndarray]:
    """Rows on the device; true labels and candidates in main memory."""
    rng = torch.Generator(device).manual_seed(0)
    options = {"generator": rng, "device": device}
    X, W = torch.randn(n, d, **options), torch.randn(d, l, **options)
    truth = torch.zeros(n, l, dtype=torch.uint8, device=device)
    for i in range(0, n, 100_000):
        top = torch.topk(X[i : i + 100_000] @ W, 3, dim=1).indices
        truth[i : i + 100_000].scatter_(1, top, 1)
    wrong = torch.rand(n, l, **options) < 5 / (l - 3)
    candidates = torch.maximum(truth, wrong.to(torch.uint8))
    return X, truth.cpu().numpy(), candidates.cpu().numpy()


def product_seconds(X: Any, l: int, device: str) -> float:
    """Seconds that the matrix products of the fit take at the rate of each alone."""
    (n, d), m, rounds, experts, grid = X.shape, Sieve().n_landmarks, 8, 3, 13
    single = rate(m, m, torch.float32, device)
    thin = rate(m, experts * l, torch.float32, device)
    double = rate(m, m, torch.float64, device)
    # All rows, three quarters of them in the inner split, one quarter held out.
    features = 2 * n * m * (d + m) + 2 * n * m * m * 1.75
    ridges = 2 * n * m * l * (rounds * (experts * 2 + 1.75) + grid / 4 + experts + 1.75)
    return features / single + ridges / thin + 2 * n * m * m / double


def rate(m: int, width: int, dtype: Any, device: str) -> float:
    """Operations per second of a product of 50,000 x m with m x width."""
    A = torch.randn(50_000, m, dtype=dtype, device=device)
    B = torch.randn(m, width, dtype=dtype, device=device)
    A @ B
    _, seconds = clocked(device, lambda: [A @ B for _ in range(5)])
    return 5 * 2 * 50_000 * m * width / seconds


def clocked(device: str, work: Any) -> tuple[Any, float]:
    """Result of a function, and its time in seconds."""
    if device == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    if device == "cuda":
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
