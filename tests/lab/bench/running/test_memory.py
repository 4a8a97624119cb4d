"""Peak memory of this process."""

import sys
from pathlib import Path

import pytest

from schirn.lab.bench.running._memory import peak_memory


def test_peak_memory_of_this_process():
    assert peak_memory() > 10


def test_peak_memory_where_linux_does_not_tell(monkeypatch):
    def absent(self, *args, **options):
        raise FileNotFoundError(self)

    resource = pytest.importorskip("resource", reason="Windows counts no resources")
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    monkeypatch.setattr(Path, "read_text", absent)
    assert peak_memory() >= round(usage * (1 if sys.platform == "darwin" else 1024) / 2**20, 1)
    monkeypatch.setattr(sys, "platform", "darwin")
    assert peak_memory() < usage / 2**19
    monkeypatch.setitem(sys.modules, "resource", None)
    assert peak_memory() is None


def test_peak_memory_where_the_status_has_no_peak(monkeypatch):
    pytest.importorskip("resource", reason="Windows counts no resources")
    monkeypatch.setattr(Path, "read_text", lambda self: "Name:\tpython\nVmRSS:\t1 kB\n")
    assert peak_memory() > 10
