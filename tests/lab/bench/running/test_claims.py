import errno
import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from schirn.lab.bench.running import claims as module
from schirn.lab.bench.running.claims import Claims


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "claims"


def dead_pid():
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def leave_claim(folder, name, *, place=None, pid=None, born="1", age=0.0):
    """Leave a claim as a dead process would."""
    folder.mkdir(exist_ok=True)
    owner = {
        "token": "other",
        "place": place or module._namespace(),
        "pid": pid or dead_pid(),
        "born": born,
    }
    (folder / name).write_text(json.dumps(owner))
    now = (folder / name).stat().st_mtime
    os.utime(folder / name, (now - age, now - age))


def test_a_run_has_one_owner(folder):
    first, second = Claims(folder), Claims(folder)
    assert first.take("k")
    assert not second.take("k")
    assert not first.take("k")
    first.release("k")
    assert second.take("k")
    assert second.holds("k")
    assert not first.holds("k")
    first.close()
    second.close()
    assert not folder.exists()


def test_the_claim_of_a_dead_process_is_taken_over(folder):
    leave_claim(folder, "k.0")
    claims = Claims(folder)
    assert claims.take("k")
    assert claims.holds("k")
    claims.release("k")
    assert not list(folder.glob("k.*"))
    claims.close()


def test_a_process_number_used_again_is_another_process(folder):
    leave_claim(folder, "k.0", pid=os.getpid(), born="not when this process was born")
    claims = Claims(folder)
    if not os.path.exists("/proc/self/stat"):
        pytest.skip("the start of a process is read from /proc")
    assert claims.take("k")
    claims.close()


@pytest.mark.parametrize(("age", "taken"), [(5.0, False), (500.0, True)])
def test_on_another_machine_the_heartbeat_decides(folder, age, taken):
    leave_claim(folder, "k.0", place="elsewhere", age=age)
    claims = Claims(folder)
    assert claims.take("k") is taken
    claims.close()


def test_a_process_that_was_declared_dead_notices(folder):
    claims = Claims(folder)
    assert claims.take("k")
    os.link(folder / "k.0", folder / "k.1")
    assert not claims.holds("k")
    claims.release("k")
    assert (folder / "k.1").exists()


def test_many_at_once_and_one_wins(folder):
    leave_claim(folder, "k.0")
    leave_claim(folder, "k.1")
    everyone = [Claims(folder) for _ in range(12)]
    gate, winners = threading.Barrier(len(everyone)), []

    def try_it(claims):
        gate.wait()
        if claims.take("k"):
            winners.append(claims)

    threads = [threading.Thread(target=try_it, args=(claims,)) for claims in everyone]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1
    for claims in everyone:
        claims.close()


def test_sweep_removes_what_the_dead_left(folder):
    leave_claim(folder, "process-old.json")
    leave_claim(folder, "finished.0")
    leave_claim(folder, "open.0")
    claims = Claims(folder)
    claims.sweep({"finished"})
    assert not (folder / "process-old.json").exists()
    assert not (folder / "finished.0").exists()
    assert (folder / "open.0").exists()
    claims.close()


@pytest.mark.parametrize(("age", "taken"), [(5.0, False), (500.0, True)])
def test_where_processes_cannot_be_asked_the_heartbeat_decides(folder, monkeypatch, age, taken):
    """On Windows there are neither signals to ask with nor /proc."""
    leave_claim(folder, "k.0", age=age)
    claims = Claims(folder)
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        windows.setattr(module, "_born", lambda pid: None)
        windows.delattr(os, "kill")
        found = claims.take("k")
    assert found is taken
    claims.close()


def test_a_living_process_of_another_user_keeps_its_claim(folder, monkeypatch):
    def refuse(pid, number):
        raise PermissionError("not yours")

    if not os.path.exists("/proc/self/stat"):
        pytest.skip("the start of a process is read from /proc")
    me = os.getpid()
    leave_claim(folder, "k.0", pid=me, born=module._born(me), age=500.0)
    claims = Claims(folder)
    monkeypatch.setattr(os, "kill", refuse)
    assert not claims.take("k")
    claims.close()


def test_a_machine_without_process_namespaces_is_named_by_its_host(monkeypatch):
    def absent(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "readlink", absent)
    assert module._namespace().startswith(socket.gethostname())


def test_a_full_disk_leaves_no_empty_claim(folder, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    claims = Claims(folder)
    with monkeypatch.context() as disk:
        disk.setattr(module, "_identity", full)
        with pytest.raises(OSError, match=r"k\.0"):
            claims.take("k")
    assert not (folder / "k.0").exists()
    assert claims.take("k")
    claims.close()
