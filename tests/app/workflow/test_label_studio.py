"""The client of Label Studio against a server that speaks its documented format."""

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from app.cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.app.workflow import LABEL_CONFIG, Decisions, LabelStudio, TableCleaning
from schirn.exceptions import DataError, InputError

TOKEN = "f3a9c0ffee5eed"
PERSONAL = "eyJhbGciOi.eyJ0b2tlbiI6.c2lnbmF0dXJl"


class Studio:
    """Projects in memory, behind the addresses of the API."""

    def __init__(self):
        self.projects = {3: {"label_config": LABEL_CONFIG}}
        self.tasks = {3: []}
        self.imports = {}
        self.requests = []
        self.access = "access.for.minutes"
        self.is_slow = False
        self.override = None

    def accepts(self, header):
        return header in (f"Token {TOKEN}", f"Bearer {self.access}")

    def add(self, project, records):
        for record in records:
            assert {"tag", "text"} <= record["data"].keys()
            number = len(self.tasks[project]) + 1
            self.tasks[project].append({"id": number, "annotations": [], **record})

    def post(self, parts, body):
        if parts == ["token", "refresh"]:
            return (200, {"access": self.access}) if body["refresh"] == PERSONAL else (401, {})
        if parts == ["projects"]:
            number = max(self.projects) + 1
            self.projects[number] = body
            self.tasks[number] = []
            return 201, {"id": number, "title": body["title"]}
        project = int(parts[1])
        if project not in self.projects:
            return 404, {"detail": "Not found."}
        assert parts[2:] == ["import"]
        if self.is_slow:
            number = len(self.imports) + 1
            self.imports[number] = (["created", "in_progress", "completed"], project, body)
            return 201, {"import": number}
        self.add(project, body)
        return 201, {"task_count": len(body), "annotation_count": 0}

    def get(self, parts, query):
        project = int(parts[1])
        if project not in self.projects:
            return 404, {"detail": "Not found."}
        if parts[2] == "imports":
            statuses, project, body = self.imports[int(parts[3])]
            status = statuses.pop(0)
            if status == "completed":
                self.add(project, body)
            return 200, {"id": 1, "status": status, "error": "too large", "task_count": 0}
        assert parts[2] == "export"
        assert query["exportType"] == ["JSON"]
        tasks = self.tasks[project]
        if query.get("download_all_tasks") != ["true"]:
            tasks = [task for task in tasks if task["annotations"]]
        return 200, tasks

    def label(self, k, word, user=12, when="2026-11-18T09:30:00.123456Z"):
        value = {"choices": [word]}
        result = {"from_name": "right", "to_name": "text", "type": "choices", "value": value}
        said = {"id": 1, "completed_by": user, "created_at": when, "updated_at": when}
        annotation = {**said, "was_cancelled": False, "result": [result]}
        self.tasks[3][k]["annotations"].append(annotation)


def handler_of(studio):
    class Handler(BaseHTTPRequestHandler):
        timeout = 10

        def log_message(self, *_):
            pass

        def answer(self, body=None):
            url = urlsplit(self.path)
            parts = url.path.strip("/").split("/")[1:]
            studio.requests.append((self.command, self.path, self.headers["Authorization"]))
            if studio.override is not None:
                return studio.override(self)
            if parts != ["token", "refresh"] and not studio.accepts(self.headers["Authorization"]):
                status, content = 401, {"detail": "Invalid token."}
            elif self.command == "POST":
                status, content = studio.post(parts, body)
            else:
                status, content = studio.get(parts, parse_qs(url.query))
            self.reply(status, json.dumps(content).encode())

        def reply(self, status, content, **headers):
            self.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            self.answer()

        def do_POST(self):
            size = int(self.headers["Content-Length"])
            assert size < 10**7
            self.answer(json.loads(self.rfile.read(size)))

    return Handler


@pytest.fixture
def studio():
    """A server on the loopback address, which ends with the test."""
    state = Studio()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(state))
    server.daemon_threads = True
    # A client that does not wait for the answer is no error here.
    server.handle_error = lambda *_: None
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield state
    server.shutdown()
    server.server_close()
    thread.join(10)


def records(n):
    return [{"data": {"tag": f"t{i}", "text": "x"}} for i in range(n)]


def test_many_tasks_go_in_batches(studio):
    server = LabelStudio(studio.url + "/", 3, TOKEN)
    assert server.send(records(1201)) == 1201
    assert [task["data"]["tag"] for task in studio.tasks[3]] == [f"t{i}" for i in range(1201)]
    assert [path for _, path, _ in studio.requests] == ["/api/projects/3/import"] * 3


def test_imports_in_the_background_are_waited_for(studio):
    studio.is_slow = True
    server = LabelStudio(studio.url, 3, TOKEN, time_limit=5)
    assert server.send(records(4)) == 4
    assert len(studio.tasks[3]) == 4
    studio.imports[1] = (["failed"], 3, [])
    with pytest.raises(DataError, match=r"import of the tasks failed .*too large"):
        server._wait(1)
    studio.imports[1] = (["in_progress"] * 100, 3, [])
    server.time_limit = 0.5
    with pytest.raises(DataError, match=r"takes more than 0\.5 s"):
        server._wait(1)


def test_a_new_project_shows_the_tasks(studio):
    server = LabelStudio(studio.url, 0, TOKEN)
    assert server.create_project("tags") == 4
    assert studio.projects[4] == {"title": "tags", "label_config": LABEL_CONFIG}
    server.send(records(2))
    assert len(studio.tasks[4]) == 2


def test_personal_tokens_are_exchanged(studio, tmp_path):
    server = LabelStudio(studio.url, 3, PERSONAL)
    server.send(records(1))
    server.download(tmp_path / "export.json")
    paths = [path.partition("?")[0] for _, path, _ in studio.requests]
    assert paths == ["/api/token/refresh", "/api/projects/3/import", "/api/projects/3/export"]
    assert [header for *_, header in studio.requests] == [None, *["Bearer access.for.minutes"] * 2]
    assert len(json.loads((tmp_path / "export.json").read_text())) == 1


@pytest.mark.parametrize(
    "url",
    [
        "http://labels.example.org",
        "http://127.0.0.1.example.org",
        "ftp://localhost",
        "localhost:8080",
        "http://",
        "https://user:secret@example.org",
        "https://example.org/?next=1",
        "https://example.org:port",
        "https://exa mple.org",
        "https://example.org/\r\nX: 1",
        "file:///etc/passwd",
    ],
)
def test_only_safe_addresses_are_taken(url):
    with pytest.raises(InputError) as error:
        LabelStudio(url, 3, TOKEN)
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)


def test_safe_addresses():
    for url in ("https://a.org", "http://localhost:8080", "http://127.0.0.9", "http://[::1]:80"):
        assert LabelStudio(url, 1, TOKEN).url == url


@pytest.mark.parametrize("token", ["", "a b", "a\nb", "ключ"])
def test_what_is_no_token_is_refused_without_showing_it(token):
    with pytest.raises(InputError) as error:
        LabelStudio("https://a.org", 1, token)
    assert not token or token not in str(error.value)


def test_failures_are_one_sentence_without_the_token(studio, tmp_path):
    server = LabelStudio(studio.url, 9, TOKEN, timeout=1)
    path = tmp_path / "export.json"
    with pytest.raises(DataError, match="404: there is no project 9"):
        server.download(path)
    with pytest.raises(DataError, match="401: it does not accept the token"):
        LabelStudio(studio.url, 3, "wrong").download(path)
    with pytest.raises(DataError, match="401"):
        LabelStudio(studio.url, 3, "wrong.personal.token").download(path)
    replies = {
        "redirects elsewhere": lambda h: h.reply(302, b"", Location="https://example.org/"),
        "503: try again later": lambda h: h.reply(503, b""),
        "403": lambda h: h.reply(403, b""),
        "lost": lambda h: h.wfile.write(b"nonsense\r\n\r\n"),
        "no connection": lambda h: time.sleep(2),
    }
    for sentence, reply in replies.items():
        studio.override = reply
        with pytest.raises(DataError, match=sentence) as error:
            server.download(path)
        assert TOKEN not in str(error.value)
        assert "\n" not in str(error.value)
    studio.override = lambda h: h.reply(200, b"<html>")
    with pytest.raises(DataError, match="did not answer with JSON"):
        server.create_project("x")
    studio.override = lambda h: h.reply(200, b'{"id": "x"}')
    with pytest.raises(DataError, match="no 'id'"):
        server.create_project("x")
    assert not path.exists()
    assert TOKEN not in repr(server)


def test_redirects_do_not_carry_the_token_away(studio, tmp_path):
    server = LabelStudio(studio.url, 3, TOKEN)
    elsewhere = f"{studio.url}/elsewhere"
    studio.override = lambda h: h.reply(307, b"", Location=elsewhere)
    with pytest.raises(DataError, match="redirects elsewhere"):
        server.download(tmp_path / "x.json")
    assert len(studio.requests) == 1


def test_long_answers_are_cut(studio, tmp_path, monkeypatch):
    server = LabelStudio(studio.url, 3, TOKEN, time_limit=0.3)
    monkeypatch.setenv("SCHIRN_MAX_BYTES", "1000")
    studio.override = lambda h: h.reply(200, b"x" * 5000)
    with pytest.raises(DataError, match="more than 1,000 bytes"):
        server.download(tmp_path / "x.json")

    def drip(handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(20):
            handler.wfile.write(b" ")
            time.sleep(0.05)

    studio.override = drip
    with pytest.raises(DataError, match=r"takes more than 0\.3 s"):
        server.download(tmp_path / "x.json")


@pytest.fixture
def items():
    return make_items(160)


@pytest.fixture
def table(items, tmp_path):
    return write_csv(tmp_path / "items.csv", items)


def test_questions_go_out_and_answers_come_back(studio, table, tmp_path):
    server = LabelStudio(studio.url, 3, TOKEN)
    options = {"text": "description", "id": "id", "decisions": str(tmp_path / "d.jsonl")}
    cleaning = TableCleaning(table, **options)
    assert cleaning.fetch_answers(server) == 0
    assert cleaning.send_questions(server, 10) == 10
    assert not any(task.get("predictions") for task in studio.tasks[3])
    # Nothing that is open is sent again.
    assert cleaning.send_questions(server, 10) == 0
    assert len(studio.tasks[3]) == 10
    studio.label(0, "no")
    studio.label(1, "yes", user=13)
    studio.label(1, "no", user=14, when="2026-11-18T10:00:00Z")
    # Tasks of somebody else in the project are no obstacle until they are answered like ours.
    studio.add(3, [{"data": {"tag": "x", "text": "y"}}])
    cleaning = TableCleaning(table, **options)
    assert cleaning.fetch_answers(server) == 3
    assert cleaning.ranking.n_answers == 2
    assert {(d.who, d.answer) for d in Decisions(options["decisions"])} == {
        ("user 12", "wrong"),
        ("user 14", "wrong"),
    }
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) == 3
    assert cleaning.decisions.contradictions == 1
    # An answered question is not asked again.
    assert cleaning.send_questions(server, 12) > 0
    about = [(task["data"].get("row"), task["data"]["tag"]) for task in studio.tasks[3]]
    assert len(set(about)) == len(about)


@pytest.mark.parametrize("prefix", ["", "duckdb:"])
def test_the_export_is_stored_beside_the_table(studio, tmp_path, prefix):
    (tmp_path / "shop").mkdir()
    cleaning = TableCleaning(f"{prefix}{tmp_path}/shop/shop.db")
    assert cleaning.fetch_answers(LabelStudio(studio.url, 3, TOKEN)) == 0
    assert (tmp_path / "shop" / ".schirn" / "shop.db.label-studio-3.json").exists()


def clean(table, *options):
    return main(["clean", table, "--text", "description", *map(str, options)])


@pytest.mark.parametrize("tool", ["label-studio", "argilla"])
def test_the_program_writes_and_reads_files(items, table, tmp_path, capsys, tool):
    path = tmp_path / "tasks.json"
    assert clean(table, "--questions", path, "--for", tool, "--number", 12) == 0
    captured = capsys.readouterr()
    assert "export it as JSON, then run: schirn clean" in captured.out + captured.err
    tasks = json.loads(path.read_text())
    assert len(tasks) == 12
    assert (tmp_path / "tasks.xml").exists() == (tool == "label-studio")
    for record in tasks:
        if tool == "argilla":
            response = {"value": "no", "user_id": "u", "status": "submitted"}
            record["responses"] = {"right": [response]}
        else:
            value = {"choices": ["no"]}
            result = {"from_name": "right", "to_name": "text", "type": "choices", "value": value}
            record["annotations"] = [{"completed_by": 1, "result": [result]}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks))
    words = ["--id", "id", "--decisions", tmp_path / "d.jsonl", "--json"]
    # The answers are bound to the names of the rows only if the questions were.
    assert clean(table, "--answers", export, *words) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["answers"] == 12
    assert len((tmp_path / "d.jsonl").read_text().splitlines()) == 12
    # Answered tasks are not overwritten.
    export.replace(path)
    assert clean(table, "--questions", path, "--for", tool) == 2
    assert "has answers, which new questions would overwrite" in capsys.readouterr().err


def test_the_program_talks_to_a_project(studio, table, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    where = ["--label-studio", studio.url, "--project", 3, "--token-env", "MY_TOKEN"]
    path = tmp_path / "tasks.json"
    assert clean(table, "--questions", path, *where) == 0
    printed = "".join(capsys.readouterr())
    assert "sent 25 tasks to project 3" in printed
    assert f"--label-studio {studio.url} --project 3" in printed
    assert TOKEN not in printed
    assert [task["data"] for task in studio.tasks[3]] == [
        task["data"] for task in json.loads(path.read_text())
    ]
    for k in range(25):
        studio.label(k, "no" if k % 2 else "yes")
    copy = tmp_path / "cleaned.csv"
    assert clean(table, *where, "-o", copy) == 0
    printed = "".join(capsys.readouterr())
    assert "read 25 answers from project 3" in printed
    assert sum(bool(row["tags_removed"]) for row in read_csv(copy)) >= 1


def test_the_nightly_program_talks_to_a_project(studio, table, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    model = str(tmp_path / "m.schirn")
    words = ["fit", table, "--text", "description", "--id", "id", "-o", model, "--quiet"]
    assert main([*words]) == 0
    decisions = str(tmp_path / "d.jsonl")
    night = ["update", table, "--model", model, "--id", "id"]
    where = ["--label-studio", studio.url, "--project", "3", "--token-env", "MY_TOKEN"]
    path = tmp_path / "tasks.json"
    assert "decisions" in refused(capsys, *night, *where)
    night += ["--decisions", decisions, *where]
    asking = ["--questions", str(path), "--number", "10"]
    assert main([*night, *asking]) == 0
    printed = "".join(capsys.readouterr())
    assert "sent 10 tasks to project 3" in printed
    assert f"answer the tasks in the project, then run: schirn update {table}" in printed
    assert TOKEN not in printed
    # What is open is not sent again, even if its row has another number.
    lines = Path(table).read_text().splitlines()
    Path(table).write_text("\n".join([lines[0], *lines[:0:-1]]))
    assert main([*night, *asking]) == 0
    assert len(studio.tasks[3]) == 10
    for k in range(4):
        studio.label(k, "no" if k % 2 else "yes")
    capsys.readouterr()
    assert main([*night, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["decisions"] == 4
    assert {d.who for d in Decisions(decisions)} == {"user 12"}


@pytest.mark.slow
def test_a_real_server_takes_tasks_and_tells_answers(table, tmp_path):
    """With its address in SCHIRN_LABEL_STUDIO and a token in LABEL_STUDIO_API_KEY."""
    address = os.environ.get("SCHIRN_LABEL_STUDIO")
    if not address:
        pytest.skip("SCHIRN_LABEL_STUDIO is not the address of a server")
    server = LabelStudio.from_environment(address, project=0)
    server.create_project("a test of schirn")
    options = {"text": "description", "id": "id", "decisions": str(tmp_path / "d.jsonl")}
    cleaning = TableCleaning(table, **options)
    assert cleaning.send_questions(server, 10, show_predictions=True) == 10
    assert cleaning.send_questions(server, 10) == 0
    assert cleaning.fetch_answers(server) == 0
    tasks = json.loads(Path(server.export(table)).read_text())
    assert [task["predictions"] != [] for task in tasks] == [True] * 10
    for task, word in zip(tasks, ("yes", "no", "unsure"), strict=False):
        value = {"choices": [word]}
        result = {"from_name": "right", "to_name": "text", "type": "choices", "value": value}
        server._json(f"/api/tasks/{task['id']}/annotations/", {"result": [result]})
    cleaning = TableCleaning(table, **options)
    assert cleaning.fetch_answers(server) == 3
    assert cleaning.ranking.n_answers == 2
    said = sorted(d.answer for d in Decisions(options["decisions"]))
    assert said == ["right", "unsure", "wrong"]
    stranger = LabelStudio(address, server.project, "not a token".replace(" ", "-"))
    with pytest.raises(DataError, match="does not accept the token"):
        stranger.download(tmp_path / "x.json")


def test_the_program_says_what_goes_together(table, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("LABEL_STUDIO_API_KEY", raising=False)

    def sentence(*words):
        return refused(capsys, "clean", table, "--text", "description", *map(str, words))

    path = tmp_path / "tasks.json"
    assert "--for needs --questions" in sentence("--for", "argilla")
    assert "must end in .json" in sentence("--for", "argilla", "--questions", tmp_path / "q.csv")
    assert "must end in .csv" in sentence("--questions", path)
    assert "needs --for" in sentence("--questions", tmp_path / "q.csv", "--show-predictions")
    server = ["--label-studio", "http://localhost:1"]
    assert "go together" in sentence(*server)
    assert "go together" in sentence("--project", 3)
    server += ["--project", 3]
    assert "needs --for label-studio" in sentence(*server, "--questions", path, "--for", "argilla")
    assert "LABEL_STUDIO_API_KEY does not hold a token" in sentence(*server)
    assert not path.exists()
