"""The answers of a served tagger."""

import time

import pytest

import schirn
from schirn.exceptions import InputError
from schirn.features import TagPipeline

pytest.importorskip("starlette")
pytest.importorskip("httpx")

from starlette.testclient import TestClient

from schirn.serving.app import Limits, create_app

TITLES = ["red pan", "steel pan", "red chair", "oak chair"] * 6
TAGS = ["pan", "pan;steel", "chair", "chair;oak"] * 6


@pytest.fixture(scope="module")
def tagger():
    return TagPipeline(text="title").fit({"title": TITLES}, TAGS)


@pytest.fixture
def client(tagger):
    return TestClient(create_app(tagger))


def test_rows_are_tagged_as_in_python(tagger, client):
    rows = [{"title": title} for title in ("blue pan", "oak chair", "", "steel pan")]
    answer = client.post("/predict", json={"rows": rows})
    assert answer.status_code == 200
    assert [row["tags"] for row in answer.json()["rows"]] == tagger.predict_labels(rows)
    probability = tagger.predict_proba(rows)
    for i, row in enumerate(answer.json()["rows"]):
        assert list(row["probability"]) == row["tags"]
        for tag, value in row["probability"].items():
            assert value == pytest.approx(probability[i, tagger.label_names_.index(tag)], abs=1e-6)
    answer = client.post("/predict", json={"rows": rows, "threshold": "top-2"})
    assert [len(row["tags"]) for row in answer.json()["rows"]] == [2] * 4
    assert client.post("/predict", json={"rows": []}).json() == {"rows": []}


def test_tags_are_judged_and_unseen_ones_are_listed(tagger, client):
    rows = [{"title": "steel pan", "tags": ["chair", "wok"]}, {"title": "oak chair", "tags": []}]
    first, second = client.post("/judge", json={"rows": rows}).json()["rows"]
    expected = tagger.disambiguate([{"title": "steel pan"}], [["chair"]]).max()
    assert first["confidence"] == {"chair": pytest.approx(expected, abs=1e-6)}
    assert first["unseen"] == ["wok"]
    assert "pan" in first["suggestions"]
    assert second["confidence"] == {}
    assert client.post("/judge", json={"rows": [{"title": "a"}]}).status_code == 400


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        (b"{", 400, "not valid JSON"),
        (b"[1]", 400, "the request must be"),
        (b'{"rows": [1]}', 400, "the request must be"),
        (b'{"rows": [{"name": "pan"}]}', 400, "there is no column 'title'"),
        (b'{"rows": [{"title": "pan"}, {}]}', 400, "row 2: there is no column 'title', which"),
        (b'{"rows": [{"title": ["pan"]}]}', 400, "must hold a text or a number, not ['pan']"),
        (b'{"rows": [{"title": "pan"}], "threshold": "most"}', 400, "threshold 'most'"),
        (b'{"rows": [{"title": "pan"}], "treshold": 0.9}', 400, "did you mean 'threshold'?"),
        (b'{"rows": [' + b'{"title": "a"},' * 4 + b'{"title": "a"}]}', 413, "more than 4 rows"),
        (b'{"rows": [{"title": "' + b"a" * 500 + b'"}]}', 413, "more than 300 bytes"),
    ],
)
def test_wrong_requests_are_answered_with_a_sentence(tagger, body, status, error):
    client = TestClient(create_app(tagger, limits=Limits(rows=4, bytes=300)))
    headers = {"Content-Type": "application/json"}
    answer = client.post("/predict", content=body, headers=headers)
    assert answer.status_code == status
    assert error in answer.json()["error"]
    assert client.post("/predict", content=body).status_code == 415


def test_a_slow_answer_is_given_up(tagger, monkeypatch):
    monkeypatch.setattr(TagPipeline, "decision_function", lambda *_: time.sleep(0.5))
    client = TestClient(create_app(tagger, limits=Limits(seconds=0.05)))
    answer = client.post("/predict", json={"rows": [{"title": "pan"}]})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    client = TestClient(create_app(tagger, limits=Limits(waiting=0)))
    assert client.post("/predict", json={"rows": [{"title": "pan"}]}).status_code == 503


def test_a_token_is_asked_for(tagger):
    client = TestClient(create_app(tagger, token="secret"))
    rows = {"rows": [{"title": "pan"}]}
    assert client.get("/health").json()["status"] == "ok"
    for sent in ({}, {"Authorization": "Bearer other"}, {"Authorization": "secret"}):
        assert client.post("/predict", json=rows, headers=sent).status_code == 401
    sent = {"Authorization": "Bearer secret"}
    assert client.post("/predict", json=rows, headers=sent).status_code == 200
    assert client.get("/metrics").status_code == 401


def test_unknown_paths_and_methods_are_answered_in_json(client):
    assert client.get("/nowhere").json() == {"error": "Not Found"}
    answer = client.get("/predict")
    assert answer.json() == {"error": "Method Not Allowed"}
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_requests_are_counted(client):
    client.post("/predict", json={"rows": [{"title": "pan"}] * 3})
    client.post("/predict", content=b"x")
    client.get("/nowhere")
    lines = client.get("/metrics").text.splitlines()
    assert 'schirn_requests_total{path="/predict",status="200"} 1' in lines
    assert 'schirn_requests_total{path="/predict",status="415"} 1' in lines
    assert 'schirn_requests_total{path="other",status="404"} 1' in lines
    assert "schirn_rows_total 3" in lines
    assert "schirn_request_seconds_count 3" in lines
    assert "schirn_requests_in_flight 1" in lines


def test_the_description_names_the_requests(client):
    document = client.get("/openapi.json").json()
    assert document["info"]["version"] == schirn.__version__
    post = document["paths"]["/predict"]["post"]
    assert post["requestBody"] == {"$ref": "#/components/requestBodies/Rows"}
    assert document["components"]["schemas"]["Rows"]["properties"]["rows"]["type"] == "array"
    assert set(post["responses"]) == {"200", "400", "401", "413", "503"}
    assert set(document["paths"]) == {"/predict", "/judge", "/health", "/metrics"}


def test_only_models_of_tables_are_served(tagger):
    with pytest.raises(InputError, match="a server needs a model of the columns of a table"):
        create_app(tagger.method_)
    pictures = TagPipeline(image="file")
    with pytest.raises(InputError, match="does not open the files that a request names"):
        create_app(pictures)
