"""Benchmark results made by hand, in the format of `schirn.lab.bench.results`."""

import numpy as np

QUALITY = {
    "Sieve": 0.90,
    "Schirn": 0.85,
    "NLR": 0.80,
    "FPML": 0.68,
    "PMLNI": 0.72,
    "GLC": 0.74,
    "CandidateRidge": 0.70,
    "OracleRidge": 0.95,
}
LEVELS = {"scene": (1, 2, 3), "birds": (3, 7, 11), "medical": (3, 7, 11), "yeastmf": (None,)}


def make_result(dataset, r, method, fold, **values):
    """One finished result; keywords that are not fields are metrics."""
    fields = {
        "dataset": dataset,
        "r": r,
        "noise": "own" if r is None else "legacy",
        "method": method,
        "sees_truth": method == "OracleRidge",
        "tuning": "candidates",
        "oracle": False,
        "features": "raw",
        "seed": 0,
        "folds": 5,
        "fold": fold,
        "status": "done",
        "reason": None,
        "params": {},
        "tune_seconds": 2.0,
        "fit_seconds": 0.5,
        "fit_cpu_seconds": 0.4,
        "predict_seconds": 0.01,
        "peak_memory_mb": 200.0,
        "versions": {"schirn": "0.1", "python": "3.11", "numpy": "2.0"},
    }
    metrics = {name: values.pop(name) for name in list(values) if name not in fields}
    return fields | {"metrics": metrics} | values


def lost(dataset, r, method, fold, status="timeout", reason="took longer than 60 seconds."):
    """The result of a run that did not finish."""
    return make_result(dataset, r, method, fold) | {
        "status": status,
        "reason": reason,
        "metrics": {},
    }


def study(oracle=("NLR",), failing=("GLC", "birds", 11), seed=0):
    """A whole study with noise levels, one oracle-tuned method and one failed setting."""
    random = np.random.default_rng(seed)
    results = []
    for d, (dataset, levels) in enumerate(LEVELS.items()):
        for step, r in enumerate(levels):
            for fold in range(5):
                shared = random.normal(0, 0.01)
                for number, (method, quality) in enumerate(QUALITY.items()):
                    if (method, dataset, r) == failing:
                        results.append(lost(dataset, r, method, fold))
                        continue
                    slope = 0.01 if method == "OracleRidge" else 0.06 * (1.2 - quality)
                    v = quality - 0.05 * d - slope * step + shared + random.normal(0, 0.006)
                    results.append(
                        make_result(
                            dataset,
                            r,
                            method,
                            fold,
                            average_precision=v,
                            ranking_loss=(1 - v) / 2,
                            coverage=1 - v + 0.1,
                            hamming_loss=(1 - v) / 3,
                            one_error=1 - v + random.normal(0, 0.01),
                            noise_auc=None if method == "OracleRidge" else min(0.99, v + 0.05),
                            oracle=method in oracle,
                            tuning="oracle" if method in oracle else "candidates",
                            fit_seconds=0.1 * (number + 1) ** 2 * (1 + d),
                            fit_cpu_seconds=0.09 * (number + 1) ** 2 * (1 + d),
                            peak_memory_mb=150.0 + 20 * number,
                        )
                    )
    return results
