"""Models in a local store of MLflow."""

import numpy as np
import pytest

import schirn
from schirn.features import TagPipeline

pd = pytest.importorskip("pandas")
mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")

TITLES = ["red pan", "steel pan", "red chair", "oak chair"] * 5


@pytest.fixture(scope="module")
def tagger():
    return TagPipeline(text="title").fit({"title": TITLES}, ["pan", "pan", "chair", "chair"] * 5)


def test_a_saved_folder_is_a_pyfunc(tagger, tmp_path):
    from schirn.persist.mlflow import load_model, save_model

    save_model(tagger, tmp_path / "tagger")
    frame = pd.DataFrame({"title": ["blue pan", "oak chair"]})
    loaded = mlflow.pyfunc.load_model(str(tmp_path / "tagger"))
    found = loaded.predict(frame)
    assert found["tags"].tolist() == [["pan"], ["chair"]]
    np.testing.assert_allclose(found[tagger.label_names_].to_numpy(), tagger.predict_proba(frame))
    same = load_model(str(tmp_path / "tagger"))
    assert isinstance(same, TagPipeline)
    assert same.predict_labels(frame) == [["pan"], ["chair"]]


def test_a_model_is_logged_to_a_local_store(tagger, tmp_path, monkeypatch):
    from schirn.persist.mlflow import log_model

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())
    with mlflow.start_run():
        info = log_model(tagger, "tagger")
    assert info.flavors["schirn"]["schirn_version"] == schirn.__version__
    found = mlflow.pyfunc.load_model(info.model_uri).predict(pd.DataFrame({"title": ["blue pan"]}))
    assert found["tags"].tolist() == [["pan"]]
