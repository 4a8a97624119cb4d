"""Requests about the vocabulary, in process and to a server that is killed."""

import os
import signal

import pytest

pytest.importorskip("starlette", reason="the review page needs starlette")
pytest.importorskip("httpx", reason="starlette's test client needs httpx")

from app.review.review_helpers import Server
from app.review.test_app import BASE, PORT, TOKEN, TestClient
from app.review.test_vocabulary import LINES, make

from schirn.app.cli import main
from schirn.app.review import open_session
from schirn.app.review._app import create_app
from schirn.app.workflow import read_vocabulary, write_vocabulary
from schirn.cleaning import Vocabulary, VocabularyLine

MERGE = {"action": "merge", "tag": "Dog", "target": "dog"}
IMPLY = {"action": "imply", "tag": "poodle", "target": "dog"}


@pytest.fixture
def session(tmp_path):
    session = open_session(make(tmp_path / "project"))
    yield session
    session.journal.close()


@pytest.fixture
def client(session):
    client = TestClient(create_app(session, TOKEN, PORT), base_url=BASE)
    assert client.get(f"/?token={TOKEN}").status_code == 200
    client.headers["Origin"] = BASE
    return client


def post(client, seen=0, headers=None, **body):
    return client.post("/api/vocabulary", json={"seen": seen, **body}, headers=headers)


def answer(client, accept="yes", seen=0, line=MERGE, **more):
    return post(client, seen, action="vocabulary", line=line, accept=accept, **more)


def test_lines_are_answered_and_undone(client, session, tmp_path):
    state = client.get("/api/vocabulary").json()
    assert state["current"]["number"] == 2
    after = answer(client).json()
    assert (after["seq"], after["current"]["number"]) == (1, 3)
    assert after["last"]["words"] == "answer to merge Dog → dog"
    undone = post(client, 1, action="undo", of=1).json()
    # What was undone is asked again.
    assert (undone["seq"], undone["current"]["number"], undone["last"]) == (2, 2, None)
    after = answer(client, "no", 2, show="rejected").json()
    assert [line["number"] for line in after["lines"]] == [2]
    after = answer(
        client, "yes", 3, {"action": "imply", "tag": "poodle", "target": "dog"}, to="sea"
    )
    assert after.json()["seq"] == 4
    saved = client.get("/vocabulary.csv")
    assert 'filename="vocabulary.csv"' in saved.headers["content-disposition"]
    (tmp_path / "v.csv").write_bytes(saved.content)
    assert read_vocabulary(tmp_path / "v.csv") == session.vocabulary()
    assert session.vocabulary()[1].target == "sea"
    assert "poodle;sea" in client.get("/table").text
    # The other page knows it, and can undo it.
    state = client.get("/api/state").json()
    # The target of an accepted line is no longer to be split.
    counts = {"open": 1, "accepted": 1, "rejected": 1, "settled": 1}
    assert state["vocabulary"] == {**counts, "more": 0}
    body = {"action": "undo", "of": 4, "seen": 4}
    assert client.post("/api/decide", json=body).json()["vocabulary"]["accepted"] == 0


def test_undo_of_something_else(client, session):
    session.decide("keep", "b", "Dog", 0)
    undone = post(client, 1, action="undo", of=1).json()
    assert undone["current"]["number"] == 2
    assert session.n_decided == 0


def test_the_list(client):
    state = client.get("/api/vocabulary?show=all&find=MISC").json()
    assert [line["number"] for line in state["lines"]] == [4]
    assert client.get("/api/vocabulary?line=5").json()["current"]["action"] == "split"
    assert client.get("/api/vocabulary?after=3").json()["current"]["number"] == 4
    assert client.get("/api/names?find=D").json() == ["Dog", "dog", "poodle"]


def test_proposals(client, session):
    after = post(client, action="propose").json()
    # The rows are too few for any.
    assert (after["seq"], after["counts"]["open"]) == (0, len(LINES))
    session._proposing.acquire()
    assert post(client, action="propose").status_code == 409


def test_another_tab_was_first(client, session):
    answer(client)
    refused = answer(client, "no")
    assert refused.status_code == 409
    assert "another tab" in refused.json()["error"]
    assert refused.json()["state"]["counts"]["accepted"] == 1
    assert answer(client, "no", seen=7).status_code == 409
    assert session.sequence == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "bake"},
        {"action": {}},
        {"action": "vocabulary"},
        {"action": "vocabulary", "line": MERGE},
        {"action": "vocabulary", "line": MERGE, "accept": True},
        {"action": "vocabulary", "line": MERGE, "accept": []},
        {"action": "vocabulary", "line": {"action": "merge"}, "accept": "yes"},
        {"action": "vocabulary", "line": {**MERGE, "tag": "cat"}, "accept": "yes"},
        {"action": "vocabulary", "line": MERGE, "accept": "yes", "to": "a;b"},
        {"action": "vocabulary", "line": MERGE, "accept": "yes", "to": ["a"]},
        {"action": "vocabulary", "line": MERGE, "accept": "yes", "seen": -1},
        {"action": "vocabulary", "line": MERGE, "accept": "yes", "show": 3},
        {"action": "undo"},
        {"action": "undo", "of": "1"},
        {"action": "keep", "item": "b", "label": "Dog"},
    ],
)
def test_bad_requests(client, session, body):
    refused = client.post("/api/vocabulary", json={"seen": 0, **body})
    assert refused.status_code == 400
    assert refused.json()["error"]
    assert session.sequence == 0


def test_a_bad_view_is_refused_before_the_answer_is_saved(client, session):
    refused = answer(client, show="some")
    assert refused.status_code == 400
    assert session.sequence == 0


@pytest.mark.parametrize("query", ["show=x", "line=99", "line=x", "after=-1", "line=" + "9" * 20])
def test_bad_queries(client, query):
    refused = client.get(f"/api/vocabulary?{query}")
    assert refused.status_code == 400
    assert refused.json()["error"]


@pytest.mark.parametrize("origin", ["http://evil.example", "null", ""])
def test_a_wrong_origin_is_refused(client, session, origin):
    assert answer(client, headers={"Origin": origin}).status_code == 403
    assert session.sequence == 0


def test_answers_come_from_the_page_only(client, session):
    stranger = TestClient(client.app, base_url=BASE)
    stranger.headers["Origin"] = BASE
    assert answer(stranger).status_code == 403
    assert answer(client, headers={"Host": "evil.example"}).status_code == 421
    del client.headers["Origin"]
    assert answer(client).status_code == 403
    assert session.sequence == 0


def test_a_full_disk_is_reported(client, session, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "No space")))
        refused = answer(client)
    assert refused.status_code == 507
    assert "No space" in refused.json()["error"]
    assert session.vocabulary()[0].accept == ""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no kill -9 here")
def test_kill_9_loses_no_answer(tmp_path):
    folder = make(tmp_path / "project")
    with Server(folder) as server:
        for seen, (line, accept) in enumerate(zip(LINES, ("yes", "no", "yes"), strict=False)):
            key = {"action": line.action, "tag": line.tag, "target": line.target}
            body = {"action": "vocabulary", "line": key, "accept": accept, "seen": seen}
            assert server.request("/api/vocabulary", body)["seq"] == seen + 1
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
    with Server(folder) as server:
        counts = server.request("/api/vocabulary")["counts"]
        assert counts == {"open": 1, "accepted": 2, "rejected": 1, "settled": 0, "more": 0}
    session = open_session(folder, write=False)
    assert [line.accept for line in session.vocabulary()] == ["yes", "no", "yes", ""]


def test_the_program_saves_the_vocabulary(tmp_path, capsys):
    table = tmp_path / "items.csv"
    lines = ["a dog,Dog", "a big dog,dog", "the sea,sea", "waves at sea,sea"] * 8
    table.write_text("\n".join(["text,tags", *lines]) + "\n")
    first = tmp_path / "vocabulary.csv"
    write_vocabulary(Vocabulary([VocabularyLine("merge", "Dog", "dog", 8, 8, 0)]), first)
    command = ["review", str(table), "--text", "text", "--vocabulary", str(first)]
    # Nobody answers: the ranking is made, and the program stops at the first question.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("builtins.input", lambda *_: "q")
        assert main([*command, "--terminal"]) == 0
    with open_session(tmp_path / "items-review").journal as journal:
        session = open_session(tmp_path / "items-review", write=False)
        journal.append({"action": "vocabulary", "line": MERGE, "accept": "yes"})
        assert session.vocabulary()[0].accept == ""
    capsys.readouterr()
    second = tmp_path / "answered.csv"
    saving = ["review", str(table), "--save-vocabulary"]
    assert main([*saving, str(second)]) == 0
    words = "wrote the vocabulary to " + str(second)
    assert f"{words}: 1 accepted, 0 rejected, 0 without an answer" in capsys.readouterr().err
    assert read_vocabulary(second)[0].accept == "yes"
    assert main([*saving, str(tmp_path / "v.txt")]) == 2
    assert "must end in .csv" in capsys.readouterr().err
    # The same vocabulary, with an answer, ranks other tags.
    first.write_bytes(second.read_bytes())
    assert main([*command, "--terminal"]) == 2
    assert "belongs to another version" in capsys.readouterr().err
