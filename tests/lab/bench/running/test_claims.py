import builtins
import errno
import os
import subprocess
import sys
import threading

import pytest

from schirn.lab.bench.running.claims import Claims


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "claims"


def take_elsewhere(folder):
    """Claim a run in another process, which then waits."""
    program = (
        "import sys, pathlib\n"
        "from schirn.lab.bench.running.claims import Claims\n"
        "claims = Claims(pathlib.Path(sys.argv[1]))\n"
        "print(claims.take('k'), flush=True)\n"
        "sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "True\n"
    return process


def test_a_run_has_one_owner(folder):
    first, second = Claims(folder), Claims(folder)
    assert first.take("k")
    assert not second.take("k")
    assert not first.take("k")
    first.release("k")
    assert second.take("k")
    first.close()
    assert not Claims(folder).take("k")
    second.close()
    assert not folder.exists()


def test_the_claim_of_a_dead_process_is_taken_over(folder):
    process = take_elsewhere(folder)
    claims = Claims(folder)
    assert not claims.take("k")
    process.kill()
    process.communicate()
    assert (folder / "k").exists()
    assert claims.take("k")
    claims.close()
    assert not folder.exists()


def test_many_at_once_and_one_wins(folder):
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


def test_a_claim_that_is_released_while_another_waits_is_made_anew(folder, monkeypatch):
    first, second = Claims(folder), Claims(folder)
    assert first.take("k")
    open_file, opened = os.open, []

    def release_after(path, *args):
        file = open_file(path, *args)
        if not opened:
            opened.append(path)
            first.release("k")
        return file

    monkeypatch.setattr(os, "open", release_after)
    assert second.take("k")
    monkeypatch.undo()
    assert (folder / "k").exists()
    assert not Claims(folder).take("k")
    second.close()


def test_closing_removes_what_the_dead_left(folder):
    folder.mkdir()
    (folder / "finished").touch()
    held = Claims(folder)
    assert held.take("open")
    Claims(folder).close()
    assert [path.name for path in folder.iterdir()] == ["open"]
    held.close()
    assert not folder.exists()


def test_without_locks_every_claim_succeeds(folder, monkeypatch):
    """As on Windows, and on some network file systems."""
    import_module = builtins.__import__

    def without_fcntl(name, *args, **kwargs):
        if name == "fcntl":
            raise ImportError(name)
        return import_module(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_fcntl)
    first, second = Claims(folder), Claims(folder)
    assert first.take("k")
    assert second.take("k")
    first.close()
    second.close()
    assert not folder.exists()


def test_a_full_disk_leaves_no_claim(folder, monkeypatch):
    def full(path, *_):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    claims = Claims(folder)
    with monkeypatch.context() as disk:
        disk.setattr(os, "open", full)
        with pytest.raises(OSError, match=r"claims/k"):
            claims.take("k")
    assert claims.take("k")
    claims.close()
