"""Where rows are stored: every branch, by what `find_noisy_labels` reports."""

import numpy as np
import pytest
from sklearn.base import clone

from schirn import Sieve, find_noisy_labels
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.scale import RowFile

ROWS, LABELS, LANDMARKS = 200, 4, 100
FEW = Sieve(max_kernel_rows=100, n_landmarks=LANDMARKS, max_iter=2)
NEEDED = 4 * ROWS * LANDMARKS + 75 * ROWS * LABELS


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
    assert storage(data)[:2] == ("memory", False)
    assert storage(data, n_bytes=NEEDED).name == "memory"
    scarce = storage(data, n_bytes=NEEDED - 1000)
    assert scarce[:2] == ("blocks", False)
    assert "0.00014 GB would be needed and 0.00014 GB of memory are free" in scarce.reason
    linear = clone(FEW).set_params(kernel="linear")
    assert storage(data, n_bytes=NEEDED - 1000, method=linear).name == "memory"
    words = r"features of 8e-06 GB needs 7.2e-06 GB of memory, but 1e-06 GB are free"
    with pytest.raises(InputError, match=words):
        storage(data, n_bytes=1000)


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


def test_what_needs_all_rows_in_memory_must_fit(data):
    known = data.candidates * (np.arange(ROWS) < 2)[:, None]
    assert storage(data, n_bytes=NEEDED, known=known).name == "memory"
    with pytest.raises(InputError, match=r"needs 0.00014 GB of memory, but 3e-05 GB are free"):
        storage(data, n_bytes=30_000, known=known)
    # Folds and other methods need other numbers, of which nothing is known here.
    for options in ({"cv": 2}, {"method": "CandidateRidge"}):
        assert storage(data, n_bytes=1000, **options)[:2] == ("memory", False)


def test_a_device(data):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    X = torch.asarray(data.X)
    assert storage(data, X).name == "device"
    assert storage(data, X, known=data.candidates * (np.arange(ROWS) < 2)[:, None]).name == "memory"
    assert storage(data, X, method=Sieve(max_iter=2)).name == "memory"
