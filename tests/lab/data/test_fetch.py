import hashlib
import http.server
import io
import json
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from schirn.datasets import load
from schirn.datasets.cache import cache_folder
from schirn.exceptions import DataError
from schirn.lab.data import fetch


def npz_bytes():
    stream = io.BytesIO()
    np.savez(stream, X=np.eye(3), Y=np.eye(3, 2, dtype=np.uint8))
    return stream.getvalue()


GOOD = npz_bytes()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        if self.path in self.server.redirects:
            self.send_response(302)
            self.send_header("Location", self.server.redirects[self.path])
            self.end_headers()
            return
        body = self.server.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        self.send_response(200)
        short = self.path.startswith("/short")
        self.send_header("Content-Length", str(len(body) + (100 if short else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        running.files = {"/good.npz": GOOD, "/short.npz": GOOD, "/page.npz": b"<html>"}
        running.seen, running.redirects = [], {}
        running.address = f"http://127.0.0.1:{running.server_port}"
        thread = threading.Thread(target=running.serve_forever, args=[0.01])
        thread.start()
        yield running
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    return tmp_path / "cache"


def files_in(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []


def test_good_file_is_fetched_once(server, cache):
    data = fetch("mine", url=f"{server.address}/good.npz")
    assert data.n_samples == 3
    assert files_in(cache) == ["mine.npz", "mine.npz.json"]
    record = json.loads((cache / "mine.npz.json").read_text())
    assert record["sha256"] == hashlib.sha256(GOOD).hexdigest()
    fetch("mine", url=f"{server.address}/good.npz")
    assert len(server.seen) == 1
    fetch("mine", url=f"{server.address}/good.npz", force=True)
    assert len(server.seen) == 2
    assert load("mine").name == "mine"


def test_changed_file_is_noticed(server, cache):
    fetch("mine", url=f"{server.address}/good.npz")
    other = io.BytesIO()
    np.savez(other, X=np.ones((1, 1)), Y=np.ones((1, 1)))
    (cache / "mine.npz").write_bytes(other.getvalue())
    with pytest.raises(DataError, match=r"has changed since.*fetch\('mine', force=True\)"):
        load("mine")
    fetch("mine", url=f"{server.address}/good.npz", force=True)
    assert load("mine").n_samples == 3


def test_checksum(server, cache):
    right = hashlib.sha256(GOOD).hexdigest()
    with pytest.raises(DataError, match=f"SHA-256 checksum is {right}, expected 00"):
        fetch("mine", url=f"{server.address}/good.npz", sha256="00")
    assert files_in(cache) == []
    fetch("mine", url=f"{server.address}/good.npz", sha256=right.upper())
    with pytest.raises(DataError, match="the checksum is not 00"):
        fetch("mine", url=f"{server.address}/good.npz", sha256="00")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/none.npz", r"the server answered 404 \(Not Found\)"),
        ("/short.npz", r"ended after .* of .* bytes|it was lost"),
    ],
)
def test_failures_leave_nothing_behind(server, cache, path, message):
    with pytest.raises(DataError, match=message):
        fetch("mine", url=server.address + path)
    assert files_in(cache) == []


def test_a_failed_refresh_keeps_the_old_file(server, cache):
    fetch("mine", url=f"{server.address}/good.npz")
    with pytest.raises(DataError):
        fetch("mine", url=f"{server.address}/short.npz", force=True)
    assert load("mine").n_samples == 3
    assert files_in(cache) == ["mine.npz", "mine.npz.json"]


def test_size_limit(server, cache):
    with pytest.raises(DataError, match="more than max_bytes=100"):
        fetch("mine", url=f"{server.address}/good.npz", max_bytes=100)
    assert files_in(cache) == []


def test_size_limit_of_the_environment(server, cache, monkeypatch):
    monkeypatch.setenv("SCHIRN_MAX_BYTES", "100")
    with pytest.raises(DataError, match="more than max_bytes=100; raise max_bytes or SCHIRN_MAX"):
        fetch("mine", url=f"{server.address}/good.npz")
    assert files_in(cache) == []


def test_a_web_page_instead_of_data_is_not_kept(server, cache):
    with pytest.raises(DataError, match="the answer is a web page, not a data set"):
        fetch("page", url=f"{server.address}/page.npz")
    assert files_in(cache) == []


def test_a_file_that_cannot_be_read_is_not_kept(server, cache):
    server.files["/odd.npz"] = b"something else"
    with pytest.raises(DataError, match="not a readable npz archive"):
        fetch("odd", url=f"{server.address}/odd.npz")
    assert files_in(cache) == []
    server.files["/odd.npz"] = GOOD
    assert fetch("odd", url=f"{server.address}/odd.npz").n_samples == 3


@pytest.mark.parametrize(
    "url",
    ["http://example.org/a.npz", "http://127.0.0.1.example.org/a.npz", "ftp://127.0.0.1/a.npz",
     "http://localhost@example.org/a.npz"],
)  # fmt: skip
def test_only_https(url):
    with pytest.raises(DataError, match="is not an https address"):
        fetch("mine", url=url)


def test_a_redirect_away_from_https_is_not_followed(server, cache):
    server.redirects["/moved.npz"] = "http://example.org/a.npz"
    with pytest.raises(DataError, match=r"'http://example.org/a.npz' is not an https address"):
        fetch("mine", url=f"{server.address}/moved.npz")
    server.redirects["/moved.npz"] = f"{server.address}/good.npz"
    assert fetch("mine", url=f"{server.address}/moved.npz").n_samples == 3


@pytest.mark.parametrize(
    "url",
    ["https://[::1", "https://h:y/a.npz", "https://h:99999/a.npz", "https://../a.npz",
     f"https://{'a' * 300}.com/a.npz", "https://127.0.0.1:1/\xfc.npz", "https://a b/a.npz",
     "https:///a.npz", "https://h\n/a.npz"],
)  # fmt: skip
def test_odd_addresses_get_one_sentence(url):
    with pytest.raises(DataError, match=r"is not a web address|no connection"):
        fetch("mine", url=url, timeout=2)


def test_no_network():
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as closed:
        port = closed.server_port
    with pytest.raises(DataError, match="no connection"):
        fetch("mine", url=f"http://127.0.0.1:{port}/a.npz")


def test_only_web_addresses_and_known_suffixes(tmp_path):
    (tmp_path / "a.npz").write_bytes(GOOD)
    with pytest.raises(DataError, match="is not an https address"):
        fetch("mine", url=f"file://{tmp_path}/a.npz")
    with pytest.raises(DataError, match=r"no reader for '\.exe'"):
        fetch("mine", url="http://127.0.0.1/a.exe")
    with pytest.raises(DataError, match="cannot be the name of a file"):
        fetch("../mine", url="http://127.0.0.1/a.npz")
    with pytest.raises(DataError, match=r"no known address; pass url= or use emoji_editions"):
        fetch("mine")


@pytest.mark.parametrize(
    ("system", "variables", "folder"),
    [
        ("posix", {"XDG_CACHE_HOME": "/x"}, "/x/schirn"),
        ("posix", {"XDG_CACHE_HOME": ""}, "~/.cache/schirn"),
        ("nt", {"LOCALAPPDATA": "/local"}, "/local/schirn"),
        ("nt", {}, "~/AppData/Local/schirn"),
        ("nt", {"LOCALAPPDATA": "/local", "SCHIRN_CACHE": "~/mine"}, "~/mine"),
    ],
)
def test_where_the_cache_is(monkeypatch, system, variables, folder):
    monkeypatch.setattr("schirn.datasets.cache.os", SimpleNamespace(name=system, environ=variables))
    assert cache_folder() == Path(folder).expanduser()
    assert cache_folder("~/other") == Path("~/other").expanduser()
