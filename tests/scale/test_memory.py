"""Memory that the operating system counts, and arrays that move to temporary files."""

import json
import subprocess
import sys

import numpy as np
import pytest

from schirn.exceptions import InputError
from schirn.linalg.arrays import release, row_pieces
from schirn.scale.memory import free_bytes, large_array, memory_limit

STATUS = "/proc/self/status"
CHILD = """
import json, sys, warnings
import numpy as np
import schirn.solvers.sieve_landmarks as landmarks
from schirn import Sieve
from schirn.scale.memory import memory_limit

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

warnings.simplefilter("ignore")
landmarks.PIECE_CELLS = 2**18
rng = np.random.default_rng(0)
X = rng.normal(size=(30_000, 8)).astype(np.float32)
Y = (X[:, :4] > 0.5).astype(np.uint8)
Y[rng.random(Y.shape) < 0.1] = 1
model = Sieve(n_landmarks=600, max_iter=2)
model.fit(X[:5000], Y[:5000])
before = peak()
with memory_limit(float(sys.argv[1])):
    model.fit(X, Y)
print(json.dumps([peak() - before, float(model.label_confidence_.sum())]))
"""
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the peak is read from /proc"
)


def test_features_that_do_not_fit_stay_out_of_memory():
    """30,000 rows with 600 features are 72 MB."""
    room, scarce = (
        json.loads(subprocess.check_output([sys.executable, "-c", CHILD, str(gigabytes)]))
        for gigabytes in (4.0, 0.1)
    )
    assert room[0] > 60
    assert scarce[0] < 30
    assert scarce[1] == pytest.approx(room[1], rel=1e-9)


def test_large_arrays_are_in_files_and_leave_none_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with memory_limit(1e-3):
        assert free_bytes() == 10**6
        assert not isinstance(large_array((100, 1000), np.float32), np.memmap)
        array = large_array((200, 1000), np.float32)
    assert isinstance(array, np.memmap)
    assert not list(tmp_path.iterdir())
    array[:] = 1
    for first, piece in row_pieces(array, 64):
        assert piece.sum() == 1000 * min(64, 200 - first)
    assert (array == 1).all()
    with memory_limit(None):
        assert free_bytes() > 10**6


def test_without_room_in_memory_and_on_disk_the_message_names_both(monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    words = r"50 rows need 4e-05 GB .* only 1e-05 GB of memory are free, and 1e-06 GB in .*TMPDIR"
    with memory_limit(1e-5), pytest.raises(InputError, match=words):
        large_array((50, 100), np.float64)


def test_a_private_mapping_keeps_what_was_written(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((5000, 4)))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[:] = 1
    release(np.asarray(X))
    assert (X == 1).all()
