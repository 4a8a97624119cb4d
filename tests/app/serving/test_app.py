"""The answers of a served tagger."""

import asyncio
import json
import re
import time

import numpy as np
import pytest

import schirn
from schirn.exceptions import InputError
from schirn.features import TagPipeline

pytest.importorskip("starlette")
pytest.importorskip("httpx")

import httpx
from starlette.testclient import TestClient

from schirn.app.serving._access import AccessLog
from schirn.app.serving.app import Limits, create_app

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
    # A single tag is certain if at least one is right; alone, it is as in a prediction.
    assert first["confidence"]["chair"] > first["probability"]["chair"]
    request = {"rows": [{"title": "steel pan"}], "threshold": "top-9"}
    (predicted,) = client.post("/predict", json=request).json()["rows"]
    assert first["probability"] == {"chair": predicted["probability"]["chair"]}
    assert second["confidence"] == {}
    assert client.post("/judge", json={"rows": [{"title": "a"}]}).status_code == 400


def test_tags_of_rows_without_text_have_no_confidence_but_a_reason(client):
    titles = ["", None, "pan", "?!"]
    rows = [{"title": title, "tags": ["pan", "chair", "wok"]} for title in titles]
    answers = client.post("/judge", json={"rows": rows}).json()["rows"]
    for answer in (answers[0], answers[1], answers[3]):
        assert answer["confidence"] == answer["probability"] == {"pan": None, "chair": None}
        assert answer["unseen"] == ["wok"]
        assert answer["suggestions"] == {}
        assert "has no text" in answer["reason"]
    assert answers[2]["confidence"]["pan"] > answers[2]["confidence"]["chair"]
    assert "reason" not in answers[2]
    predictions = client.post("/predict", json={"rows": rows}).json()["rows"]
    assert [each.get("reason") for each in predictions] == [each.get("reason") for each in answers]


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


@pytest.mark.parametrize("threshold", [True, [0.5, 0.5], {"top": 2}])
def test_a_threshold_is_a_number_or_a_text(client, threshold):
    answer = client.post("/predict", json={"rows": [{"title": "a"}], "threshold": threshold})
    assert answer.status_code == 400
    assert "threshold must be a finite number" in answer.json()["error"]


def test_an_infinite_threshold_is_refused(client):
    body = b'{"rows": [{"title": "a"}], "threshold": Infinity}'
    answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.parametrize("digits", ["9" * 400, "-" + "9" * 400, "9" * 3000])
def test_a_number_too_large_for_a_float_is_refused(client, digits):
    body = f'{{"rows": [{{"title": "a"}}], "threshold": {digits}}}'.encode()
    answer = client.post("/predict", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "threshold must be a finite number" in answer.json()["error"]


def test_numbers_are_names_of_tags(client):
    rows = [{"title": "steel pan", "tags": tags} for tags in ([1, 0], [2.5, "pan"], 7, None)]
    answers = client.post("/judge", json={"rows": rows}).json()["rows"]
    assert [sorted(answer["unseen"]) for answer in answers] == [["0", "1"], ["2.5"], ["7"], []]
    assert [list(answer["confidence"]) for answer in answers] == [[], ["pan"], [], []]


@pytest.mark.parametrize("tag", [True, None, {"a": 1}, ["pan"]])
def test_what_is_no_tag_is_named_with_its_row(client, tag):
    rows = [{"title": "pan", "tags": ["pan"]}, {"title": "pan", "tags": ["pan", tag]}]
    answer = client.post("/judge", json={"rows": rows})
    assert answer.status_code == 400
    assert answer.json()["error"].startswith("row 2: ")


def test_the_notation_of_tags_does_not_depend_on_other_rows(tagger, client):
    cells = ['["pan", "chair"]', "pan;chair", ["pan", "chair"]]
    rows = [{"title": "steel pan", "tags": cell} for cell in cells]
    together = client.post("/judge", json={"rows": rows}).json()["rows"]
    assert [list(answer["confidence"]) for answer in together] == [["chair", "pan"]] * 3


@pytest.mark.parametrize(
    ("path", "row", "status"),
    [
        ("/predict", '"title": "red pan", "other": NESTED', 200),
        ("/predict", '"title": NESTED', 400),
        ("/judge", '"title": "red pan", "tags": [NESTED]', 400),
    ],
)
def test_deeply_nested_cells(client, path, row, status):
    content = '{"rows": [{ROW}]}'.replace("ROW", row)
    for depth in (400, 600, 900):
        answer = client.post(
            path,
            content=content.replace("NESTED", "[" * depth + "]" * depth),
            headers={"Content-Type": "application/json"},
        )
        # The JSON reader refuses the deepest ones.
        assert answer.status_code in (status, 400)


def test_a_long_cell_is_refused(client):
    rows = [{"title": "a"}, {"title": "a" * 100_001}]
    answer = client.post("/predict", json={"rows": rows})
    assert answer.status_code == 413
    assert "row 2: the column 'title' has 100,001 characters" in answer.json()["error"]
    for tags, n in ((["a" * 200_000], "200,000"), (["a"] * 60_000, "119,999"), ([""] * 10**5, "")):
        answer = client.post("/judge", json={"rows": [{"title": "a", "tags": tags}]})
        assert answer.status_code == (413 if n else 200)
        assert not n or f"the column 'tags' has {n} characters" in answer.json()["error"]


def test_the_texts_of_a_request_have_a_length_together(tagger):
    rows = [{"title": "a" * 100_000}] * 20
    client = TestClient(create_app(tagger))
    answer = client.post("/predict", json={"rows": [*rows, {"title": "a"}]})
    assert answer.status_code == 413
    assert answer.json()["error"] == (
        "the texts of the request have 2,000,001 characters, more than 2,000,000; send fewer rows "
        "at a time"
    )
    client = TestClient(create_app(tagger, limits=Limits(characters=8)))
    assert client.post("/predict", json={"rows": [{"title": "blue pan"}]}).status_code == 200


def test_a_client_that_leaves_is_not_computed_for(tagger, monkeypatch):
    calls = []

    def slow(self, X):
        calls.append(X.shape[0])
        time.sleep(0.1)
        return np.zeros((X.shape[0], 4))

    monkeypatch.setattr(type(tagger.method_), "decision_function", slow)
    body = json.dumps({"rows": [{"title": "a" * 90_000}] * 20}).encode()
    app = create_app(tagger)
    messages = [
        {"type": "http.request", "body": body, "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive():
        return messages.pop(0)

    async def send(message):
        pass

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/predict",
        "query_string": b"",
        "headers": headers,
        "client": None,
    }
    asyncio.run(app(scope, receive, send))
    assert calls == [1]


def test_a_slow_answer_is_given_up(tagger, monkeypatch):
    monkeypatch.setattr(type(tagger.method_), "decision_function", lambda *_: time.sleep(0.5))
    client = TestClient(create_app(tagger, limits=Limits(seconds=0.05)))
    answer = client.post("/predict", json={"rows": [{"title": "pan"}]})
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"
    client = TestClient(create_app(tagger, limits=Limits(waiting=0)))
    assert client.post("/predict", json={"rows": [{"title": "pan"}]}).status_code == 503


def test_a_stuck_worker_is_not_healthy(tagger, monkeypatch):
    monkeypatch.setattr(type(tagger.method_), "decision_function", lambda *_: time.sleep(0.5))
    transport = httpx.ASGITransport(create_app(tagger, limits=Limits(seconds=0.05)))

    async def run():
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            before = await client.get("/health")
            refused = await client.post("/predict", json={"rows": [{"title": "pan"}]})
            while_busy = await client.get("/health")
            await asyncio.sleep(0.6)
            answers = [before, refused, while_busy, await client.get("/health")]
        return [answer.status_code for answer in answers], while_busy.json()["status"]

    assert asyncio.run(run()) == ([200, 503, 503, 200], "stuck")


@pytest.mark.parametrize("token", ["", " "])
def test_an_empty_token_is_an_error(tagger, token):
    with pytest.raises(InputError, match="token must not be empty"):
        create_app(tagger, token=token)


def test_a_token_is_asked_for(tagger):
    client = TestClient(create_app(tagger, token="secret"))
    rows = {"rows": [{"title": "pan"}]}
    lower = {"Authorization": "bearer secret"}
    assert client.post("/predict", json=rows, headers=lower).status_code == 200
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
    assert 'schirn_request_seconds_count{path="/predict"} 2' in lines
    assert 'schirn_request_seconds_bucket{path="other",le="+Inf"} 1' in lines
    assert 'schirn_reloads_total{result="failed"} 0' in lines
    assert "schirn_requests_in_flight 1" in lines


def test_the_model_is_named_with_its_times(tagger):
    about = {"sha256": "5d41", "trained": "2026-11-17T02:11:53.120Z", "loaded": "soon"}
    lines = TestClient(create_app(tagger, about=about)).get("/metrics").text.splitlines()
    assert 'schirn_model_info{sha256="5d41"} 1' in lines
    assert "schirn_model_trained_timestamp_seconds 1794881513" in lines
    assert not any("loaded_timestamp" in line for line in lines)


def test_the_description_names_the_requests(client):
    document = client.get("/openapi.json").json()
    assert document["info"]["version"] == schirn.__version__
    post = document["paths"]["/predict"]["post"]
    assert post["requestBody"] == {"$ref": "#/components/requestBodies/Rows"}
    assert document["components"]["schemas"]["Rows"]["properties"]["rows"]["type"] == "array"
    assert set(document["paths"]) == {"/predict", "/judge", "/health", "/metrics"}
    text = json.dumps(document)
    parts = {f"#/components/{a}/{b}" for a, c in document["components"].items() for b in c}
    assert set(re.findall(r'"\$ref": "(.*?)"', text)) == parts


def test_the_description_has_every_status_of_every_request(tagger):
    body = {"rows": [{"title": "pan", "tags": ["pan"]}]}
    requests = {
        "200": ({}, {"json": body}),
        "400": ({}, {"json": {"rows": 3}}),
        "401": ({"token": "secret"}, {"json": body}),
        "413": ({"limits": Limits(bytes=3)}, {"json": body}),
        "415": ({}, {"content": b"{}"}),
        "421": ({"hosts": []}, {"json": body}),
        "503": ({"limits": Limits(waiting=0)}, {"json": body}),
    }
    document = TestClient(create_app(tagger)).get("/openapi.json").json()
    for path, methods in document["paths"].items():
        ((method, about),) = methods.items()
        statuses = set()
        for options, request in requests.values():
            client = TestClient(create_app(tagger, **options))
            request = request if method == "post" else {}
            statuses.add(str(client.request(method, path, **request).status_code))
        # A busy worker refuses further connections of all paths.
        assert {*about["responses"]} == statuses | {"503"}


def test_only_models_of_tables_are_served(tagger):
    with pytest.raises(InputError, match="a server needs a model of the columns of a table"):
        create_app(tagger.method_)
    pictures = TagPipeline(image="file")
    with pytest.raises(InputError, match="does not open the files that a request names"):
        create_app(pictures)


def test_a_host_that_names_another_path_needs_the_token(tagger):
    client = TestClient(create_app(tagger, token="secret"))
    answer = client.get("/metrics", headers={"Host": "x/health?"})
    assert answer.status_code in (400, 401)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost:8000", 200),
        ("LOCALHOST", 200),
        ("[::1]:8000", 200),
        ("192.168.0.7", 200),
        ("tags.example.org:8000", 200),
        ("evil.com", 421),
        ("evil.com:8000", 421),
        ("localhost.evil.com", 421),
        ("127.0.0.1.evil.com", 421),
        ("", 421),
    ],
)
def test_without_a_token_a_foreign_host_is_refused(tagger, host, status):
    client = TestClient(create_app(tagger, hosts=["tags.example.org"]))
    answer = client.get("/health", headers={"Host": host})
    assert answer.status_code == status
    client = TestClient(create_app(tagger, token="secret", hosts=["tags.example.org"]))
    headers = {"Host": host, "Authorization": "Bearer secret"}
    assert client.get("/metrics", headers=headers).status_code == 200


def test_every_answer_has_an_id(client):
    answer = client.get("/health", headers={"X-Request-ID": "night-7:3"})
    assert answer.headers["X-Request-ID"] == "night-7:3"
    first = client.get("/health", headers={"X-Request-ID": 'a"} {"b'}).headers["X-Request-ID"]
    second = client.get("/nowhere").headers["X-Request-ID"]
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert first != second


def test_the_access_log_has_a_line_for_each_request_and_no_secret(tagger, tmp_path):
    log = AccessLog(tmp_path / "access.jsonl")
    client = TestClient(create_app(tagger, token="secret", access_log=log))
    sent = {"Authorization": "Bearer secret", "X-Request-ID": "first"}
    rows = {"rows": [{"title": "pan"}] * 3}
    client.post("/predict?token=secret", json=rows, headers=sent)
    client.get("/a%0Ab", headers={"X-Request-ID": "second"})
    log.close()
    text = (tmp_path / "access.jsonl").read_text()
    first, second = map(json.loads, text.splitlines())
    assert "secret" not in text
    assert "pan" not in text
    assert set(first) == {"time", "id", "client", "method", "path", "rows", "status", "ms"}
    chosen = ("id", "method", "path", "rows", "status")
    assert [first[key] for key in chosen] == ["first", "POST", "/predict", 3, 200]
    assert (second["id"], second["status"]) == ("second", 401)
    assert first["ms"] > 0


def test_a_log_that_cannot_be_written_is_counted(tagger, tmp_path):
    log = AccessLog(tmp_path / "access.jsonl")
    log.write = lambda record: False
    client = TestClient(create_app(tagger, access_log=log))
    assert client.get("/health").status_code == 200
    assert "schirn_unlogged_requests_total 1" in client.get("/metrics").text.splitlines()


def test_overload_is_counted(tagger):
    rows = {"rows": [{"title": "pan"}]}
    for limits, reason in (
        (Limits(waiting=0), "requests"),
        (Limits(seconds=1e-9), "time"),
    ):
        client = TestClient(create_app(tagger, limits=limits))
        answer = client.post("/predict", json=rows)
        assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
        line = f'schirn_overload_total{{reason="{reason}"}} 1'
        assert line in client.get("/metrics").text.splitlines()


def test_waiting_requests_have_a_size_together(tagger):
    app = create_app(tagger, limits=Limits(waiting_bytes=100))
    large = json.dumps({"rows": [{"title": "x" * 200}]}).encode()

    async def run():
        """The first request has not ended when the second comes."""
        gate = asyncio.Event()

        async def post(wait):
            pieces = [large, b""]
            answer = []

            async def receive():
                if len(pieces) == 1 and wait:
                    await gate.wait()
                body = pieces.pop(0)
                return {"type": "http.request", "body": body, "more_body": bool(pieces)}

            async def send(message):
                answer.append(message)

            headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
            scope = {
                "type": "http",
                "method": "POST",
                "path": "/predict",
                "query_string": b"",
                "headers": headers,
                "client": None,
            }
            await app(scope, receive, send)
            return answer[0]["status"]

        first = asyncio.create_task(post(wait=True))
        await asyncio.sleep(0.05)
        second = await post(wait=False)
        gate.set()
        return await first, second, await post(wait=False)

    # A request that is alone may be larger than that.
    assert asyncio.run(run()) == (200, 503, 200)
