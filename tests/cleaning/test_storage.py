"""Where rows are stored: every branch, by what `find_noisy_labels` reports."""

import numpy as np
import pytest
from sklearn.base import clone

from schirn import Sieve, find_noisy_labels
from schirn.datasets import make_partial_multilabel
from schirn.scale import RowFile

ROWS, LABELS, LANDMARKS = 200, 4, 100
FEW = Sieve(max_kernel_rows=100, n_landmarks=LANDMARKS, max_iter=2)
LANDMARK_BYTES = 4 * ROWS * LANDMARKS
NEEDED = LANDMARK_BYTES + 75 * ROWS * LABELS


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(ROWS, 5, LABELS, r=1, random_state=0)


def storage(data, X=None, *, n_bytes=None, method=FEW, **options):
    gigabytes = None if n_bytes is None else n_bytes / 1e9
    X = data.X if X is None else X
    return find_noisy_labels(
        X, data.candidates, method=method, max_memory=gigabytes, **options
    ).storage


def test_the_memory_decides(data):
    assert storage(data)[:3] == ("memory", False, 1)
    # Half of twice the landmark features holds them.
    assert storage(data, n_bytes=2 * LANDMARK_BYTES).name == "memory"
    scarce = storage(data, n_bytes=2 * LANDMARK_BYTES - 1000)
    assert scarce[:3] == ("landmark file", False, 1)
    words = (
        "landmark features of 8e-05 GB are in a temporary file, as 0.00016 GB of memory are free"
    )
    assert scarce.reason.endswith(words)
    linear = clone(FEW).set_params(kernel="linear")
    assert storage(data, n_bytes=2 * LANDMARK_BYTES - 1000, method=linear).name == "memory"
    assert storage(data, n_bytes=NEEDED).name == "landmark file"
    scarcer = storage(data, n_bytes=NEEDED - 1000)
    assert scarcer[:3] == ("blocks", False, 1)
    assert "0.00014 GB would be needed and 0.00014 GB of memory are free" in scarcer.reason


def test_rows_in_a_file(data, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    with RowFile(tmp_path / "x.npy", block_rows=70) as X:
        assert X.nbytes == data.X.nbytes
        assert storage(data, X)[:2] == ("blocks", True)
        assert storage(data, X).reason.endswith("block by block, where they are")
        assert "as 1e-05 GB of memory were free" in storage(data, X, n_bytes=10_000).reason
        known = data.candidates * (np.arange(ROWS) < 2)[:, None]
        for options in ({"known": known}, {"cv": 2}, {"groups": range(ROWS)}, {"method": None}):
            found = storage(data, X, **options)
            assert found[:2] == ("memory", True), options
            assert "mapped from files" in found.reason


def test_labels_are_judged_in_groups_where_blocks_are_impossible(data):
    known = data.candidates * (np.arange(ROWS) < 2)[:, None]
    found = storage(data, n_bytes=75 * ROWS * LABELS // 2, known=known)
    assert found[:3] == ("landmark file", False, 2)
    assert "labels are judged in 2 groups" in found.reason
    # Folds and other methods need other numbers, of which nothing is known here.
    for options in ({"cv": 2}, {"method": "CandidateRidge"}):
        assert storage(data, n_bytes=1000, **options)[:3] == ("memory", False, 1)


def test_a_device(data):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    X = torch.asarray(data.X)
    assert storage(data, X).name == "device"
    assert storage(data, X, known=data.candidates * (np.arange(ROWS) < 2)[:, None]).name == "memory"
    assert storage(data, X, method=Sieve(max_iter=2)).name == "memory"
