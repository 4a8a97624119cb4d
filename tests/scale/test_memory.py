"""Memory that the operating system counts, and temporary files."""

import os
import subprocess
import sys

import numpy as np
import pytest

from schirn.exceptions import InputError
from schirn.linalg.arrays import release
from schirn.scale.memory import (
    check_room,
    free_bytes,
    free_on_disk,
    memory_limit,
    scratch_folder,
)

STATUS = "/proc/self/status"
CLEAN = """
import importlib, json, sys, warnings
import numpy as np
import pyarrow, pyarrow.compute, pyarrow.parquet
from schirn.app.cli import main
from schirn.app.tables import _arrow as _arrow

def peak():
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024

folder, memory, out = sys.argv[1:]
importlib.import_module("schirn.estimators.sieve")._FILE_CELLS = 2**20
_arrow._ROWS_BYTES = 2**22
few = ["--param", "n_landmarks=50", "--param", "max_iter=2"]
def clean(folder, out):
    argv = ["clean", folder, "--features", "vector", "--max-memory", memory, *few, "-o", out]
    assert main(argv) == 0
clean(folder + "/few", out + "-few.parquet")
before = peak()
clean(folder + "/many", out + ".parquet")
print(json.dumps(peak() - before))
"""
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the peak is read from /proc"
)


@pytest.mark.slow
def test_vectors_of_a_parquet_folder_stay_out_of_memory(tmp_path):
    """20,000 vectors of 1,024 numbers are 80 MB, in one row group of each file."""
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rng = np.random.default_rng(0)
    for name, n in (("few", 4500), ("many", 20_000)):
        (tmp_path / name).mkdir()
        for k in range(2):
            X = rng.normal(size=(n // 2, 1024)).astype(np.float32)
            tags = [[f"t{j}" for j in np.flatnonzero(row)] for row in X[:, :4] > 0.3]
            vectors = arrow.FixedSizeListArray.from_arrays(arrow.array(X.ravel()), 1024)
            table = arrow.table({"vector": vectors, "tags": tags})
            parquet.write_table(table, tmp_path / name / f"{k}.parquet")
    added = {}
    for memory in ("8", "0.1"):
        out = tmp_path / f"out-{memory}"
        argv = [sys.executable, "-c", CLEAN, str(tmp_path), memory, str(out)]
        found = subprocess.check_output(argv, stderr=subprocess.DEVNULL)
        added[memory] = float(found.splitlines()[-1])
    assert added["8"] > 80
    assert added["0.1"] < 70
    here, there = (parquet.read_table(tmp_path / f"out-{memory}.parquet") for memory in added)
    assert here.schema == there.schema
    assert here.column("tags") == there.column("tags")
    assert here.column("vector") == there.column("vector")


def test_without_room_in_memory_and_on_disk_the_message_names_both(monkeypatch):
    usage = type("Usage", (), {"free": 1000})
    monkeypatch.setattr("shutil.disk_usage", lambda folder: usage)
    words = (
        r"50 rows need 4e-05 GB .* only 1e-05 GB of memory are free, but .* has 1e-06 GB; .*TMPDIR"
    )
    with memory_limit(1e-5), pytest.raises(InputError, match=words):
        check_room(40_000, "50 rows")
    with memory_limit(1e-3):
        assert free_bytes() == 10**6
        with memory_limit(None):
            assert free_bytes() > 10**6


def test_the_container_counts(tmp_path, monkeypatch):
    group = tmp_path / "cgroup" / "user" / "session"
    group.mkdir(parents=True)
    for name, text in (("max", "3000000"), ("current", "2500000")):
        (group.parent / f"memory.{name}").write_text(text)
    (group.parent / "memory.stat").write_text("anon 5\ninactive_file 400000\n")
    (group / "memory.max").write_text("max")
    (tmp_path / "own").write_text("0::/user/session\n")
    monkeypatch.setattr("schirn.scale.memory._CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr("schirn.scale.memory._OWN_GROUPS", tmp_path / "own")
    assert free_bytes() == 900_000


def test_temporary_files_are_not_kept_in_memory(tmp_path, monkeypatch):
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mounts = tmp_path / "mounts"
    monkeypatch.setattr("schirn.scale.memory._MOUNTS", mounts)
    mounts.write_text("/dev/sda / ext4 rw 0 0\n")
    assert scratch_folder() == str(tmp_path)
    mounts.write_text(f"/dev/sda / ext4 rw 0 0\ntmpfs {os.path.realpath(tmp_path)} tmpfs rw 0 0\n")
    assert scratch_folder() == "/var/tmp"
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert scratch_folder() == str(tmp_path)
    with memory_limit(1e-6):
        assert free_on_disk(tmp_path) == 1000


def test_a_private_mapping_keeps_what_was_written(tmp_path):
    np.save(tmp_path / "X.npy", np.zeros((5000, 4)))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[:] = 1
    release(np.asarray(X))
    assert (X == 1).all()
