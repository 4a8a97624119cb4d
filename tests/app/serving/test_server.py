"""`schirn serve` as a program: workers, signals, and a restart that nobody notices."""

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import schirn
from schirn.app.cli import main
from schirn.features import TagPipeline

pytest.importorskip("uvicorn")

from schirn.app.serving._connections import listen

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


def is_refused(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return True
    return False


def test_a_stop_answers_requests_in_flight(start):
    port, process = start()
    assert ask(port) == (200, ["pan"])
    # Accepted, but the request comes after the signal.
    late = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    late.connect()
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    # Who connects now must not wait for a server that never answers.
    deadline = time.monotonic() + 8
    while not is_refused(port) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert is_refused(port)
    assert process.poll() is None
    body = json.dumps({"rows": [{"title": "oak chair"}]})
    late.request("POST", "/predict", body, {"Content-Type": "application/json"})
    answer = late.getresponse()
    assert json.loads(answer.read())["rows"][0]["tags"] == ["chair"]
    assert answer.getheader("Connection") == "close"
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err == "schirn: stopped; all requests that had arrived were answered\n"
    with pytest.raises(OSError):
        ask(port)


def test_a_restart_loads_the_new_model_and_loses_nothing(start, model):
    port, process = start("--workers", "2")
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
    process.communicate(timeout=60)
    assert process.returncode == 0


def kill_worker(process):
    # Python runs a resource tracker beside the workers.
    command = ["pgrep", "-P", str(process.pid), "-f", "spawn_main"]
    workers = subprocess.run(command, capture_output=True, text=True)
    os.kill(int(workers.stdout.split()[0]), signal.SIGKILL)


def test_workers_of_a_dead_server_stop(start):
    port, process = start("--workers", "2")
    process.kill()
    process.wait()
    time.sleep(5)
    with pytest.raises(OSError):
        ask(port)


def test_all_workers_are_counted(start):
    port, _ = start("--workers", "2")
    for _ in range(12):
        assert ask(port) == (200, ["pan"])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/metrics")
    lines = connection.getresponse().read().decode().splitlines()
    assert 'schirn_requests_total{path="/predict",status="200"} 12' in lines
    assert "schirn_requests_in_flight 1" in lines


def get(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    content = connection.getresponse().read().decode()
    connection.close()
    return content


@pytest.mark.parametrize("begin", ["a reload", "a worker that died"])
@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_does_not_wait_for_workers_that_load(start, tmp_path, begin, stop):
    """They would wait for a reader of the log for ever, and uvicorn for two minutes."""
    log = tmp_path / "access.jsonl"
    port, process = start("--workers", "2", "--access-log", str(log))
    assert ask(port) == (200, ["pan"])
    log.unlink()
    os.mkfifo(log)
    if begin == "a reload":
        process.send_signal(signal.SIGHUP)
    else:
        kill_worker(process)
    time.sleep(3)
    process.send_signal(stop)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert err.endswith("schirn: stopped; all requests that had arrived were answered\n")


def test_a_failed_reload_is_told_counted_and_shown(start, model):
    port, process = start("--workers", "2", "--log-json")
    assert json.loads(get(port, "/health"))["failed_reload"] is None
    before = json.loads(get(port, "/health"))["model"]["sha256"]
    good = model.read_bytes()
    model.write_bytes(good[:100])
    process.send_signal(signal.SIGHUP)
    line = json.loads(process.stderr.readline())
    assert "the old one stays: " in line["message"]
    assert "truncated" in line["message"]
    assert (line["level"], line["logger"]) == ("error", "schirn.program")
    health = json.loads(get(port, "/health"))
    assert (health["status"], health["model"]["sha256"]) == ("ok", before)
    assert health["failed_reload"] >= health["model"]["loaded"]
    assert 'schirn_reloads_total{result="failed"} 1' in get(port, "/metrics")
    save_tagger(model, ("wok", "seat"))
    process.send_signal(signal.SIGHUP)
    assert "by all workers" in json.loads(process.stderr.readline())["message"]
    health = json.loads(get(port, "/health"))
    assert health["failed_reload"] is None
    lines = get(port, "/metrics").splitlines()
    assert 'schirn_reloads_total{result="ok"} 1' in lines
    assert f'schirn_model_info{{sha256="{health["model"]["sha256"]}"}} 1' in lines
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert [json.loads(line)["level"] for line in err.splitlines()] == ["info"]


def test_a_reload_that_only_some_workers_finish_is_completed(start, model):
    port, process = start("--workers", "2")
    before = json.loads(get(port, "/health"))["model"]["sha256"]
    save_tagger(model, ("wok", "seat"))
    good = model.read_bytes()
    process.send_signal(signal.SIGHUP)
    deadline = time.monotonic() + 240
    while json.loads(get(port, "/health"))["model"]["sha256"] == before:
        assert time.monotonic() < deadline
    # The second worker is still importing libraries.
    model.write_bytes(good[:100])
    line = process.stderr.readline()
    assert "by 1 of 2 workers only, and the others try again every 10 seconds: " in line
    assert json.loads(get(port, "/health"))["failed_reload"] is not None
    model.write_bytes(good)
    while "by all workers" not in process.stderr.readline():
        assert time.monotonic() < deadline
    answers = {json.loads(get(port, "/health"))["model"]["sha256"] for _ in range(20)}
    assert len(answers) == 1
    assert before not in answers
    assert json.loads(get(port, "/health"))["failed_reload"] is None


def test_the_time_to_start_is_limited(model, tmp_path, start):
    log = tmp_path / "access.jsonl"
    _, process = start("--access-log", str(log), "--start-timeout", "1m")
    process.terminate()
    process.communicate(timeout=60)
    command = [sys.executable, "-m", "schirn", "serve", str(model), "--port", "0"]
    done = subprocess.run([*command, "--start-timeout", "0.01"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no answer within 0.01 seconds; see --start-timeout" in done.stderr


def test_a_worker_that_cannot_start_again_says_why_as_json(start, model):
    _, process = start("--log-json")
    model.write_bytes(b"no model")
    kill_worker(process)
    lines = [json.loads(process.stderr.readline())["message"] for _ in range(2)]
    assert lines[0] == "a worker of the server died (code -9); it is started again"
    assert lines[1].startswith(f"a worker of the server did not start: {model}: not a model file")
    process.terminate()
    _, err = process.communicate(timeout=60)
    assert all(json.loads(line) for line in err.splitlines())


def test_a_worker_that_dies_is_replaced(start):
    port, process = start("--workers", "1")
    kill_worker(process)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            assert ask(port) == (200, ["pan"])
            break
        except OSError:
            time.sleep(0.2)
    else:
        pytest.fail("no worker answers")
    assert "a worker of the server died (code -9)" in process.stderr.readline()


def test_a_reload_answers_open_connections_and_is_told(start, model):
    port, process = start("--workers", "1")
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def health():
        connection.request("GET", "/health")
        answer = connection.getresponse()
        return json.loads(answer.read())["model"]["sha256"], answer.getheader("Connection")

    before, _ = health()
    good = model.read_bytes()
    model.write_bytes(good[:100])
    process.send_signal(signal.SIGHUP)
    assert "was not loaded again; the old one stays" in process.stderr.readline()
    assert health() == (before, None)
    save_tagger(model, ("wok", "seat"))
    process.send_signal(signal.SIGHUP)
    # The old worker answers once more on the open connection, and says that it closes it.
    answers = [health()]
    deadline = time.monotonic() + 60
    while answers[-1][0] == before and time.monotonic() < deadline:
        answers.append(health())
        time.sleep(0.05)
    assert [close for sha256, close in answers if sha256 == before][-1] == "close"
    assert answers[-1][0] != before
    assert "was loaded again by all workers" in process.stderr.readline()


def test_what_cannot_be_served_is_said(tmp_path, capsys):
    assert main(["serve", str(tmp_path / "absent.schirn")]) == 2
    assert "there is no such file" in capsys.readouterr().err
    schirn.save(schirn.CandidateRidge().fit([[0.0], [1.0]], [[0, 1], [1, 0]]), tmp_path / "m")
    assert main(["serve", str(tmp_path / "m")]) == 2
    assert "a server needs a model of the columns of a table" in capsys.readouterr().err


def test_further_requests_of_a_connection_do_not_wait(start):
    """Without TCP_NODELAY, every request after the first few takes 40 ms."""
    port, _ = start()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    body = json.dumps({"rows": [{"title": "blue pan"}]})
    times = []
    for _ in range(60):
        begin = time.perf_counter()
        connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
        assert connection.getresponse().read()
        times.append(time.perf_counter() - begin)
    connection.close()
    assert sorted(times)[30] < 0.03


def test_the_socket_names_its_protocol():
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP


def test_many_clients_are_all_answered(start):
    """300 clients on connections that stay open, each with five requests."""
    port, _ = start()
    ask(port)
    statuses, errors = [], []
    barrier = threading.Barrier(300)
    body = json.dumps({"rows": [{"title": "blue pan"}]})

    def run():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.connect()
            barrier.wait(60)
            for _ in range(5):
                connection.request("POST", "/predict", body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
        except Exception as error:
            errors.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=run) for _ in range(300)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(statuses) == 1500
    assert set(statuses) == {200}


def test_the_log_and_the_names_of_the_server(start, tmp_path):
    log = tmp_path / "access.jsonl"
    port, _ = start("--access-log", str(log), "--allow-host", "tags.example, b.example")
    for host, status in (("b.example", 200), ("evil.com", 421), (f"localhost:{port}", 200)):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/health", headers={"Host": host, "X-Request-ID": host[:9]})
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("X-Request-ID")) == (status, host[:9])
        connection.close()
    # A line follows the answer.
    deadline = time.monotonic() + 30
    while log.read_text().count("\n") < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["id"] for line in lines] == ["b.example", "evil.com", "localhost"]
    assert [line["status"] for line in lines] == [200, 421, 200]
    assert {line["client"] for line in lines} == {"127.0.0.1"}
    assert log.stat().st_mode & 0o007 == 0


def test_a_log_that_cannot_be_opened_is_said(model, tmp_path, capsys):
    assert main(["serve", str(model), "--access-log", str(tmp_path / "no" / "log")]) == 2
    assert "no/log" in capsys.readouterr().err
