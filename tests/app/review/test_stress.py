"""The server under load and abuse: many clients, slow ones, huge bodies, odd paths."""

import json
import os
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import pytest
from app.review.review_helpers import Server, write_project

from schirn.app.review import open_session

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("uvicorn", reason="the review page needs uvicorn")

CLIENTS, EACH = 50, 3
HUGE = 100 * 1024 * 1024


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    labels = [f"label {j}" for j in range(EACH)]
    items = [(f"item {i}", "A text.", dict.fromkeys(labels, 0.5)) for i in range(CLIENTS + 2)]
    return write_project(tmp_path_factory.mktemp("stress") / "project", items, labels)


@pytest.fixture(scope="module")
def server(project):
    with Server(project) as running:
        yield running


def headers(server, **more):
    base = {"Host": f"127.0.0.1:{server.port}", "Origin": f"http://127.0.0.1:{server.port}"}
    base |= {"Content-Type": "application/json", "Cookie": cookie(server)}
    return {key: value for key, value in (base | more).items() if value is not None}


def cookie(server):
    return f"schirn_review_{server.port}={server.token}"


def decide(server, item, label, action="keep", seen=0, connection=None):
    """Status and answer of one decision."""
    line = connection or HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = json.dumps({"action": action, "item": item, "label": label, "seen": seen})
    line.request("POST", "/api/decide", body, headers(server))
    answer = line.getresponse()
    content = json.loads(answer.read())
    if connection is None:
        line.close()
    return answer.status, content


def raw(server, request, n_bytes=65536):
    """What the server sends for these very bytes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(request)
        return line.recv(n_bytes)


def head(server, method, path, *lines):
    fields = [f"{key}: {value}" for key, value in headers(server).items()]
    text = "\r\n".join([f"{method} {path} HTTP/1.1", *fields, *lines]) + "\r\n\r\n"
    return text.encode("utf-8", "surrogateescape")


def memory(server):
    """Peak memory of the server, in bytes."""
    text = Path(f"/proc/{server.process.pid}/status").read_text()
    peak = next(line for line in text.splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) * 1024


def test_many_clients_at_once(server, project):
    def client(i):
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        found = [
            decide(server, f"item {i}", f"label {j}", "keep" if i % 2 else "drop", 0, connection)
            for j in range(EACH)
        ]
        connection.close()
        return [status for status, _ in found]

    with ThreadPoolExecutor(CLIENTS) as pool:
        statuses = [status for each in pool.map(client, range(CLIENTS)) for status in each]
    assert Counter(statuses) == {200: CLIENTS * EACH}
    check_journal(project, CLIENTS * EACH)


def check_journal(project, at_least):
    """Whole lines, numbered without gaps, and a state that follows from them."""
    content = (project / "journal.jsonl").read_bytes()
    assert content.endswith(b"\n")
    records = [json.loads(line) for line in content.splitlines()]
    assert [record["seq"] for record in records] == list(range(len(records)))
    assert len(records) > at_least
    session = open_session(project, write=False)
    assert session.sequence == len(records) - 1
    pairs = Counter((record["item"], record["label"]) for record in records[1:])
    assert max(pairs.values()) == 1


def test_of_two_tabs_one_wins(server):
    item = f"item {CLIENTS}"
    seen = server.request("/api/state")["seq"]
    together = threading.Barrier(8)

    def tab(action):
        together.wait()
        return decide(server, item, "label 0", action, seen)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(tab, ["keep", "drop"] * 4))
    assert sorted(status for status, _ in answers) == [200] + [409] * 7
    refused = next(content for status, content in answers if status == 409)
    assert "decided in another tab" in refused["error"]
    assert refused["state"]["seq"] == seen + 1


def test_slow_clients_do_not_hold_up_others(server):
    """Clients that never finish their request, before or within the body."""
    whole = head(server, "POST", "/api/decide", "Content-Length: 500")
    slow = []
    try:
        for k in range(40):
            line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            line.sendall(whole[: 5 + k] if k % 2 else whole + b"{")
            slow.append(line)
        start = time.monotonic()
        for _ in range(5):
            for line in slow:
                # The server hangs up where this makes nonsense of a request.
                with suppress(OSError):
                    line.sendall(b"x")
            server.request("/api/state")
        status, _ = decide(server, f"item {CLIENTS}", "label 1")
        assert status == 200
        assert time.monotonic() - start < 30
    finally:
        for line in slow:
            line.close()
    assert server.request("/api/state")["seq"] > 0


def test_half_sent_headers_make_room_for_whole_requests(project, tmp_path):
    """Many clients that never finish their headers: others are answered, and stderr stays quiet."""
    other = write_project(tmp_path / "project", [("a", "", {"x": 0.5})], ["x"])
    with Server(other) as server:
        slow = []
        for k in range(300):
            line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            line.sendall(b"GET / HTTP/1.1\r\nX-" + b"y" * k)
            slow.append(line)
        for _ in range(3):
            assert server.request("/api/state")["seq"] == 0
        # The first ones were closed to make room.
        with suppress(ConnectionError):
            assert slow[0].recv(10) == b""
        for line in slow:
            line.close()
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
    assert err.count("\n") == 1, err[:2000]


def test_clients_that_never_read_do_not_hold_up_others(server):
    """Many requests in a row on many connections, whose answers nobody reads."""
    greedy = []
    try:
        for _ in range(100):
            line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            line.setblocking(False)
            with suppress(BlockingIOError):
                line.send(head(server, "GET", "/api/state") * 200)
            greedy.append(line)
        start = time.monotonic()
        server.request("/api/state")
        assert time.monotonic() - start < 8
        # Each gets one answer, and is closed.
        answers, line = b"", greedy[0]
        line.setblocking(True)
        with suppress(ConnectionError):
            while block := line.recv(2**16):
                answers += block
        assert answers.count(b"HTTP/1.1 200") == 1
    finally:
        for line in greedy:
            line.close()


def test_an_answer_must_be_read_in_time(monkeypatch):
    import uvicorn

    from schirn.app.serving import _connections as connections

    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.5)
    ended = threading.Event()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            for _ in range(100):
                await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
        finally:
            ended.set()

    options = {"lifespan": "off", "log_level": "critical", "http": connections.LimitedProtocol}
    server = uvicorn.Server(uvicorn.Config(app, **options))
    listener = socket.create_server(("127.0.0.1", 0))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    running.start()
    try:
        with socket.create_connection(listener.getsockname(), timeout=60) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert ended.wait(30)
    finally:
        server.should_exit = True
        running.join(60)
    assert not running.is_alive()


def test_a_request_must_be_complete_in_time(tmp_path, monkeypatch):
    import uvicorn

    from schirn.app.serving import _connections as connections

    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.3)

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(
        app, lifespan="off", log_level="critical", http=connections.LimitedProtocol
    )
    server = uvicorn.Server(config)
    listener = socket.create_server(("127.0.0.1", 0))
    running = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    running.start()
    try:
        for part in (
            b"",
            b"GET / HTT",
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nx",
        ):
            with socket.create_connection(listener.getsockname(), timeout=60) as line:
                line.sendall(part)
                with suppress(ConnectionError):
                    assert line.recv(100) == b""
        # A connection can be used again after a whole request.
        monkeypatch.setattr(connections, "REQUEST_SECONDS", 60)
        with socket.create_connection(listener.getsockname(), timeout=60) as line:
            for _ in range(2):
                line.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert b" 204 " in line.recv(1000)
    finally:
        server.should_exit = True
        running.join(60)
    assert not running.is_alive()


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
@pytest.mark.parametrize("announced", [True, False], ids=["with length", "in chunks"])
def test_huge_bodies_are_refused_and_not_kept(server, announced):
    before = memory(server)
    length = f"Content-Length: {HUGE}" if announced else "Transfer-Encoding: chunked"
    piece = b" " * 65536
    chunk = piece if announced else b"10000\r\n" + piece + b"\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        line.sendall(head(server, "POST", "/api/decide", length))
        sent = push(line, chunk)
        answer = line.recv(4096)
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert sent < HUGE // 2, "the server took the body to its end"
    assert memory(server) - before < 20 * 1024 * 1024


def push(line, chunk):
    """Send until the server answers or hangs up; the number of bytes sent."""
    sent = 0
    line.setblocking(False)
    end = time.monotonic() + 30
    while sent < HUGE and time.monotonic() < end:
        try:
            sent += line.send(chunk)
        except BlockingIOError:
            time.sleep(0.01)
        except OSError:
            break
        try:
            if line.recv(1, socket.MSG_PEEK):
                break
        except BlockingIOError:
            pass
        except OSError:
            break
    line.setblocking(True)
    line.settimeout(60)
    return sent


@pytest.mark.parametrize(
    "path",
    [
        "/../project.json",
        "/../../../../etc/passwd",
        "//etc/passwd",
        "/%2e%2e/%2e%2e/project.json",
        "/..%2f..%2fjournal.jsonl",
        "/%252e%252e/project.json",
        "/page.js%00.html",
        "/\\..\\project.json",
        "/page.css/../../_app.py",
        "/tags.csv/..",
        "/" + "a" * 20_000,
        "/" + "../" * 2000 + "etc/passwd",
        "/%ff%fe",
        "/static/page.js",
        "/.git/config",
    ],
    ids=range(15),
)
def test_odd_paths_lead_nowhere(server, path):
    answer = raw(server, head(server, "GET", path))
    status = int(answer.split()[1])
    assert status in (400, 404, 414, 431), answer[:200]
    assert b"schirn-review" not in answer
    assert b"root:" not in answer


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET / HTTP/9.9\r\n\r\n", b"\0" * 100, b"GET /\0 HTTP/1.1\r\n\r\n", b"\xff\xfe\r\n\r\n",
     b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 300_000 + b"\r\n\r\n",
     b"POST /api/decide HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
     b"POST /api/decide HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx"],
    ids=range(7),
)  # fmt: skip
def test_what_is_no_http_is_refused(server, request_bytes):
    try:
        answer = raw(server, request_bytes)
    except ConnectionError:
        answer = b""
    assert not answer or int(answer.split()[1]) in (400, 403, 404, 413, 421, 431, 505)
    assert server.request("/api/state")["seq"] >= 0


def test_strangers_change_nothing(server, project):
    before = (project / "journal.jsonl").read_bytes()
    body = {"action": "keep", "item": f"item {CLIENTS + 1}", "label": "label 0", "seen": 0}
    wrong = [
        (421, {"Host": "evil.example"}),
        (421, {"Host": f"127.0.0.1.evil.example:{server.port}"}),
        (421, {"Host": "127.0.0.1:1"}),
        (403, {"Origin": "http://evil.example"}),
        (403, {"Origin": "null"}),
        (403, {"Origin": None}),
        (403, {"Cookie": cookie(server)[:-1]}),
        (403, {"Cookie": None}),
        (403, {"Cookie": f"schirn_review_{server.port}="}),
        (415, {"Content-Type": "text/plain"}),
    ]
    for status, change in wrong:
        line = HTTPConnection("127.0.0.1", server.port, timeout=60)
        line.request("POST", "/api/decide", json.dumps(body), headers(server, **change))
        assert line.getresponse().status == status, change
        line.close()
    for content in (b"", b"[]", b"{", b"[" * 60_000, b"\xff", b'{"action": 1}', b'"keep"', b"null"):
        line = HTTPConnection("127.0.0.1", server.port, timeout=60)
        line.request("POST", "/api/decide", content, headers(server))
        assert line.getresponse().status == 400, content[:20]
        line.close()
    for action in ("explode", "", "KEEP", "undo", "rename"):
        status, _ = decide(server, body["item"], body["label"], action, 0)
        assert status in (400, 409)
    assert (project / "journal.jsonl").read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
def test_nothing_of_this_reaches_the_terminal(folder):
    """A client that leaves in the middle of a request is no reason for a traceback."""
    with Server(folder) as server:
        for _ in range(3):
            line = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            line.sendall(head(server, "POST", "/api/decide", "Content-Length: 500") + b"{")
            server.request("/api/state")
            line.close()
        server.request("/api/state")
        server.process.send_signal(signal.SIGINT)
        _, err = server.process.communicate(timeout=60)
    assert err.count("\n") == 1, err
    assert err.startswith("schirn: stopped")
