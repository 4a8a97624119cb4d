"""A tiny data set, methods that misbehave, and the program in separate processes."""

import json
import os
import subprocess
import sys
import time

import numpy as np

from schirn.datasets import make_partial_multilabel
from schirn.lab.bench import run as run_here
from schirn.lab.bench.results import VOLATILE

METHODS = '''
import os, signal, sys, time
import numpy as np


class Mean:
    """Scores every label by how often it is a candidate, plus a little of the first feature."""

    def __init__(self, weight=0.01):
        self.weight = weight

    def fit(self, X, y):
        self.mean_ = y.mean(axis=0)
        print("a method may print")
        return self

    def decision_function(self, X):
        return self.mean_[None, :] * (1 + self.weight * X[:, :1])


class Slow(Mean):
    """Slower where the test kills the process meanwhile."""

    def fit(self, X, y):
        time.sleep(float(os.environ.get("SLOW_SECONDS", "0.1")))
        return super().fit(X, y)


class Endless(Mean):
    def fit(self, X, y):
        with open("endless.pid", "w") as stream:
            stream.write(str(os.getpid()))
        time.sleep(600)


class Failing(Mean):
    def fit(self, X, y):
        raise RuntimeError("no luck\\ntoday")


class Dying(Mean):
    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGKILL)


class WrongShape(Mean):
    def decision_function(self, X):
        return np.zeros((len(X), 1))


class Infinite(Mean):
    def decision_function(self, X):
        scores = super().decision_function(X)
        scores[3, 1:3] = np.inf
        return scores


class Undefined(Mean):
    def decision_function(self, X):
        return super().decision_function(X) * np.nan


class Complex(Mean):
    def decision_function(self, X):
        return super().decision_function(X) + 0j


class Tuned(Mean):
    bench_grid = {"weight": [0.0, 5.0]}

    def get_params(self, deep=True):
        return {"weight": self.weight}

    def set_params(self, **params):
        self.__dict__.update(params)
        return self


class NotAMethod:
    pass
'''


def tiny(n_samples=60, r=1):
    return make_partial_multilabel(
        n_samples=n_samples, n_features=5, n_labels=5, cardinality=1.5, r=r, random_state=0
    )


def write_workplace(folder):
    """A folder with a data file and a module of methods."""
    data = tiny()
    np.savez(folder / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)
    (folder / "mymethods.py").write_text(METHODS)
    return folder


def bench_command(*args):
    return [sys.executable, "-m", "schirn", "bench", "--datasets", "tiny.npz:1", *args]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def bench(folder, *args):
    """Run the program to its end."""
    return subprocess.run(
        bench_command(*args), cwd=folder, env=environment(), capture_output=True, text=True
    )


def start_bench(folder, *args):
    """Start the program and leave it running."""
    return subprocess.Popen(
        bench_command(*args),
        cwd=folder,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def lines(folder):
    """All complete lines of all result files."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        text = path.read_text()
        found += [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return found


def wait_for(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def stable(results):
    """Results by key, without what may differ between runs."""
    return {
        result["key"]: {name: value for name, value in result.items() if name not in VOLATILE}
        for result in results
    }


def quick(datasets, methods, output, **options):
    return run_here(
        datasets,
        methods,
        output=output,
        **{"folds": 2, "tuning": "none", "jobs": 0, "threads": 1, **options},
    )
