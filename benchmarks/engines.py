"""Tree engines of extreme classification as two functions for `CentroidRanker`.

    pip install napkinxc omikuji                      (both work with NumPy 2)

PECOS needs NumPy below 2, and therefore an environment of its own. Data go to it in files:

    python -m venv pecos && pecos/bin/pip install 'numpy<2' 'scipy<1.14' scikit-learn
    pecos/bin/pip install --no-deps libpecos          (its linear trees need nothing else)
    export PECOS_PYTHON=pecos/bin/python

    from benchmarks.engines import ENGINES
    fit, score, rank = ENGINES["napkinxc"]
    ranking = find_noisy_labels(X, candidates, method=CentroidRanker(fit, score))

    SCHIRN_DATA=... python -m benchmarks.many_labels --eurlex --engines napkinxc,omikuji,pecos

napkinXC and omikuji name the best labels of a row with their probabilities; all other labels get
score 0. PECOS scores exactly the cells that it is asked for. Every engine is also able to rank the
labels of new rows: `rank`.
"""

import os
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

Array = np.ndarray

# Best labels of a row that napkinXC and omikuji look for.
TOP = 200


def fit_napkinxc(X: Any, candidates: Any) -> Any:
    """Probabilistic label trees of napkinXC."""
    from napkinxc.models import PLT

    folder = tempfile.TemporaryDirectory()
    model = PLT(str(Path(folder.name, "plt")), threads=1, seed=0)
    model.fit(sp.csr_matrix(X), _lists(candidates))
    # The model lives in the folder.
    return model, folder, candidates.shape[1]


def rank_napkinxc(model: Any, X: Any, top: int = TOP) -> sp.csr_array:
    """Probabilities of the best labels, (n, l)."""
    plt, _, n_labels = model
    return _table(plt.predict_proba(sp.csr_matrix(X), top_k=top), n_labels)


def fit_omikuji(X: Any, candidates: Any) -> Any:
    """Parabel-like trees of omikuji, which reads its data from a text file."""
    import omikuji

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        rows = zip(_lists(candidates), _pairs(X), strict=True)
        lines = [
            ",".join(map(str, labels)) + "".join(f" {j}:{value:.6g}" for j, value in pairs)
            for labels, pairs in rows
            if labels and pairs
        ]
        header = f"{len(lines)} {X.shape[1]} {candidates.shape[1]}"
        path.write_text("\n".join([header, *lines]) + "\n")
        parameters = omikuji.Model.default_hyper_param()
        return omikuji.Model.train_on_data(str(path), parameters, 1), candidates.shape[1]


def rank_omikuji(model: Any, X: Any, top: int = TOP) -> sp.csr_array:
    """Scores of the best labels, (n, l)."""
    trees, n_labels = model
    found = [trees.predict(pairs, beam_size=30, top_k=top) for pairs in _pairs(X)]
    return _table(found, n_labels)


def fit_pecos(X: Any, candidates: Any) -> Any:
    """Linear trees of PECOS, in a process of its own environment."""
    folder = tempfile.TemporaryDirectory()
    _pecos("train", folder.name, X=X, Y=candidates)
    return folder, candidates.shape[1]


def rank_pecos(model: Any, X: Any, top: int = 10) -> sp.csr_array:
    """Scores of the ten best labels, (n, l)."""
    return _pecos("rank", model[0].name, X=X)


def score_pecos(model: Any, X: Any, rows: Array, labels: Array) -> Array:
    """Scores of single cells."""
    folder, n_labels = model
    used, place = np.unique(rows, return_inverse=True)
    cells = sp.csr_array((np.ones(len(rows)), (place, labels)), shape=(len(used), n_labels))
    return _at(_pecos("score", folder.name, X=X[used], cells=cells), place, labels)


def _pecos(step: str, folder: str, **matrices: Any) -> sp.csr_array:
    """Run `benchmarks/pecos_engine.py` with the Python that $PECOS_PYTHON names."""
    for name, matrix in matrices.items():
        sp.save_npz(Path(folder, f"{name}.npz"), sp.csr_matrix(matrix, dtype=np.float32))
    script = Path(__file__).with_name("pecos_engine.py")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [os.environ["PECOS_PYTHON"], str(script), step, folder]
    subprocess.run(command, check=True, env=environment)
    result = Path(folder, "scores.npz")
    return sp.csr_array(sp.load_npz(result)) if result.exists() else sp.csr_array((0, 0))


def score_by(rank: Any) -> Any:
    """Scores of single cells for an engine that ranks all labels."""

    def score(model: Any, X: Any, rows: Array, labels: Array) -> Array:
        used, place = np.unique(rows, return_inverse=True)
        return _at(rank(model, X[used]), place, labels)

    return score


def _at(table: sp.csr_array, rows: Array, labels: Array) -> Array:
    return np.asarray(table[rows, labels]).ravel()


def _lists(candidates: Any) -> list[list[int]]:
    """Labels of every row."""
    return [list(map(int, row)) for row in np.split(candidates.indices, candidates.indptr[1:-1])]


def _pairs(X: Any) -> list[list[tuple[int, float]]]:
    """Features of every row as (column, value)."""
    pairs = list(zip(X.indices.tolist(), X.data.tolist(), strict=True))
    return [pairs[a:b] for a, b in pairwise(X.indptr.tolist())]


def _table(found: Any, n_labels: int) -> sp.csr_array:
    """(label, score) pairs of every row as a sparse matrix."""
    sizes = [len(row) for row in found]
    row = np.repeat(np.arange(len(sizes)), sizes)
    label = np.array([pair[0] for pairs in found for pair in pairs], dtype=np.int64)
    score = np.array([pair[1] for pairs in found for pair in pairs])
    return sp.csr_array((score, (row, label)), shape=(len(sizes), n_labels))


# How to train, to score cells and to rank the labels of new rows.
ENGINES = {
    "napkinxc": (fit_napkinxc, score_by(rank_napkinxc), rank_napkinxc),
    "omikuji": (fit_omikuji, score_by(rank_omikuji), rank_omikuji),
    "pecos": (fit_pecos, score_pecos, rank_pecos),
}
