import json
import os
import pickle
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError, ModelFileError
from schirn.features import TextFeatures
from schirn.noise.calibration import Calibration
from schirn.persist import read_notes


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=80, n_features=12, n_labels=5, r=1, random_state=0)


@pytest.fixture(params=sorted(schirn.methods()))
def model(request, data):
    return schirn.methods()[request.param]().fit(data.X, data.candidates)


@pytest.fixture
def ridge(data):
    return schirn.CandidateRidge(lam=1.0).fit(data.X, data.candidates)


@pytest.fixture
def saved(ridge, tmp_path):
    path = tmp_path / "model.schirn"
    schirn.save(ridge, path)
    return path


def same(left, right):
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and np.array_equal(left, right)
    if sp.issparse(left):
        parts = [(A.shape, A.data, A.indices, A.indptr) for A in (left, right)]
        return type(left) is type(right) and same(*parts)
    if isinstance(left, tuple):
        return type(left) is type(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[k], right[k]) for k in left)
    return type(left) is type(right) and left == right


def rewrite(path, *, header=None, members=None, seal=True):
    """Write the archive again with changes, with a fitting header checksum."""
    import hashlib

    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    if header:
        content = json.loads(parts["header.json"])
        header(content)
        parts["header.json"] = json.dumps(content).encode()
    if members:
        members(parts)
    if seal:
        comment = f"schirn-model sha256:{hashlib.sha256(parts['header.json']).hexdigest()}".encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        archive.comment = comment


def test_every_attribute_and_parameter_comes_back(model, data, tmp_path):
    path = tmp_path / "model.schirn"
    schirn.save(model, path)
    again = schirn.load(path)
    assert type(again) is type(model)
    assert vars(again).keys() == vars(model).keys()
    for name, value in vars(model).items():
        assert same(value, getattr(again, name)), name
    np.testing.assert_array_equal(again.predict_proba(data.X), model.predict_proba(data.X))
    np.testing.assert_array_equal(
        again.disambiguate(data.X, data.candidates), model.disambiguate(data.X, data.candidates)
    )


def test_names_and_thresholds_come_back(data, tmp_path):
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(data.X, columns=[f"f{j}" for j in range(12)])
    y = pandas.DataFrame(data.candidates, columns=list("äbcde"))
    cuts = [0.1, 0.2, float("inf"), 0.4, 0.5]
    model = schirn.Schirn(threshold=cuts).fit(X, y)
    schirn.save(model, tmp_path / "m")
    again = schirn.load(tmp_path / "m")
    assert again.label_names_ == list("äbcde")
    assert list(again.feature_names_in_) == list(X.columns)
    assert again.threshold == cuts
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_nested_values_come_back(ridge, tmp_path):
    ridge.scaler_ = StandardScaler().fit(np.arange(6.0).reshape(3, 2))
    ridge.graph_ = sp.csr_array(np.eye(3))
    ridge.parts_ = {"a": [1, (2.5, None)], "b": Calibration(np.float64(1), 2.0, float("nan"))}
    schirn.save(ridge, tmp_path / "m")
    again = schirn.load(tmp_path / "m")
    assert isinstance(again.scaler_, StandardScaler)
    row = [[1.0, 2.0]]
    np.testing.assert_array_equal(again.scaler_.transform(row), ridge.scaler_.transform(row))
    assert type(again.graph_) is sp.csr_array
    assert (again.graph_ != ridge.graph_).nnz == 0
    assert again.parts_["a"] == [1, (2.5, None)]
    assert type(again.parts_["b"].slope) is np.float64
    assert np.isnan(again.parts_["b"].noise_rate)


def test_without_training_rows_the_file_is_smaller_and_predicts_alike(ridge, data, tmp_path):
    schirn.save(ridge, tmp_path / "all")
    schirn.save(ridge, tmp_path / "small", include_training=False)
    again = schirn.load(tmp_path / "small")
    assert not hasattr(again, "noise_")
    assert not hasattr(again, "label_confidence_")
    np.testing.assert_array_equal(again.predict(data.X), ridge.predict(data.X))
    assert (tmp_path / "small").stat().st_size < (tmp_path / "all").stat().st_size


def test_equal_models_give_equal_files(ridge, saved, tmp_path):
    schirn.save(schirn.load(saved), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == saved.read_bytes()


def test_notes(ridge, tmp_path):
    schirn.save(ridge, tmp_path / "m", notes={"columns": ["a", "b"]})
    assert read_notes(tmp_path / "m") == {"columns": ["a", "b"]}


class Foreign(NamedTuple):
    """A named tuple that is not of this package."""

    a: int


@pytest.mark.parametrize(
    "value",
    [
        object(),
        NearestNeighbors(),
        {1: 2},
        sp.coo_array(np.eye(2)),
        np.array([{}]),
        Foreign(1),
    ],
)
def test_an_unknown_attribute_is_named_and_nothing_is_written(ridge, tmp_path, value):
    ridge.extra_ = [value]
    with pytest.raises(InputError, match=r"CandidateRidge\.extra_\[0\]"):
        schirn.save(ridge, tmp_path / "m")
    assert os.listdir(tmp_path) == []


def test_foreign_and_unfitted_models_are_refused(tmp_path):
    with pytest.raises(InputError, match="only methods of schirn can be saved"):
        schirn.save(StandardScaler(), tmp_path / "m")
    with pytest.raises(InputError, match="not fitted"):
        schirn.save(schirn.Schirn(), tmp_path / "m")


def test_a_failed_write_keeps_the_old_file(ridge, saved, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    with pytest.raises(OSError, match="full"):
        schirn.save(ridge, saved)
    assert saved.read_bytes() == before
    assert os.listdir(saved.parent) == [saved.name]


def test_an_unwritable_place_is_named_as_the_user_wrote_it(ridge, tmp_path):
    target = tmp_path / "absent" / "m.schirn"
    with pytest.raises(FileNotFoundError) as caught:
        schirn.save(ridge, target)
    assert caught.value.filename == str(target)


def test_a_link_is_followed_and_permissions_stay(ridge, saved):
    saved.chmod(0o640)
    link = saved.with_name("link")
    link.symlink_to(saved)
    schirn.save(ridge, link)
    assert link.is_symlink()
    assert saved.stat().st_mode & 0o777 == 0o640


def check_refused(path, match):
    with pytest.raises(ModelFileError, match=match) as caught:
        schirn.load(path)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text


def test_absent_and_foreign_files(tmp_path):
    path = tmp_path / "m"
    check_refused(path, "no such file")
    path.write_bytes(b"")
    check_refused(path, "not a model file")
    path.write_bytes(pickle.dumps({"a": 1}))
    check_refused(path, "not a model file")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    check_refused(path, "a zip archive, but not a model file")


def test_a_pickle_is_never_run(ridge, saved):
    class Bomb:
        def __reduce__(self):
            return (Path.touch, (saved.with_name("ran"),))

    rewrite(saved, members=lambda m: m.update({"array_0.npy": pickle.dumps(Bomb())}))
    check_refused(saved, "damaged")
    assert not saved.with_name("ran").exists()


def test_every_truncation_is_noticed(saved):
    content = saved.read_bytes()
    for end in range(0, len(content), max(1, len(content) // 60)):
        saved.write_bytes(content[:end])
        check_refused(saved, "truncated|not a model file|damaged")


def test_every_flipped_byte_is_noticed_or_harmless(ridge, saved, data):
    content = bytearray(saved.read_bytes())
    expected = ridge.predict_proba(data.X)
    noticed = 0
    for place in range(0, len(content), max(1, len(content) // 150)):
        changed = bytearray(content)
        changed[place] ^= 0x55
        saved.write_bytes(changed)
        try:
            again = schirn.load(saved)
        except ModelFileError:
            noticed += 1
        else:
            np.testing.assert_array_equal(again.predict_proba(data.X), expected)
    assert noticed > 100


def test_a_changed_header_is_noticed(saved):
    rewrite(saved, header=lambda h: h["model"]["params"].update(lam=9.0), seal=False)
    check_refused(saved, "does not match its checksum")


def test_a_changed_array_is_noticed(saved):
    def change(members):
        members["array_0.npy"] = members["array_0.npy"][:-1] + b"\x07"

    rewrite(saved, members=change)
    check_refused(saved, "'array_0.npy' does not match its checksum")


def test_missing_and_added_members(saved):
    rewrite(saved, members=lambda m: m.update({"more.npy": b"x"}))
    check_refused(saved, "missing or were added")
    rewrite(saved, members=lambda m: (m.pop("more.npy"), m.pop("array_1.npy")))
    check_refused(saved, "missing or were added")


def test_members_have_the_names_that_save_gives_them(saved):
    def rename(header):
        header["arrays"][0]["member"] = "../../evil.npy"

    def move(members):
        members["../../evil.npy"] = members.pop("array_0.npy")

    rewrite(saved, header=rename, members=move)
    with pytest.raises(ModelFileError, match="the file was changed"):
        schirn.load(saved)


@pytest.mark.parametrize("notes", [[1], "text", None])
def test_notes_are_a_dictionary(saved, notes):
    rewrite(saved, header=lambda h: h.update(notes=notes))
    for read in (schirn.load, read_notes):
        with pytest.raises(ModelFileError, match=r"its notes are .*, not a dictionary"):
            read(saved)


def test_a_newer_format_says_so(saved):
    rewrite(saved, header=lambda h: h.update(version=99))
    check_refused(saved, "newer version of schirn")


@pytest.mark.parametrize(
    ("written_by", "version"), [("0.3.0", 2), ("0.2.0", 1), ("0.3.0", 3), ("0.4.0", 1)]
)
def test_a_file_before_the_first_release_is_old_and_not_newer(saved, written_by, version):
    rewrite(saved, header=lambda h: h.update(schirn=written_by, version=version))
    check_refused(
        saved,
        rf"written by schirn {written_by}, whose files this version cannot read \(file format "
        rf"{version}\); train the model again",
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h["model"]["params"].update(no_such_parameter=1),
        lambda h: h["model"]["attributes"].update(noise_={"no_such_kind": 1}),
    ],
)
def test_what_only_a_newer_version_knows_is_not_damage(saved, change):
    rewrite(saved, header=change)
    check_refused(saved, "damaged")
    rewrite(saved, header=lambda h: h.update(schirn="999.1.0.dev0"))
    check_refused(saved, r"written by schirn 999\.1\.0\.dev0, which is newer than .* update schirn")


def test_a_file_of_a_newer_version_that_can_be_read_is_read(ridge, saved, data):
    rewrite(saved, header=lambda h: h.update(schirn="999.1.0"))
    assert_array_equal(schirn.load(saved).predict_proba(data.X), ridge.predict_proba(data.X))


def test_an_unknown_class_is_named(saved):
    rewrite(saved, header=lambda h: h["model"].update({"class": "os.system"}))
    check_refused(saved, r"'os.system'.*CandidateRidge")


def test_too_large_is_refused_before_reading(saved):
    with pytest.raises(ModelFileError, match="more than max_bytes=100"):
        schirn.load(saved, max_bytes=100)


def test_a_bomb_is_refused(saved):
    for shape in ([2**40, 2**20], [2**10]):
        rewrite(saved, header=lambda h, shape=shape: h["arrays"][0].update(shape=shape))
        check_refused(saved, "does not fit the header")


@pytest.mark.parametrize(
    "entry",
    [
        {"record": {"module": "os", "name": "stat_result", "fields": {}}},
        {"record": {"module": "schirn.noise.calibration", "name": "posterior", "fields": {}}},
        {"estimator": {"class": "Popen", "params": {}, "attributes": {}}},
        {"array": 99},
        {"array": -1},
        {"call": "x"},
        {},
    ],
)
def test_hostile_values_are_refused(saved, entry):
    rewrite(saved, header=lambda h: h["model"]["attributes"].update(extra_=entry))
    check_refused(saved, "damaged")


@pytest.mark.parametrize("name", ["predict", "__class__", "a b"])
def test_hostile_attribute_names_are_refused(saved, name):
    rewrite(saved, header=lambda h: h["model"]["attributes"].update({name: 1}))
    check_refused(saved, "not the name of a fitted attribute")


@pytest.mark.parametrize(
    ("name", "value"),
    [("lam", -1.0), ("lam", {"float": "nan"}), ("threshold", "x"), ("threshold", {"float": "nan"})],
)
def test_parameters_out_of_range_are_refused(saved, name, value):
    rewrite(saved, header=lambda h: h["model"]["params"].update({name: value}))
    check_refused(saved, f"{name} ")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "change",
    [
        lambda known: known["fields"].update(points=known["fields"]["hashes"]),
        lambda known: known["fields"].update(hashes=known["fields"]["weights"]),
        lambda known: known["fields"].update(weights=known["fields"]["hashes"]),
        lambda known: known["fields"].update(deviation=known["fields"]["sizes"]),
        lambda known: known["fields"].update(sizes=known["fields"]["mean"]),
        lambda known: known["fields"].update(radius=-1.0),
    ],
)
def test_training_rows_that_do_not_fit_are_refused(data, tmp_path, form, change):
    path = tmp_path / "m.schirn"
    X = form(np.abs(data.X) * (data.X > 0))
    schirn.save(schirn.Sieve().fit(X, data.candidates), path)
    original = path.read_bytes()

    def header(content):
        change(content["model"]["attributes"]["training_rows_"]["record"])

    rewrite(path, header=header)
    if path.read_bytes() != original:
        with pytest.raises(ModelFileError, match="training_rows_"):
            schirn.load(path)


@pytest.mark.parametrize("part", [np.s_[:-1], np.s_[:, :-1]])
def test_influence_of_other_rows_or_labels_is_refused(data, tmp_path, part):
    model = schirn.Sieve().fit(data.X, data.candidates)
    model.training_influence_ = model.training_influence_[part]
    with pytest.raises(InputError, match=r"training_influence_|of training_rows_"):
        schirn.save(model, tmp_path / "m.schirn")


def test_routing_requests_are_not_part_of_the_model(data, tmp_path):
    import sklearn

    with sklearn.config_context(enable_metadata_routing=True):
        model = schirn.OracleRidge().set_fit_request(y_clean=True)
        model.fit(data.X, data.candidates, y_clean=data.y_true)
    schirn.save(model, tmp_path / "m")
    assert schirn.load(tmp_path / "m").lam == model.lam


def test_names_with_half_of_a_surrogate_pair_can_be_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(12, 3))
    model = schirn.CandidateRidge().fit(X, [["x\ud83d"], ["dog"], ["x\ud83d", "dog"]] * 4)
    schirn.save(model, tmp_path / "x.schirn")
    assert schirn.load(tmp_path / "x.schirn").label_names_ == ["dog", "x\ufffd"]


def sparse_pipeline():
    steps = [("words", TextFeatures()), ("method", schirn.Sieve(features="none", kernel="linear"))]
    return Pipeline(steps)


TEXTS = ["red pan", "steel pan", "red chair", "oak chair"] * 6
NAMES = [["pan"], ["pan", "steel"], ["chair"], ["chair", "oak"]] * 6


def test_pipelines_of_scikit_learn_are_saved(tmp_path):
    X = np.random.default_rng(0).standard_normal((60, 8))
    Y = (X[:, :3] > 0).astype(int)
    Y[:, 0] |= Y.sum(1) == 0
    rows = {
        "scaled": (make_pipeline(StandardScaler(), PCA(5), schirn.Sieve()), X, Y),
        "passed": (Pipeline([("a", "passthrough"), ("b", schirn.Sieve())]), X, Y),
        "text": (sparse_pipeline(), TEXTS, NAMES),
    }
    for name, (pipeline, features, labels) in rows.items():
        pipeline.fit(features, labels)
        schirn.save(pipeline, tmp_path / name)
        same = schirn.load(tmp_path / name)
        assert type(same) is Pipeline
        assert list(same.named_steps) == list(pipeline.named_steps)
        assert_array_equal(same.predict(features), pipeline.predict(features))
        assert_array_equal(same.predict_proba(features), pipeline.predict_proba(features))
        # Equal models give equal bytes.
        schirn.save(same, tmp_path / "again")
        assert (tmp_path / "again").read_bytes() == (tmp_path / name).read_bytes()


def test_other_pipelines_are_refused(tmp_path):
    path = tmp_path / "model"
    with pytest.raises(InputError, match="pipelines that end with one, not LogisticRegression"):
        schirn.save(make_pipeline(StandardScaler(), LogisticRegression()), path)
    with pytest.raises(InputError, match="not fitted; call fit before save"):
        schirn.save(sparse_pipeline(), path)
    other = make_pipeline(
        QuantileTransformer(n_quantiles=5), schirn.CandidateRidge(lam=1.0, fit_intercept=True)
    )
    other.fit([[0.0], [1.0]] * 5, [[0, 1], [1, 0]] * 5)
    with pytest.raises(InputError, match="QuantileTransformer, which a model file cannot hold"):
        schirn.save(other, path)
    broken = make_pipeline(StandardScaler(), schirn.CandidateRidge(lam=1.0, fit_intercept=True))
    broken.fit([[0.0], [1.0]] * 5, [[0, 1], [1, 0]] * 5)
    broken.steps[0] = ("standardscaler", StandardScaler().fit([[0.0, 1.0]]))
    with pytest.raises(InputError, match="does not take the 2 features of its steps"):
        schirn.save(broken, path)
    assert not path.exists()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
def test_a_named_pipe_is_no_model(tmp_path):
    os.mkfifo(tmp_path / "pipe.schirn")
    with pytest.raises(ModelFileError, match="a named pipe"):
        schirn.load(tmp_path / "pipe.schirn")


@pytest.mark.slow
def test_a_model_of_thousands_of_labels_can_be_saved(tmp_path):
    """No row has thousands of candidates, so a model need not judge one to be saved."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 300))
    Y = (rng.random((120, 5000)).argsort(axis=1) < 4).astype(int)
    model = schirn.Sieve(kernel="linear").fit(X, Y)
    schirn.save(model, tmp_path / "many.schirn")
    scores = schirn.load(tmp_path / "many.schirn").decision_function(X[:3])
    np.testing.assert_array_equal(scores, model.decision_function(X[:3]))
