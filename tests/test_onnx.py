"""ONNX files, compared with the models in ONNX Runtime."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

import schirn
from schirn import lab
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.features import TagPipeline
from schirn.persist import to_onnx

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=150, n_features=12, n_labels=6, r=1, random_state=0)


def outputs(path, X):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    assert [(each.name, each.shape) for each in session.get_inputs()] == [
        ("X", ["rows", X.shape[1]])
    ]
    names = [each.name for each in session.get_outputs()]
    assert names == ["scores", "probabilities", "labels"]
    return session.run(names, {"X": X}), session.get_modelmeta().custom_metadata_map


def check(model, X, path, *, method=None, single=1e-4):
    """The graph gives the scores of the model in double precision, and nearly so in single."""
    X = np.asarray(X, dtype=np.float64)
    wanted = model.decision_function(X)
    scale = max(1.0, np.abs(wanted).max())
    for dtype, tolerance in (("float64", 1e-9), ("float32", single)):
        to_onnx(model, path, dtype=dtype)
        (scores, probabilities, labels), about = outputs(path, X.astype(dtype))
        assert scores.dtype == probabilities.dtype == dtype
        np.testing.assert_allclose(scores, wanted, rtol=0, atol=tolerance * scale)
        np.testing.assert_allclose(probabilities, model.predict_proba(X), rtol=0, atol=tolerance)
        assert labels.dtype == np.int64
        same = labels == model.predict(X)
        assert same.all() if dtype == "float64" else same.mean() > 0.99
    assert json.loads(about["label_names"]) == (method or model).label_names_
    assert about["method"] == type(method or model).__name__


METHODS = {
    "CandidateRidge": {"lam": 1.0},
    "Schirn": {"alpha": 0.2, "beta": 0.05, "lam": 10.0},
    "NLR": {"beta": 100.0, "gamma": 10.0, "lam": 2.1},
    "FPML": {"max_iter": 5},
    "PMLLRS": {"max_iter": 5},
    "PMLNI": {"max_iter": 5},
    "PAKS": {"max_iter": 5},
    "GLC": {"max_iter": 5},
    "PMLLENFN": {"max_iter": 3},
}


@pytest.mark.parametrize("name", METHODS)
def test_other_methods(data, name, tmp_path):
    cls = schirn.methods()[name]
    known = cls().get_params()
    params = {**METHODS[name], "threshold": 0.5}
    model = cls(**{key: value for key, value in params.items() if key in known})
    check(model.fit(data.X, data.candidates), data.X, tmp_path / "m.onnx")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"features": "text"},
        {"features": "none"},
        {"kernel": "linear"},
        {"max_kernel_rows": 50, "n_landmarks": 30},
        {"kernel": "linear", "max_kernel_rows": 5},
        {"estimate_noise": False},
    ],
    ids=str,
)
def test_sieve(data, options, tmp_path):
    model = schirn.Sieve(**options).fit(data.X, data.candidates)
    check(model, data.X, tmp_path / "m.onnx")


def test_sieve_with_more_labels_than_rows(tmp_path):
    rng = np.random.RandomState(0)
    X, Y = rng.randn(30, 5), rng.rand(30, 40) < 0.2
    Y[:, 0] = True
    model = schirn.Sieve().fit(X, Y)
    assert model.pool_.stack.right is not None
    check(model, X, tmp_path / "m.onnx")


def test_sieve_on_words(tmp_path):
    """Counts of words, with a row of none."""
    rng = np.random.RandomState(0)
    X = sp.csr_array(rng.poisson(0.15, size=(80, 60)).astype(float))
    X.data[: X.indptr[1]] = 0
    X.eliminate_zeros()
    Y = np.column_stack([X.toarray()[:, :5] > 0, np.ones(80)]).astype(int)
    model = schirn.Sieve().fit(X, Y)
    assert model.scale_.kind == "text"
    check(model, X.toarray(), tmp_path / "m.onnx")


@pytest.mark.parametrize("threshold", [0.3, "cardinality", [0.1] * 6])
def test_rules_of_predict(data, threshold, tmp_path):
    model = schirn.CandidateRidge(lam=1.0, threshold=threshold).fit(data.X, data.candidates)
    check(model, data.X, tmp_path / "m.onnx")


def test_what_a_graph_cannot_express(data, tmp_path):
    path = tmp_path / "m.onnx"
    table = {"text": ["red pan", "oak chair"] * 10, "tags": ["pan", "chair"] * 10}
    table["brand"] = ["Acme", "Oaks"] * 10
    tagger = TagPipeline(text="text", categories="brand").fit(table, table["tags"])
    with pytest.raises(InputError, match="learns from text, brand, and a graph makes features of"):
        to_onnx(tagger, path)
    # As the message says:
    to_onnx(tagger.method_, path, dtype="float64")
    weights = tagger.features_.transform(table).toarray().astype(np.float64)
    scores = tagger.decision_function(table)
    np.testing.assert_allclose(outputs(path, weights)[0][0], scores, rtol=1e-4)
    path.unlink()
    particle = lab.ParticleMAP().fit(data.X, data.candidates)
    with pytest.raises(InputError, match="not ParticleMAP"):
        to_onnx(particle, path)
    scaled = schirn.Sieve(features=StandardScaler()).fit(data.X, data.candidates)
    with pytest.raises(InputError, match=r"cannot hold the transformer StandardScaler\(\)"):
        to_onnx(scaled, path)
    for threshold in ("top-2", "row-0.6"):
        model = schirn.CandidateRidge(lam=1.0, threshold=threshold).fit(data.X, data.candidates)
        with pytest.raises(InputError, match="a number or one number per label"):
            to_onnx(model, path)
    with pytest.raises(InputError, match="dtype must be float32 or float64, not int64"):
        to_onnx(schirn.CandidateRidge(lam=1.0).fit(data.X, data.candidates), path, dtype=int)
    with pytest.raises(Exception, match="not fitted"):
        to_onnx(schirn.Sieve(), path)
    assert not path.exists()


TEXTS = ["red pan", "Blue PAN with lid", "an oak chair", "chair  of oak-wood", "x", "", "pan pan_1"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [["title"], ["title", "more"]])
def test_texts_are_taken_apart_in_the_graph(tmp_path, columns, dtype):
    table = {"title": TEXTS * 8, "more": ["steel and wood", "", "good old oak"] * 18 + ["", "a"]}
    tags = [["pan"] if "pan" in title.lower() else ["chair", "oak"] for title in table["title"]]
    tagger = TagPipeline(text=columns).fit(table, tags)
    to_onnx(tagger, tmp_path / "m.onnx", dtype=dtype)
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    assert [(each.name, each.type) for each in session.get_inputs()] == [
        (name, "tensor(string)") for name in columns
    ]
    new = ["a PAN", "oaken chairs,red", "re-pan!", "pa", "1 22 333", "  oak   chair ", "", "zzz"]
    rows = {name: [*new, *table[name][:9]] for name in columns}
    arrays = {name: np.array(cells, dtype=object) for name, cells in rows.items()}
    _, probabilities, labels = session.run(["scores", "probabilities", "labels"], arrays)
    np.testing.assert_allclose(probabilities, tagger.predict_proba(rows), atol=1e-5)
    np.testing.assert_array_equal(labels, tagger.predict(rows))
    # One text alone, as a service gets them.
    for i in range(3):
        one = {name: cells[i : i + 1] for name, cells in arrays.items()}
        np.testing.assert_allclose(
            session.run(["probabilities"], one)[0][0], probabilities[i], atol=1e-6
        )


def test_a_graph_of_texts_is_no_larger_than_twice_the_model_file(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{i}{'abcde'[i % 5]}" for i in range(300)]
    titles = [" ".join(rng.choice(words, 6)) for _ in range(300)]
    tagger = TagPipeline(text="title").fit({"title": titles}, [[t[:3]] for t in titles])
    to_onnx(tagger, tmp_path / "m.onnx")
    schirn.save(tagger, tmp_path / "m.schirn", include_training=False)
    assert (tmp_path / "m.onnx").stat().st_size < 2 * (tmp_path / "m.schirn").stat().st_size


def test_a_model_that_is_too_large(data, tmp_path, monkeypatch):
    monkeypatch.setattr("schirn.persist._onnx._MOST_BYTES", 10_000)
    model = schirn.Sieve().fit(data.X, data.candidates)
    with pytest.raises(InputError, match="more than 10,000 bytes of numbers"):
        to_onnx(model, tmp_path / "m.onnx")
