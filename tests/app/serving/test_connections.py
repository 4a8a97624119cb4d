"""More connections than a server takes: all requests are answered, the surplus ones with 503."""

import logging
import re
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn")

import uvicorn

from schirn.app.serving import _connections as connections
from schirn.app.serving._access import AccessLog
from schirn.app.serving._metrics import Metrics
from schirn.app.serving.app import create_app
from schirn.features import TagPipeline

TITLES = ["red pan", "steel pan", "red chair", "oak chair"] * 6
TAGS = ["pan", "pan", "chair", "chair"] * 6
REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def metrics():
    return Metrics()


@pytest.fixture
def address(metrics, tmp_path, monkeypatch):
    """Address of a server with room for four connections and two surplus ones."""
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(connections, "MAX_SURPLUS", 2)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 30)
    tagger = TagPipeline(text="title").fit({"title": TITLES}, TAGS)
    log = AccessLog(tmp_path / "access.jsonl")
    app = create_app(tagger, metrics=metrics, access_log=log)
    options = {**connections.OPTIONS, "http": connections.LimitedProtocol}
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", **options))
    listener = connections.listen("127.0.0.1", 0)
    running = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    running.start()
    yield listener.getsockname()
    server.should_exit = True
    running.join(60)
    listener.close()
    log.close()
    assert not running.is_alive()


def connect(address, count):
    lines = []
    for _ in range(count):
        lines.append(socket.create_connection(address, timeout=60))
        time.sleep(0.05)
    return lines


def answer_on(line):
    """Read a whole answer."""
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += line.recv(4096)
    head, _, body = answer.partition(b"\r\n\r\n")
    length = int(re.search(rb"content-length: (\d+)", head, re.I)[1])
    while len(body) < length:
        body += line.recv(4096)
    assert len(body) == length
    return head


def close(lines):
    for line in lines:
        line.close()


def test_surplus_connections_are_answered_with_503(address, metrics, tmp_path):
    lines = connect(address, 6)
    answers = []
    for line in lines:
        line.sendall(REQUEST)
        answers.append(answer_on(line))
    assert [b" 200 OK" in answer for answer in answers] == [True] * 4 + [False] * 2
    for answer in answers[4:]:
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer.lower()
        assert b"connection: close" in answer.lower()
    # The first ones are still open.
    lines[0].sendall(REQUEST)
    assert b" 200 OK" in answer_on(lines[0])
    close(lines)
    assert 'schirn_overload_total{reason="connections"} 2' in metrics.text()
    assert (tmp_path / "access.jsonl").read_text().count('"status": 503') == 2


def test_the_rest_is_refused_at_once(address, metrics, tmp_path):
    lines = connect(address, 8)
    for line in lines[6:]:
        assert answer_on(line).startswith(b"HTTP/1.1 503 ")
        assert line.recv(10) == b""
    close(lines)
    assert 'schirn_overload_total{reason="connections"} 2' in metrics.text()
    assert "schirn_requests_in_flight 0" in metrics.text()
    assert (tmp_path / "access.jsonl").read_text().count('"status": 503') == 2


def test_connections_that_ask_nothing_make_room(address, monkeypatch):
    lines = connect(address, 4)
    monkeypatch.setattr(connections, "SETTLE_SECONDS", 0.0)
    late = connect(address, 1)
    late[0].sendall(REQUEST)
    assert b" 200 OK" in answer_on(late[0])
    assert lines[0].recv(10) == b""
    close(lines + late)


def test_a_request_that_breaks_off_has_one_answer_and_no_traceback(address, caplog):
    log = logging.getLogger("uvicorn.error")
    log.addHandler(caplog.handler)
    before = log.level
    log.setLevel(logging.WARNING)
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    try:
        with socket.create_connection(address, timeout=60) as line:
            line.sendall(head + b"ZZ\r\n")
            assert answer_or_end(line).startswith(b"HTTP/1.1 400 ")
        (healthy,) = connect(address, 1)
        healthy.sendall(REQUEST)
        assert b" 200 OK" in answer_on(healthy)
        healthy.close()
    finally:
        log.removeHandler(caplog.handler)
        log.setLevel(before)
    shown = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert set(shown) == {"Invalid HTTP request received."}


def answer_or_end(line):
    """Read until the server closes the connection."""
    answer = b""
    while piece := line.recv(4096):
        answer += piece
    return answer
