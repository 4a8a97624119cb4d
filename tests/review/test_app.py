import asyncio
import json
import os
import warnings

import pytest

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from schirn.review import open_session
from schirn.review._app import MAX_BODY, Guard, create_app
from schirn.review._training import Trainer

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
    return TestClient(create_app(session, Trainer(session, 0), TOKEN, PORT), base_url=BASE)


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
    assert state["current"]["item"] == "b"
    assert state["training"]["status"] == "off"
    after = post(client).json()
    assert after["seq"] == 1
    about = {"item": "b", "label": "cat", "action": "keep", "of": 1, "count": 1}
    assert after["last"] == about
    assert (after["current"]["item"], after["current"]["label"]) == ("a", "dog")
    undone = post(client, "undo", seen=1).json()
    assert undone["current"]["label"] == "cat"
    lines = (folder / "journal.jsonl").read_text().splitlines()
    assert [json.loads(line).get("action") for line in lines] == [None, "keep", "undo"]


def test_downloads(client):
    post(client)
    answer = client.get("/tags.csv")
    assert 'filename="tags.csv"' in answer.headers["content-disposition"]
    assert answer.text.splitlines() == [
        "id,tags,removed,checked,added",
        "a,dog;beach,cat,,",
        "b,cat,,cat,",
        "c,,dog;beach,,",
    ]
    lines = client.get("/tags.jsonl").text.splitlines()
    expected = {"id": "b", "tags": ["cat"], "removed": [], "checked": ["cat"], "added": []}
    assert json.loads(lines[1]) == expected


def test_no_certificate_without_an_audit(client):
    answer = client.get("/certificate.json")
    assert answer.status_code == 404
    assert "not complete" in answer.text


def test_two_clients(client, session):
    post(client, "keep", seen=0)
    answer = post(client, "drop", seen=0)
    assert answer.status_code == 409
    assert "another tab" in answer.json()["error"]
    assert answer.json()["state"]["seq"] == 1
    assert answer.json()["state"]["current"]["label"] == "dog"
    assert session.sequence == 1


PATHS = ("/", "/page.js", "/page.css", "/icon.svg", "/api/state", "/tags.csv", "/tags.jsonl", "/x")


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
        "/features.npz",
        "/page.js/../../_app.py",
        "/page.js%00.html",
        "/tags.npz",
        "/index.html",
    ],
)
def test_no_other_file_can_be_read(client, path):
    answer = client.get(f"{BASE}{path}", follow_redirects=False)
    assert answer.status_code == 404
    assert answer.text == "Not Found"


def test_a_huge_body_is_refused(client, session):
    headers = {"Content-Type": "application/json"}
    content = b'{"action": "' + b"x" * MAX_BODY + b'"}'
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
    for path in ("/", "/api/state", "/nothing", "/tags.csv", "/certificate.json"):
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
    page = client.get("/").text
    assert "dog" not in page
    assert "beach" not in page
    assert "<style" not in page
    assert " style=" not in page
    assert " onclick=" not in page
    script = client.get("/page.js").text
    assert "innerHTML" not in script
    assert "insertAdjacentHTML" not in script
    for path in ("/", "/page.js", "/page.css"):
        assert "//" not in client.get(path).text.replace("// ", "")


def test_html_in_texts_stays_text(client):
    answer = client.get("/api/state")
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


def test_only_http_is_answered():
    """A web socket, which a browser opens without asking, gets neither an answer nor the page."""

    async def called(*anything):
        raise AssertionError("nothing may be sent, received or handed on")

    scope = {"type": "websocket", "path": "/", "headers": [(b"host", b"127.0.0.1:8000")]}
    asyncio.run(Guard(called, TOKEN, PORT)(scope, called, called))


def test_the_first_visit_with_the_token_is_told(folder):
    session, visits = open_session(folder), []
    app = create_app(session, Trainer(session, 0), TOKEN, PORT, opened=lambda: visits.append(1))
    client = TestClient(app, base_url=BASE)
    assert client.get("/?token=wrong").status_code == 403
    assert not visits
    assert client.get(f"/?token={TOKEN}").status_code == 200
    assert visits
    session.journal.close()


def test_an_error_in_the_program_is_told_once_without_a_traceback(folder, monkeypatch, recwarn):
    session = open_session(folder)
    monkeypatch.setattr(session, "view", lambda *_, **__: 1 / 0)
    client = TestClient(create_app(session, Trainer(session, 0), TOKEN, PORT), base_url=BASE)
    with pytest.warns(UserWarning, match=r"could not answer a request \(division by zero\)"):
        assert client.get(f"/api/state?token={TOKEN}").status_code == 500
    session.journal.close()
