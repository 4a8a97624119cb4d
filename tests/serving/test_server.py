"""`schirn serve` as a program: signals, and a new model that nobody waits for."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

import schirn
from schirn.cli import main
from schirn.features import TagPipeline

pytest.importorskip("uvicorn")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way"),
]

TITLES = ["red pan", "steel pan", "red chair", "oak chair"] * 6


def save_tagger(path, names=("pan", "chair")):
    tags = [names[0], names[0], names[1], names[1]] * 6
    schirn.save(TagPipeline(text="title").fit({"title": TITLES}, tags), path)


@pytest.fixture
def model(tmp_path):
    save_tagger(tmp_path / "tagger.schirn")
    return tmp_path / "tagger.schirn"


@pytest.fixture
def start(model):
    """Start the program; the port of the server and the process."""
    started = []

    def run(*options):
        command = [sys.executable, "-m", "schirn", "serve", str(model), "--port", "0", *options]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        line = process.stdout.readline()
        return int(re.search(r":(\d+);", line)[1]), process

    yield run
    for process in started:
        process.kill()
        process.communicate()


def ask(port, title="blue pan", path="/predict", timeout=60):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    body = json.dumps({"rows": [{"title": title}]})
    connection.request("POST", path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    return answer.status, content["rows"][0]["tags"]


def test_a_stop_answers_requests_in_flight(start):
    port, process = start("--max-rows", "1000000")
    assert ask(port) == (200, ["pan"])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"rows": [{"title": "oak chair"}] * 200_000})
    connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
    time.sleep(0.5)
    process.send_signal(signal.SIGTERM)
    rows = json.loads(connection.getresponse().read())["rows"]
    assert (len(rows), rows[-1]["tags"]) == (200_000, ["chair"])
    connection.close()
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == "schirn: stopped; all requests were answered\n"
    with pytest.raises(OSError):
        ask(port)


def test_a_new_model_is_loaded_and_no_request_is_lost(start, model):
    port, process = start()
    answers, failures, is_over = [], [], threading.Event()

    def ask_often():
        while not is_over.is_set():
            try:
                answers.append(ask(port))
            except Exception as error:
                failures.append(error)

    thread = threading.Thread(target=ask_often)
    thread.start()
    save_tagger(model, ("wok", "seat"))
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and answers[-20:] != [(200, ["wok"])] * 20:
        time.sleep(0.1)
    is_over.set()
    thread.join()
    assert failures == []
    assert {status for status, _ in answers} == {200}
    assert answers[0] == (200, ["pan"])
    assert answers[-20:] == [(200, ["wok"])] * 20
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.startswith("schirn: the model was loaded again\n")


def test_a_model_that_cannot_be_read_leaves_the_old_one(start, model):
    port, process = start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def health():
        connection.request("GET", "/health")
        return json.loads(connection.getresponse().read())["model"]["sha256"]

    first = health()
    model.write_bytes(model.read_bytes()[:100])
    process.send_signal(signal.SIGHUP)
    assert "was not loaded again; the old one stays" in process.stderr.readline()
    assert health() == first
    save_tagger(model, ("wok", "seat"))
    process.send_signal(signal.SIGHUP)
    assert "was loaded again" in process.stderr.readline()
    assert health() != first
    connection.close()


def test_what_cannot_be_served_is_said(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "absent.schirn")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    schirn.save(schirn.CandidateRidge().fit([[0.0], [1.0]], [[0, 1], [1, 0]]), tmp_path / "m")
    assert main(["serve", str(tmp_path / "m")]) == 2
    assert "a server needs a model of the columns of a table" in capsys.readouterr().err
