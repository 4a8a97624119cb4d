"""A loaded model is tried out: damaged fields with fitting checksums are refused or harmless."""

import copy
import hashlib
import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from sklearn.decomposition import PCA

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError, ModelFileError
from schirn.features import TagPipeline

DATA = make_partial_multilabel(n_samples=40, n_features=5, n_labels=4, r=1, random_state=0)
QUICK = {"max_iter": 3, "hidden_size": 4}
# What a field of the header may be replaced by.
VALUES = [
    None,
    True,
    -1,
    10**400,
    0.5,
    1e300,
    "x",
    [],
    {},
    {"list": []},
    {"tuple": [1, "a"]},
    {"float": "nan"},
    {"names": ["a"]},
    {"array": 0},
    {"array": 10**9},
    {"estimator": {"class": "StandardScaler", "params": {}, "attributes": {}}},
    {
        "record": {
            "name": "Calibration",
            "fields": {"slope": 1.0, "offset": 0.0, "noise_rate": 0.1},
        }
    },
]


def fitted(name, **params):
    if name == "TagPipeline":
        texts = [f"{'red' if tag else 'blue'} thing" for tag in DATA.candidates[:, 0]]
        numbers = ["", *(f"{value:.2f}" for value in DATA.X[1:, 0])]
        table = {"t": texts, "n": numbers, "c": [text[:3] for text in texts]}
        tagger = TagPipeline(text="t", columns=["n"], categories="c", method="CandidateRidge")
        return tagger.fit(table, DATA.candidates)
    model = schirn.methods()[name](**params)
    own = {k: v for k, v in QUICK.items() if k in model.get_params()}
    return model.set_params(**own).fit(DATA.X, DATA.candidates)


def read(path):
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
        arrays = [np.load(io.BytesIO(archive.read(m["member"]))) for m in header["arrays"]]
    return header, arrays


def write(path, header, arrays):
    """Write a model file whose checksums fit."""
    header = {**header, "arrays": []}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for k, array in enumerate(arrays):
            stream, name = io.BytesIO(), f"array_{k}.npy"
            np.lib.format.write_array(stream, array, allow_pickle=False)
            archive.writestr(name, stream.getvalue())
            digest = hashlib.sha256(stream.getvalue()).hexdigest()
            entry = {"member": name, "dtype": array.dtype.str, "shape": list(array.shape)}
            header["arrays"].append({**entry, "sha256": digest})
        text = json.dumps(header).encode()
        archive.writestr("header.json", text)
        archive.comment = f"schirn-model sha256:{hashlib.sha256(text).hexdigest()}".encode()


def places(entry, path=()):
    """The path of every field of the header, at any depth."""
    for key in entry if isinstance(entry, dict) else range(len(entry)):
        yield (*path, key)
        if isinstance(entry[key], dict | list):
            yield from places(entry[key], (*path, key))


def changed(header, path, value=None, *, delete=False):
    header = copy.deepcopy(header)
    parent = header["model"]
    for key in path[:-1]:
        parent = parent[key]
    if delete:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return header


def damaged(array):
    yield array[:-1] if array.ndim else array.reshape(1)
    yield array.T.copy() if array.ndim > 1 else array.reshape(-1, 1)
    yield array.astype(np.int64) if array.dtype.kind == "f" else array.astype(np.float64)
    yield array.astype("U3")
    yield array * 0 + (np.nan if array.dtype.kind == "f" else 99)
    yield -array.astype(np.float64) if array.dtype.kind == "f" else -1 - array.astype(np.int64)


def use(model):
    """Everything a loaded model is asked for."""
    if isinstance(model, TagPipeline):
        X = {"t": ["red pan", "", "blue"], "n": [1, "2,5", None], "c": ["red", "blu", None]}
        try:
            model.predict_proba(X)
            model.predict_labels(X)
        except InputError as error:
            # Another name of a column is as good as the right one.
            if "there is no column" not in str(error):
                raise
        model = model.method_
    X = DATA.X if model.n_features_in_ == 5 else np.zeros((3, model.n_features_in_))
    Y = np.ones((len(X), len(model.label_names_)), dtype=np.uint8)
    found = model.decision_function(X), model.predict(X), model.predict_proba(X)
    found += model.disambiguate(X, Y), model.predict(X, threshold="cardinality")
    assert all(scores.shape == Y.shape for scores in found)
    assert not any(np.isnan(scores).any() for scores in found)
    model.predict_labels(X)
    repr(model)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", [*sorted(schirn.methods()), "Sieve with PCA", "TagPipeline"])
def test_a_damaged_field_is_refused_or_harmless(name, tmp_path):
    """Every field is deleted or replaced, every array changed; any other error fails the test."""
    path, rng = tmp_path / "m", np.random.default_rng(0)
    model = fitted("Sieve", features=PCA(3)) if " " in name else fitted(name)
    schirn.save(model, path, include_training=False)
    header, arrays = read(path)
    cases = []
    for place in places(header["model"]):
        delete, value = rng.random() < 0.4, VALUES[rng.integers(len(VALUES))]
        cases.append((changed(header, place, value, delete=delete), arrays))
    for k, array in enumerate(arrays):
        others = list(damaged(array))
        some = rng.choice(len(others), 4, replace=False)
        cases += [(header, [*arrays[:k], others[j], *arrays[k + 1 :]]) for j in some]
    refused = 0
    for own_header, own_arrays in cases:
        write(path, own_header, own_arrays)
        try:
            found = schirn.load(path)
        except ModelFileError:
            refused += 1
        else:
            use(found)
    # No output depends on parameters, traces and counts.
    assert refused > len(cases) / 3


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.schirn"
    schirn.save(fitted("CandidateRidge"), path)
    return path


@pytest.mark.parametrize(
    ("attribute", "change"),
    [
        ("coef_", lambda A: A[:, :4]),
        ("coef_", lambda A: A * np.nan),
        ("intercept_", lambda A: A[:3]),
        ("noise_", lambda A: A[:, :3]),
        ("label_confidence_", lambda A: A[:10]),
        ("label_confidence_", lambda A: A + 1),
    ],
)
def test_arrays_that_do_not_fit_are_refused(saved, attribute, change):
    header, arrays = read(saved)
    number = header["model"]["attributes"][attribute]["array"]
    arrays[number] = change(arrays[number])
    write(saved, header, arrays)
    with pytest.raises(ModelFileError, match="CandidateRidge cannot be used"):
        schirn.load(saved)


def test_missing_attributes_are_named(saved):
    header, arrays = read(saved)
    write(saved, changed(header, ("attributes", "calibration_"), delete=True), arrays)
    with pytest.raises(ModelFileError, match=r"Ridge cannot be used: .*'calibration_'"):
        schirn.load(saved)


def test_class_attributes_cannot_be_overwritten(saved):
    header, arrays = read(saved)
    write(saved, changed(header, ("attributes", "row_locations"), {"tuple": ["memory"]}), arrays)
    with pytest.raises(ModelFileError, match="'row_locations' is not the name of a fitted"):
        schirn.load(saved)


@pytest.mark.parametrize("dtype", ["<U200000000", "|S800000000", "|V800000000", "O", "M8[s]"])
def test_only_numbers_are_read(saved, dtype):
    """NumPy allocates one item even for an array without items."""
    header, arrays = read(saved)
    write(saved, header, arrays)
    with zipfile.ZipFile(saved) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(parts["header.json"])
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': (0,), }}".ljust(117) + "\n"
    parts["array_0.npy"] = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    digest = hashlib.sha256(parts["array_0.npy"]).hexdigest()
    header["arrays"][0] |= {"dtype": dtype, "shape": [0], "sha256": digest}
    parts["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(saved, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
        digest = hashlib.sha256(parts["header.json"]).hexdigest()
        archive.comment = f"schirn-model sha256:{digest}".encode()
    tracemalloc.start()
    with pytest.raises(ModelFileError, match=f"an array of type '{dtype[:2]}.*, not of numbers"):
        schirn.load(saved)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 50e6


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    model = fitted("CandidateRidge")
    model.coef_ = model.coef_[:, :4]
    with pytest.raises(InputError, match="this model cannot be saved: CandidateRidge cannot be"):
        schirn.save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()
