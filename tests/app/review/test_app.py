import asyncio
import json
import os
import warnings

import pytest

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from schirn.app.review import open_session
from schirn.app.review._app import create_app

with warnings.catch_warnings():
    # Newer versions would rather have another client package; httpx works with all of them.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

TOKEN, PORT = "right-token", 8000
BASE = f"http://127.0.0.1:{PORT}"


@pytest.fixture
def session(folder):
    session = open_session(folder)
    yield session
    session.journal.close()


@pytest.fixture
def stranger(session):
    """A client without the token."""
    return TestClient(create_app(session, TOKEN, PORT), base_url=BASE)


@pytest.fixture
def client(stranger):
    assert stranger.get(f"/?token={TOKEN}").status_code == 200
    stranger.headers["Origin"] = BASE
    return stranger


def post(client, action="keep", item="b", label="cat", seen=0, **options):
    body = {"action": action, "item": item, "label": label, "seen": seen}
    return client.post("/api/decide", json=body, **options)


def test_a_review(client, folder):
    state = client.get("/api/state").json()
    assert (state["current"]["item"], state["current"]["label"]) == ("a", "cat")
    assert state["known"]["first"]["listed"] == {"answered": 0, "size": 6}
    after = post(client).json()
    assert after["seq"] == 1
    about = {"item": "b", "label": "cat", "action": "keep", "to": None, "of": 1, "count": 1}
    assert after["last"] == about
    assert (after["current"]["item"], after["current"]["label"]) == ("a", "cat")
    # One answer says nothing about the share.
    assert after["known"]["line"].startswith("Your answers will show")
    undone = act(client, 1, action="undo", of=1).json()
    assert undone["current"]["label"] == "cat"
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line).get("action") for line in lines] == [None, "keep", "undo"]


def test_two_clients(client, session):
    post(client, "keep", seen=0)
    answer = post(client, "drop", seen=0)
    assert answer.status_code == 409
    assert "another tab" in answer.json()["error"]
    assert answer.json()["state"]["seq"] == 1
    assert answer.json()["state"]["current"]["label"] == "cat"
    assert session.sequence == 1


PATHS = (
    *("/", "/page.js", "/page.css", "/icon.svg", "/x"),
    *("/api/state", "/table", "/changes.csv", "/image/0"),
    *("/common.js", "/vocabulary", "/vocabulary.js", "/vocabulary.css", "/vocabulary.csv"),
    *("/api/vocabulary", "/api/names", "/api/labels"),
)


@pytest.mark.parametrize("path", PATHS)
def test_every_path_needs_the_token(stranger, path):
    for url in (path, f"{path}?token=", f"{path}?token=wrong", f"{path}?token=r%C3%A9"):
        answer = stranger.get(url)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers
        assert "cat" not in answer.text
    assert stranger.get(path, headers={"Cookie": f"schirn_review_{PORT}=no"}).status_code == 403


def test_decisions_need_the_token(stranger, session):
    assert post(stranger, headers={"Origin": BASE}).status_code == 403
    assert session.sequence == 0


def test_the_cookie(stranger):
    cookie = stranger.get(f"/?token={TOKEN}").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert stranger.get("/api/state").status_code == 200
    assert "set-cookie" not in stranger.get("/api/state").headers
    assert stranger.get("/api/state?token=wrong").status_code == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:8001", "127.0.0.1:8000.x"]
)
def test_a_wrong_host_is_refused(client, host):
    assert client.get("/api/state", headers={"Host": host}).status_code == 421


def test_localhost_is_this_machine_too(client):
    headers = {"Host": f"localhost:{PORT}", "Cookie": f"schirn_review_{PORT}={TOKEN}"}
    assert client.get("/api/state", headers=headers).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:8001", ""])
def test_a_wrong_origin_is_refused(client, session, origin):
    assert post(client, headers={"Origin": origin}).status_code == 403
    assert session.sequence == 0


def test_a_change_without_origin_is_refused(client, session):
    del client.headers["Origin"]
    assert client.get("/api/state").status_code == 200
    assert post(client).status_code == 403
    assert session.sequence == 0


@pytest.mark.parametrize(
    "path",
    [
        "/../project.json",
        "/%2e%2e/project.json",
        "/static/../_app.py",
        "/..%2f..%2fetc/passwd",
        "//etc/passwd",
        "/project.json",
        "/journal.jsonl",
        "/tags.npz",
        "/page.js/../../_app.py",
        "/page.js%00.html",
        "/tags.csv",
        "/index.html",
        "/table.csv",
        "/image/..%2fproject.json",
        "/image/-1",
        "/image/0x1",
        "/image/99999999999999999999",
    ],
)
def test_no_other_file_can_be_read(client, path):
    answer = client.get(f"{BASE}{path}", follow_redirects=False)
    assert answer.status_code == 404
    assert answer.json() == {"error": "Not Found"}


def test_a_huge_body_is_refused(client, session):
    headers = {"Content-Type": "application/json"}
    content = b'{"action": "' + b"x" * 64 * 1024 + b'"}'
    assert client.post("/api/decide", content=content, headers=headers).status_code == 413

    def chunks():
        for _ in range(70):
            yield b" " * 1024

    assert client.post("/api/decide", content=chunks(), headers=headers).status_code == 413
    assert session.sequence == 0


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 50_000,
        b'{"action": "keep", "item": "b", "label": "cat"}',
        b'{"action": "keep", "item": "b", "label": "cat", "seen": true}',
        b'{"action": "keep", "item": "b", "label": "cat", "seen": -1}',
        b'{"action": "keep", "item": 1, "label": "cat", "seen": 0}',
        b'{"action": "keep", "item": "b", "label": "bird", "seen": 0}',
        b'{"action": "burn", "item": "b", "label": "cat", "seen": 0}',
    ],
)
def test_bad_bodies(client, session, body):
    headers = {"Content-Type": "application/json"}
    answer = client.post("/api/decide", content=body, headers=headers)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert session.sequence == 0


def test_forms_and_other_methods(client, session):
    body = b'{"action": "keep", "item": "b", "label": "cat", "seen": 0}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", ""):
        answer = client.post("/api/decide", content=body, headers={"Content-Type": kind})
        assert answer.status_code == 415
    assert client.get("/api/decide").status_code == 405
    assert client.put("/").status_code == 405
    assert session.sequence == 0


def test_headers(client):
    for path in ("/", "/api/state", "/nothing", "/table"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
    refused = client.get("/", headers={"Host": "evil.example"})
    assert "content-security-policy" in refused.headers


def test_the_page_holds_no_content_no_inline_code_and_no_foreign_address(client):
    for path in ("/", "/vocabulary"):
        page = client.get(path).text
        assert "dog" not in page
        assert "beach" not in page
        assert "<style" not in page
        assert " style=" not in page
        assert " onclick=" not in page
    scripts = ("/page.js", "/common.js", "/vocabulary.js")
    for path in scripts:
        script = client.get(path).text
        assert "innerHTML" not in script
        assert "insertAdjacentHTML" not in script
        assert "eval" not in script
    for path in ("/", "/vocabulary", "/page.css", "/vocabulary.css", *scripts):
        assert "//" not in client.get(path).text.replace("// ", "")


def test_html_in_texts_stays_text(client):
    for seen, (item, label) in enumerate((("a", "cat"), ("c", "beach"), ("c", "dog"))):
        answer = post(client, "drop", item, label, seen)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["current"]["text"] == '<b>Two</b> cats & a "quote"'


def test_a_full_disk_is_reported_and_nothing_is_recorded(client, session, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space")))
        answer = post(client)
    assert answer.status_code == 507
    assert "No space" in answer.json()["error"]
    assert client.get("/api/state").json()["seq"] == 0
    assert post(client).json()["seq"] == 1


def test_only_http_is_answered(session):
    """A web socket, which a browser opens without asking, gets neither an answer nor the page."""

    async def called(*anything):
        raise AssertionError("nothing may be sent or received")

    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"127.0.0.1:8000")]}
    asyncio.run(create_app(session, TOKEN, PORT)(scope, called, called))


def test_the_first_visit_with_the_token_is_told(folder):
    session, visits = open_session(folder), []
    app = create_app(session, TOKEN, PORT, opened=lambda: visits.append(1))
    client = TestClient(app, base_url=BASE)
    assert client.get("/?token=wrong").status_code == 403
    assert not visits
    assert client.get(f"/?token={TOKEN}").status_code == 200
    assert visits
    session.journal.close()


def test_an_error_in_the_program_is_told_once_without_a_traceback(folder, monkeypatch, recwarn):
    session = open_session(folder)
    monkeypatch.setattr(session, "view", lambda *_, **__: 1 / 0)
    client = TestClient(create_app(session, TOKEN, PORT), base_url=BASE)
    with pytest.warns(UserWarning, match=r"could not answer a request \(division by zero\)"):
        assert client.get(f"/api/state?token={TOKEN}").status_code == 500
    session.journal.close()


def act(client, seen=0, **record):
    return client.post("/api/decide", json={"seen": seen, **record})


def test_bad_questions(client):
    answer = client.get("/api/state?order=x")
    assert answer.status_code == 400
    assert answer.json()["error"]


def test_all_actions_by_request(client, session):
    assert act(client, action="skip", item="a", label="beach").json()["seq"] == 1
    after = act(client, 1, action="drop", item="a", label="dog").json()
    assert (after["seq"], after["progress"]["decided"]) == (2, 1)
    after = act(client, 2, action="keep", item="b", label="cat").json()
    assert after["last"]["of"] == 3
    assert act(client, 3, action="undo", of=3).json()["last"]["of"] == 2
    assert act(client, 4, action="undo", of=3).status_code == 409
    changes = client.get("/changes.csv")
    assert 'filename="changes.csv"' in changes.headers["content-disposition"]
    assert "removal,dog,,,dropped by a person" in changes.text
    whole = client.get("/table")
    assert 'filename="reviewed.csv"' in whole.headers["content-disposition"]
    assert whole.text.splitlines()[1] == "a,A dog on the beach.,beach"
    assert client.get("/image/0").status_code == 404


@pytest.mark.parametrize(
    "record",
    [
        {"action": "batch", "decision": "drop", "label": "dog", "rows": [0]},
        {"action": "keep", "item": "a"},
        {"action": "swap", "item": "a", "label": "dog"},
        {"action": "swap", "item": "a", "label": "dog", "to": ["x"]},
        {"action": "undo"},
        {"action": "undo", "of": "1"},
        {"action": "remove"},
        {"action": "remove", "count": "3"},
        {"action": "keep", "item": "a", "label": "dog", "order": ["x"]},
        {"action": "audit", "size": 3},
        {"action": {}},
    ],
)
def test_bad_actions(client, session, record):
    answer = act(client, **record)
    assert answer.status_code == 400
    assert answer.json()["error"]
    assert session.sequence == 0


def test_table_and_images(tmp_path):
    from app.review.test_table import PNG, make, write_csv

    (tmp_path / "a.png").write_bytes(PNG)
    (tmp_path / "b.png").write_text("<script>alert(1)</script>")
    source = write_csv(tmp_path / "items.csv", photo=["a.png", "b.png", "", "gone.png", "a.png"])
    session = open_session(make(tmp_path, source, image="photo"))
    app = create_app(session, TOKEN, PORT)
    client = TestClient(app, base_url=BASE)
    state = client.get(f"/api/state?token={TOKEN}").json()
    assert state["table"] == ".csv"
    answer = client.get(f"/image/0?token={TOKEN}")
    assert (answer.content, answer.headers["content-type"]) == (PNG, "image/png")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for row in (1, 2, 3, 5, 10**12):
        assert client.get(f"/image/{row}?token={TOKEN}").status_code == 404
    assert [session.table.image_file(row) is not None for row in range(5)] == [1, 0, 0, 0, 1]
    whole = client.get(f"/table?token={TOKEN}")
    assert 'filename="reviewed.csv"' in whole.headers["content-disposition"]
    assert whole.content == source.read_bytes().replace(b"dog; beach", b"beach")
    session.journal.close()
