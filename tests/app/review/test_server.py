import csv
import json
import os
import signal
import socket
import stat
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from app.review.review_helpers import Server

from schirn.app.cli import main
from schirn.app.review import open_session, serve

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")


def sentence(capsys, *argv):
    """Run a command that must fail; return its one sentence."""
    assert main(["review", *map(str, argv)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_kill_9_loses_nothing(larger):
    with Server(larger) as server:
        confirmed = [server.decide("keep"), server.decide("drop"), server.decide("keep")]
        # Killed while another client goes on deciding.
        busy = threading.Thread(target=hammer, args=(server, confirmed), daemon=True)
        busy.start()
        end = time.monotonic() + 60
        while len(confirmed) < 8 and time.monotonic() < end:
            time.sleep(0.002)
        assert len(confirmed) >= 8
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        busy.join(60)
    journal = larger / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq": 99, "ti')
    with Server(larger) as server:
        state = server.request("/api/state")
        # At most the one decision under way may be there without having been confirmed.
        assert len(confirmed) <= state["seq"] <= len(confirmed) + 1
        server.decide("skip")
    session = open_session(larger, write=False)
    pairs = [(record["item"], record["label"]) for record in session.journal.records]
    assert pairs[: len(confirmed)] == confirmed
    assert session.sequence == state["seq"] + 1


def hammer(server, confirmed):
    try:
        while True:
            confirmed.append(server.decide("drop"))
    except (OSError, HTTPException):
        # The server died before its answer, or in the middle of it.
        return


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_ctrl_c_is_a_clean_end(folder):
    with Server(folder) as server:
        server.decide("keep")
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
        assert server.process.returncode == 0
    assert "journal.jsonl" in server.saved_in
    assert f"stopped; the decisions on 1 tag are in {folder / 'journal.jsonl'}; to write" in err


def raw(server, request):
    """The status line that the server sends for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(request)
        return line.recv(65536).split(b"\r\n")[0].decode()


def test_the_server_itself(folder, capsys):
    with Server(folder) as server:
        host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
        token = server.token.encode()
        assert len(token) >= 40
        for path in (b"/../project.json", b"/page.js/../../_app.py", b"/..%2f..%2fproject.json"):
            request = b"GET " + path + b"?token=" + token + b" HTTP/1.1\r\n" + host + b"\r\n"
            assert " 404 " in raw(server, request)
        start = b"GET /api/state?token=" + token
        assert " 200 " in raw(server, start + b" HTTP/1.1\r\n" + host + b"\r\n")
        assert " 421 " in raw(server, start + b" HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert " 421 " in raw(server, start + b" HTTP/1.0\r\n\r\n")
        twice = start + b" HTTP/1.1\r\n" + host + host + b"\r\n"
        assert raw(server, twice).split()[1] in ("400", "421")
        assert_only_this_machine(server.port)
        assert "already open in another schirn review" in sentence(capsys, folder, "--no-browser")


def assert_only_this_machine(port):
    """Other addresses of this machine, as others would use them, are closed."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as other:
        other.settimeout(5)
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_a_port_in_use(folder, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} cannot be used" in sentence(capsys, folder, "--port", port)
    assert "from 0 to 65535" in sentence(capsys, folder, "--port", "65536")


def test_export_without_a_server(folder, tmp_path, capsys):
    session = open_session(folder)
    session.decide("keep", "b", "cat", 0)
    session.journal.close()
    before = sorted(folder.iterdir())
    assert main(["review", str(folder), "--export", str(tmp_path / "tags.csv")]) == 0
    assert "wrote 3 items" in capsys.readouterr().err
    lines = (tmp_path / "tags.csv").read_text().splitlines()
    tags = [row["tags"] for row in csv.DictReader(lines)]
    assert tags == ["dog;beach", "cat", ""]
    assert main(["review", str(folder), "--export", str(tmp_path / "tags.jsonl")]) == 0
    lines = (tmp_path / "tags.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["tags"] == "dog;beach"
    assert sorted(folder.iterdir()) == before


def test_export_of_a_folder_without_decisions_changes_nothing(folder, tmp_path):
    before = sorted(folder.iterdir())
    assert main(["review", str(folder), "--export", str(tmp_path / "tags.csv")]) == 0
    assert sorted(folder.iterdir()) == before


def test_mistakes_get_one_sentence(folder, tmp_path, capsys):
    assert "not a review project" in sentence(capsys, tmp_path, "--no-browser")
    assert "must end as that of a table" in sentence(capsys, folder, "--export", "tags.xls")
    assert "does not exist" in sentence(capsys, folder, "--export", tmp_path / "no" / "tags.csv")
    (folder / "tags.npz").write_text("{")
    message = sentence(capsys, folder, "--export", tmp_path / "tags.csv")
    assert "tags.npz: damaged or edited" in message


def test_without_the_packages(folder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert 'pip install "starlette>=' in sentence(capsys, folder, "--no-browser")
    assert main(["review", str(folder), "--export", str(tmp_path / "tags.csv")]) == 0


def test_opens_the_browser_by_a_private_file(folder, monkeypatch):
    opened, addresses, pages = threading.Event(), [], []

    def browse(address):
        path = Path(url2pathname(urlsplit(address).path))
        pages.append((address, path, path.read_text(), stat.S_IMODE(path.stat().st_mode)))
        opened.set()

    monkeypatch.setattr("webbrowser.open", browse)
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: opened.wait(60))
    assert serve(folder, ready=addresses.append) == 0
    [(address, path, content, mode)] = pages
    token = addresses[0].partition("token=")[2]
    assert len(token) >= 40
    # The command line of the browser holds this address, and everybody can read it.
    assert address.startswith("file:")
    assert token not in address
    assert f"url={addresses[0]}" in content
    assert mode == 0o600 or os.name != "posix"
    assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_folder_without_permissions_gets_no_private_file(folder, monkeypatch):
    before = sorted(folder.iterdir())
    pages = []
    monkeypatch.setattr("webbrowser.open", pages.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    real = os.open
    # As on a file system that gives every file to everybody.
    monkeypatch.setattr(
        "schirn.app.review._serve.os.open",
        lambda path, flags, mode=0o777, **more: real(
            path, flags, 0o644 if Path(path).parent == folder and mode == 0o600 else mode, **more
        ),
    )
    serve(folder)
    assert sorted(p for p in folder.iterdir() if p.name != "journal.jsonl") == before
    # The address is printed, but no command line may hold it.
    assert pages == []


@pytest.mark.skipif(os.name != "posix", reason="Windows does not let go of an open file")
def test_a_replaced_journal_is_refused_and_nothing_is_lost(folder, capsys):
    with Server(folder) as server:
        confirmed = [server.decide("keep"), server.decide("drop")]
        journal = folder / "journal.jsonl"
        # As git and synchronisation tools do.
        (folder / "older").write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
        os.replace(folder / "older", journal)
        with pytest.raises(HTTPError) as error:
            server.decide("keep")
        answer = json.load(error.value)
        assert error.value.code == 507
        assert "The decision is not saved" in answer["error"]
        assert "already open in another schirn review" in sentence(capsys, folder, "--no-browser")
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
        assert server.process.returncode == 2
        assert "replaced, changed or deleted" in err
        assert err.count("\n") == 1
    [rescued] = folder.glob("journal-rescued-*.jsonl")
    os.replace(rescued, journal)
    records = open_session(folder, write=False).journal.records
    assert [(record["item"], record["label"]) for record in records] == confirmed


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_ctrl_c_with_a_half_sent_body(folder):
    with Server(folder) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
            line.sendall(
                f"POST /api/decide?token={server.token} HTTP/1.1\r\nHost: 127.0.0.1:{server.port}"
                f"\r\nOrigin: http://127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
                f"Content-Length: 500\r\n\r\n{{".encode()
            )
            server.request("/api/state")
            server.process.send_signal(signal.SIGINT)
            _, err = server.process.communicate(timeout=60)
        assert server.process.returncode == 0
    assert err.count("\n") == 1
    assert "stopped; the decisions on 0 tags" in err


def test_a_repaired_journal_is_told(folder, capsys, tmp_path):
    session = open_session(folder)
    session.decide("keep", "b", "cat", 0)
    session.journal.close()
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"seq": 2, "ti')
    assert main(["review", str(folder), "--export", str(tmp_path / "tags.csv")]) == 0
    assert "incomplete last line" in capsys.readouterr().err


def test_no_browser_and_nobody_to_tell(folder, monkeypatch, capsys):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets: None)
    assert serve(folder, browser=False) == 0
    assert opened == []
    assert capsys.readouterr() == ("", "")


def test_an_address_that_is_not_of_this_machine(folder, monkeypatch):
    monkeypatch.setattr("schirn.app.review._serve.HOST", "203.0.113.1")
    with pytest.raises(OSError, match="assign requested address"):
        serve(folder, browser=False)
    # Nothing is left open: the journal can be taken again.
    open_session(folder).journal.close()
