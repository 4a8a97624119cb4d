"""Which road rows take through memory: every branch, by what `find_noisy_labels` reports."""

import numpy as np
import pytest
from sklearn.base import clone

from schirn import Sieve, find_noisy_labels
from schirn.cleaning.road import choose_road
from schirn.datasets import make_partial_multilabel
from schirn.scale import RowFile
from schirn.scale.memory import memory_limit

ROWS, LABELS, LANDMARKS = 200, 4, 100
FEW = Sieve(max_kernel_rows=100, n_landmarks=LANDMARKS, max_iter=2)
LANDMARK_BYTES = 4 * ROWS * LANDMARKS
NEEDED = LANDMARK_BYTES + 75 * ROWS * LABELS


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(ROWS, 5, LABELS, r=1, random_state=0)


def road(data, X=None, *, n_bytes=None, method=FEW, **options):
    gigabytes = None if n_bytes is None else n_bytes / 1e9
    X = data.X if X is None else X
    return find_noisy_labels(
        X, data.candidates, method=method, max_memory=gigabytes, **options
    ).road


def test_the_memory_decides(data):
    assert road(data)[:3] == ("memory", False, 1)
    # Half of twice the landmark features holds them.
    assert road(data, n_bytes=2 * LANDMARK_BYTES).name == "memory"
    scarce = road(data, n_bytes=2 * LANDMARK_BYTES - 1000)
    assert scarce[:3] == ("landmark file", False, 1)
    assert (scarce.features, scarce.computed) == (data.X.nbytes, NEEDED)
    words = (
        "landmark features of 8e-05 GB are in a temporary file, as 0.00016 GB of memory are free"
    )
    assert scarce.reason.endswith(words)
    linear = clone(FEW).set_params(kernel="linear")
    assert road(data, n_bytes=2 * LANDMARK_BYTES - 1000, method=linear).name == "memory"
    assert road(data, n_bytes=NEEDED).name == "landmark file"
    scarcer = road(data, n_bytes=NEEDED - 1000)
    assert scarcer[:4] == ("blocks", False, 1, NEEDED - 1000)
    assert "0.00014 GB would be needed and 0.00014 GB of memory are free" in scarcer.reason


def test_rows_in_a_file(data, tmp_path):
    np.save(tmp_path / "x.npy", data.X)
    with RowFile(tmp_path / "x.npy", block_rows=70) as X:
        assert X.nbytes == data.X.nbytes
        assert road(data, X)[:2] == ("blocks", True)
        assert road(data, X).reason.endswith("block by block, where they are")
        assert "as 1e-05 GB of memory were free" in road(data, X, n_bytes=10_000).reason
        known = np.zeros_like(data.candidates)
        for options in ({"known": known}, {"cv": 2}, {"groups": range(ROWS)}, {"method": None}):
            found = road(data, X, **options)
            assert found[:2] == ("memory", True), options
            assert "mapped from files" in found.reason


def test_labels_are_judged_in_groups_where_blocks_are_impossible(data):
    known = np.zeros_like(data.candidates)
    found = road(data, n_bytes=75 * ROWS * LABELS // 2, known=known)
    assert found[:3] == ("landmark file", False, 2)
    assert "labels are judged in 2 groups" in found.reason
    # Folds and other methods need other numbers, of which nothing is known here.
    for options in ({"cv": 2}, {"method": "CandidateRidge"}):
        assert road(data, n_bytes=1000, **options)[:3] == ("memory", False, 1)


def test_a_device(data):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    X = torch.asarray(data.X)
    assert road(data, X).name == "device"
    assert road(data, X, known=np.zeros_like(data.candidates)).name == "memory"
    assert road(data, X, method=Sieve(max_iter=2)).name == "memory"


def test_features_that_have_not_been_read():
    with memory_limit(1e-6):
        assert not choose_road(500, 10).in_file
        assert choose_road(501, 10).in_file


def test_very_many_labels_change_the_method_only_if_it_may():
    assert choose_road(100, 10, n_labels=5000).name == "memory"
    found = choose_road(100, 10, "files", n_labels=5000, may_change_method=True)
    assert found[:2] == ("many labels", True)
    assert "of 5,000 labels" in found.reason
    assert choose_road(100, 10, n_labels=50, may_change_method=True).name == "memory"
