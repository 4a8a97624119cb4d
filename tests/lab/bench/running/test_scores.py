"""Stored scores that are missing or corrupt; `test_run` covers `rescore`."""

import numpy as np
import pytest

from schirn.exceptions import DataError
from schirn.lab.bench.running._scores import read_arrays


def test_missing_scores(tmp_path):
    with pytest.raises(DataError, match="the scores of this run are missing"):
        read_arrays(tmp_path / "none.npz")


@pytest.mark.parametrize(
    "arrays",
    [
        {"scores": np.zeros((2, 3))},
        {"scores": np.zeros(3), "truth": np.zeros(3), "candidate_truth": np.zeros(3)},
        {
            "scores": np.zeros((2, 3), dtype=int),
            "truth": np.zeros((2, 1), np.uint8),
            "candidate_truth": np.zeros(4, np.uint8),
        },
    ],
)
def test_files_that_are_not_scores(tmp_path, arrays):
    path = tmp_path / "x.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match="not the scores of a run; delete the file"):
        read_arrays(path)
