"""Damaged files of every kind: one sentence, never a traceback, a hang or gigabytes."""

import os

import pytest

pytest.importorskip("resource", reason="bounds on memory need a POSIX system")
pytest.importorskip("pandas", reason="tables need pandas")
pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
pytest.importorskip("openpyxl", reason="workbooks need openpyxl")
if not os.path.exists("/proc/self/statm"):
    pytest.skip("the memory of a process is read from /proc", allow_module_level=True)

from fuzz.corpus import corpus
from fuzz.examples import CRASHES
from fuzz.guarded import read_safely
from fuzz.mutate import Random
from fuzz.strategies import damaged, damaged_file
from fuzz.targets import TARGETS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("SCHIRN_FUZZ_EXAMPLES", "60"))
# The same damages in every run, so that a failure is never a matter of luck.
FIXED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
# Every file of MATLAB starts a process.
FEW = settings(FIXED, max_examples=EXAMPLES // 3)


@pytest.mark.parametrize("target", TARGETS)
def test_the_seeds_are_valid(target):
    taken = [read_safely(target, seed) for seed in corpus(target)]
    assert any(taken), target


@pytest.mark.parametrize(("target", "data"), CRASHES)
def test_crashes_of_the_past(target, data):
    read_safely(target, data() if callable(data) else data)


@pytest.mark.parametrize("target", TARGETS)
def test_damaged_files(target):
    @(FEW if target == "mat5" else FIXED)
    @given(st.data())
    def check(source):
        read_safely(target, source.draw(damaged(target)))

    check()


@pytest.mark.parametrize("target", TARGETS)
def test_random_files(target):
    """The files of `--engine random`, which differ from those of hypothesis."""
    choose = Random(0)
    for _ in range(20):
        read_safely(target, damaged_file(choose, target))


def test_the_guard_sees_what_it_must(monkeypatch):
    """A reader that crashes, hangs or takes memory is found."""
    from fuzz import guarded

    monkeypatch.setattr(guarded, "CPU_SECONDS", 0.3)

    def hang(*_):
        while True:
            pass

    def grow(*_):
        return bytearray(2 * guarded.MEMORY)

    def crash(*_):
        raise KeyError("x")

    wanted = {hang: guarded.TooSlow, grow: MemoryError, crash: KeyError}
    for reader, error in wanted.items():
        monkeypatch.setitem(TARGETS, "svm", reader)
        with pytest.raises(error):
            read_safely("svm", b"1 1:1")
