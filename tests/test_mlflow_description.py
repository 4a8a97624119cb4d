"""What a folder for MLflow says about a model, with a stand-in for MLflow itself."""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

import schirn
from schirn.features import TagPipeline
from schirn.persist.mlflow import _load_pyfunc, example_of, requirements, save_model

pd = pytest.importorskip("pandas")

TITLES = ["red pan", "steel pan", "red chair", "oak chair"] * 5


class Model:
    """Keeps what it is told."""

    def add_flavor(self, name, **options):
        self.flavor = name, options

    def save(self, path):
        self.path = path


@pytest.fixture(autouse=True)
def stand_in(monkeypatch):
    def record(name):
        return lambda *args, **options: SimpleNamespace(name=name, args=args, **options)

    modules = {
        "mlflow": {},
        "mlflow.pyfunc": {"add_to_model": lambda model, **options: None},
        "mlflow.models": {"Model": Model, "ModelSignature": record("signature")},
        "mlflow.types": {
            "ColSpec": lambda kind, name: (name, kind),
            "DataType": SimpleNamespace(string="string", double="double"),
            "ParamSchema": list,
            "Schema": list,
        },
        "mlflow.types.schema": {
            "Array": lambda kind: f"list of {kind}",
            "ParamSpec": lambda name, kind, default: (name, kind, default),
        },
    }
    for name, attributes in modules.items():
        module = ModuleType(name)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture(scope="module")
def tagger():
    table = {"title": TITLES, "price": [1.0, 2.0] * 10, "brand": ["a", "b"] * 10}
    tags = ["pan", "pan", "chair", "chair"] * 5
    return TagPipeline(text="title", columns=["price"], categories=["brand"]).fit(table, tags)


def test_the_signature_names_columns_and_tags(tagger, tmp_path):
    described = Model()
    save_model(tagger, tmp_path / "tagger", mlflow_model=described)
    signature = described.signature
    assert dict(signature.inputs) == {"title": "string", "price": "double", "brand": "string"}
    assert signature.outputs[0] == ("tags", "list of string")
    assert signature.outputs[1:] == [(name, "double") for name in tagger.label_names_]
    assert signature.params == [("threshold", "string", "")]


def test_the_example_can_be_predicted(tagger, tmp_path):
    described = Model()
    save_model(tagger, tmp_path / "tagger", mlflow_model=described)
    info = described.saved_input_example_info
    assert (info["type"], info["pandas_orient"]) == ("dataframe", "split")
    rows = json.loads((tmp_path / "tagger" / info["artifact_path"]).read_text())
    frame = pd.DataFrame(**rows)
    found = _load_pyfunc(tmp_path / "tagger" / "model.schirn").predict(frame)
    assert list(found.columns) == ["tags", *tagger.label_names_]
    served = json.loads((tmp_path / "tagger" / info["serving_input_path"]).read_text())
    assert served == {"dataframe_split": rows}


@pytest.mark.parametrize(("text", "count"), [("", None), ("top-2", 2), ("-1e9", 2), ("1e9", 0)])
def test_thresholds_are_texts(tagger, tmp_path, text, count):
    save_model(tagger, tmp_path / "tagger")
    predictor = _load_pyfunc(tmp_path / "tagger" / "model.schirn")
    frame = example_of(tagger)
    (tags,) = predictor.predict(frame, {"threshold": text})["tags"]
    (usual,) = predictor.predict(frame)["tags"]
    assert len(tags) == (len(usual) if count is None else count)


def test_matrices_have_columns_and_large_ones_no_example():
    model = schirn.CandidateRidge(lam=1.0).fit([[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]])
    assert example_of(model).shape == (1, 2)
    assert model.predict(example_of(model).to_numpy()).shape == (1, 2)
    model.n_features_in_ = 5_000
    assert example_of(model) is None


def test_what_is_required_can_be_installed(monkeypatch):
    monkeypatch.setattr(schirn, "__version__", "1.2.3")
    assert requirements()[0] == "schirn==1.2.3"
    monkeypatch.setattr(schirn, "__version__", "1.2.3.dev0")
    assert requirements()[0] == "schirn>=1.2.3.dev0"
    assert not any("[" in line for line in requirements())
    assert [line.partition("==")[0] for line in requirements()[1:]] == [
        *("numpy", "scipy", "scikit-learn", "pandas")
    ]
