"""Scores of tags by `find_noisy_labels` of version 0.2, from the history of this repository."""

import pickle
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from schirn.exceptions import DataError

COMMIT = "00387591ee8381d5080aaf943d1e505b4754f4e0"
# Listed tags get the confidences of 0.2, and other cells the log-odds of its Sieve, each row left
# out. Both are ranked separately.
PROGRAM = """
import pickle, sys, warnings
import numpy as np
from schirn.cleaning.find import find_noisy_labels, prepare
warnings.simplefilter("ignore")
with open(sys.argv[1], "rb") as stream:
    X, listed = pickle.load(stream)
found = find_noisy_labels(X, listed)
Z, model = prepare(X, None)
scores = np.array(model.fit(Z, listed).training_log_odds_, dtype=np.float64)
scores[found.row, found.column] = found.confidence
np.save(sys.argv[2], scores)
"""


def scores_of_0_2(X: Any, listed: np.ndarray) -> np.ndarray:
    """Scores (n, l) of all cells, in a process that imports the earlier version."""
    root = Path(__file__).parent.parent
    archive = subprocess.run(
        ["git", "-C", str(root), "archive", COMMIT, "src"], stdout=subprocess.PIPE, check=False
    )
    if archive.returncode:
        raise DataError("version 0.2 is not in the history of this checkout")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "src.tar").write_bytes(archive.stdout)
        with tarfile.open(folder / "src.tar") as members:
            members.extractall(folder, filter="data")
        (folder / "table.pickle").write_bytes(pickle.dumps((X, listed)))
        paths = [str(folder / "table.pickle"), str(folder / "scores.npy")]
        environment = {"PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        subprocess.run(
            [sys.executable, "-c", PROGRAM, *paths], env=environment, cwd=folder, check=True
        )
        return np.asarray(np.load(folder / "scores.npy"))
