"""Rows in blocks and on a device give the model that rows in memory give."""

import sys
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

import schirn
from schirn import Schirn, Sieve, lab
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.scale import RowFile
from schirn.scale.blocks import Block, FeatureRows, MemoryRows, candidate_cells
from schirn.scale.fit import fit_store
from schirn.scale.input import location, sparse_candidates

storages = pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
intercepts = pytest.mark.parametrize("intercept", [False, True])


@pytest.fixture(scope="module")
def data():
    found = make_partial_multilabel(n_samples=150, n_features=12, n_labels=6, r=1, random_state=0)
    X = np.where(np.abs(found.X) > 0.4, found.X + 1.5, 0)
    return X, found.candidates


def fit_in_blocks(model, X, Y, cuts=(1, 40, 41), in_store=False):
    edges = [0, *cuts, X.shape[0]]
    store = MemoryRows(
        [
            Block(FeatureRows(X[i:j].copy(), i), candidate_cells(sp.csr_array(Y)[i:j]), in_store)
            for i, j in pairwise(edges)
        ]
    )
    fit_store(model, store, None)
    return model


@storages
@intercepts
@pytest.mark.parametrize("in_store", [False, True])
def test_blocks_give_the_model_of_one_piece(data, storage, intercept, in_store):
    X, Y = storage(data[0]), data[1]
    options = {
        "alpha": 0.2,
        "beta": 0.05,
        "lam": 1.0,
        "fit_intercept": intercept,
        "threshold": "row-0.9",
    }
    expected = Schirn(**options).fit(X, Y)
    found = fit_in_blocks(Schirn(**options), X, Y, in_store=in_store)
    scale = np.abs(expected.decision_function(X)).max()
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-9)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=1e-9 * scale)
    assert isinstance(found.noise_, sp.csr_array)
    assert found.noise_.dtype == bool
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
    assert 0 < found.noise_.nnz < Y.sum()
    assert found.label_confidence_.nnz == Y.sum()
    np.testing.assert_allclose(
        found.label_confidence_.toarray(), expected.label_confidence_, atol=1e-7
    )
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-8)
    np.testing.assert_allclose(found.residual_, expected.residual_, atol=1e-8 * scale)
    assert found.cardinality_ == pytest.approx(expected.cardinality_, rel=1e-6)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    np.testing.assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-7)
    for rule in ("cardinality", "top-2", 0.5):
        np.testing.assert_array_equal(
            found.predict(X, threshold=rule), expected.predict(X, threshold=rule)
        )


def test_single_precision_stays(data):
    X, Y = data[0].astype(np.float32), data[1]
    model = fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=1.0), X, Y)
    assert model.coef_.dtype == model.label_confidence_.dtype == np.float32
    expected = Schirn(alpha=0.2, beta=0.05, lam=1.0).fit(data[0], Y).decision_function(data[0])
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-3)


def test_many_rows_are_calibrated_on_a_sample(data, monkeypatch):
    X, Y = data
    whole = fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=1.0), X, Y)
    monkeypatch.setattr("schirn.scale.fit._SAMPLE_CELLS", 400)
    found = fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=1.0), X, Y)
    np.testing.assert_array_equal(found.coef_, whole.coef_)
    assert found.calibration_ != whole.calibration_
    assert found.calibration_.slope == pytest.approx(whole.calibration_.slope, rel=0.5)
    again = fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=1.0), X, Y, cuts=(7, 90))
    assert again.calibration_.slope == pytest.approx(found.calibration_.slope, rel=1e-6)


def test_model_files_hold_sparse_results(data, tmp_path):
    X, Y = data
    model = fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=1.0), X, Y)
    schirn.save(model, tmp_path / "blocks.schirn")
    again = schirn.load(tmp_path / "blocks.schirn")
    np.testing.assert_array_equal(again.noise_.toarray(), model.noise_.toarray())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_blocks_refuse_what_they_cannot_train_on(data):
    X, Y = data
    broken = X.copy()
    broken[47, 3] = np.nan
    with pytest.raises(InputError, match="NaN at row 47, column 3"):
        fit_in_blocks(Schirn(), broken, Y)
    with pytest.raises(InputError, match="row 47, column"):
        fit_in_blocks(Schirn(), sp.csr_array(broken), Y)
    with pytest.raises(InputError, match="scale the features"):
        fit_in_blocks(Schirn(), X * np.logspace(0, 9, 12), Y)
    with pytest.raises(InputError, match="no row carries a candidate"):
        fit_in_blocks(Schirn(), X, 0 * Y)
    empty = Y.copy()
    empty[44] = 0
    with pytest.warns(EmptyCandidatesWarning, match="1 of 150 rows .* row 44"):
        fit_in_blocks(Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=2), X, empty)
    with pytest.raises(InputError, match="20,001 features"):
        fit_in_blocks(Schirn(), sp.csr_array((150, 20_001)), Y)


def test_blocks_must_fit_together(data):
    X, Y = data[0], sp.csr_array(data[1])

    def fit(second, labels=Y[100:], names=None):
        parts = [(X[:100], Y[:100]), (second, labels)]
        blocks = [
            Block(FeatureRows(rows, 100 * k), candidate_cells(listed), False)
            for k, (rows, listed) in enumerate(parts)
        ]
        model = Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=2)
        fit_store(model, MemoryRows(blocks), names)
        return model

    fit(X[100:])
    with pytest.raises(InputError, match=r"block 1 has 11 features .* but block 0 has 12"):
        fit(X[100:, 1:])
    with pytest.raises(InputError, match=r"6 labels \(sparse\), but block 0 has .* 6 \(dense\)"):
        fit(sp.csr_array(X[100:]))
    with pytest.raises(InputError, match=r"and 5 labels .*; blocks must agree"):
        fit(X[100:], Y[100:, :5])
    with pytest.raises(
        InputError, match="the candidates have 6 label columns, but label_names has 2 names"
    ):
        fit(X[100:], names=["a", "b"])
    with pytest.raises(InputError, match="label_names holds 'a' twice"):
        fit(X[100:], names=["a"] * 6)
    assert fit(X[100:], names=np.arange(6)).label_names_ == list("012345")


def test_candidates_stay_sparse_and_are_checked(data):
    Y = data[1]
    sparse, names = sparse_candidates(sp.csr_array(Y.astype(float)), None)
    np.testing.assert_array_equal(sparse.toarray(), Y)
    assert names == list("012345")
    wrong = sp.csr_array(Y.astype(int))
    wrong[7, 2] = 4
    with pytest.raises(InputError, match="row 7, label 2 holds 4"):
        sparse_candidates(wrong, None)
    with pytest.raises(InputError, match="6 label columns, but label_names has 2 names"):
        sparse_candidates(sp.csr_array(Y), ["a", "b"])
    many = np.tile(Y, (100, 1))
    np.testing.assert_array_equal(sparse_candidates(many, None)[0].toarray(), many)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32, np.uint16])
def test_dense_candidates_are_read_on_the_device_of_the_rows(data, torch, dtype):
    T, Y = torch.asarray(data[0]), data[1].astype(dtype)
    for y in (Y, torch.asarray(Y)):
        sparse, names = sparse_candidates(y, None, T)
        assert sparse.dtype == np.uint8
        assert sparse.has_canonical_format
        np.testing.assert_array_equal(sparse.toarray(), data[1])
        assert names == list("012345")
    with pytest.raises(InputError, match="6 label columns, but label_names has 2 names"):
        sparse_candidates(Y, ["a", "b"], T)
    for value in (4, np.nan) if dtype is np.float32 else (4,) if dtype is not bool else ():
        Y[7, 2] = value
        with pytest.raises(InputError, match=f"row 7, label 2 holds {value}"):
            sparse_candidates(torch.asarray(Y), None, T)


@storages
@pytest.mark.parametrize("kernel_rows", [4000, 50], ids=["all rows", "landmarks"])
def test_sieve_on_blocks(data, storage, kernel_rows):
    X, Y = storage(data[0]), data[1]
    options = {"max_kernel_rows": kernel_rows, "n_landmarks": 40, "max_iter": 3}
    expected = Sieve(**options).fit(X, Y)
    found = fit_in_blocks(Sieve(**options), X, Y)
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
    np.testing.assert_allclose(
        found.label_confidence_.toarray(), expected.label_confidence_, atol=1e-4
    )
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-3)
    assert found.cardinality_ == pytest.approx(expected.cardinality_, rel=1e-4)
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))


def test_sieve_says_what_needs_all_rows(data, torch):
    from sklearn.preprocessing import StandardScaler

    X, Y = data
    with pytest.raises(InputError, match="a transformer needs all rows"):
        fit_in_blocks(Sieve(features=StandardScaler()), X, Y)
    given = {"known": np.zeros(Y.shape), "votes": (Y, 1), "groups": np.arange(len(Y))}
    for name, value in given.items():
        with pytest.raises(InputError, match=f"{name} needs rows in main memory") as error:
            Sieve().fit(torch.asarray(X), Y, **{name: value})
        assert error.value.parameter == name


@pytest.mark.parametrize("kernel_rows", [4000, 50], ids=["all rows", "landmarks"])
@pytest.mark.parametrize("given", ["votes", "known"])
def test_votes_and_known_labels_of_rows_in_a_file(data, tmp_path, kernel_rows, given):
    X, Y = data
    rng = np.random.default_rng(0)
    options = {
        "votes": (Y * rng.integers(1, 4, Y.shape), 3),
        "known": Y * rng.integers(0, 2, Y.shape),
    }
    chosen = {given: options[given]}
    model = Sieve(max_kernel_rows=kernel_rows, n_landmarks=40, max_iter=3)
    expected = clone(model).fit(X, Y, **chosen)
    plain = clone(model).fit(X, Y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "first.npy", X[:50])
    np.save(tmp_path / "second.npy", X[50:])
    for source in (tmp_path / "X.npy", [tmp_path / "first.npy", tmp_path / "second.npy"]):
        with RowFile(source, block_rows=30, scratch=tmp_path) as rows:
            found = clone(model).fit(rows, Y, **chosen)
            np.testing.assert_array_equal(found.label_confidence_, expected.label_confidence_)
            np.testing.assert_array_equal(found.predict(rows), expected.predict(X))
    assert (expected.label_confidence_ != plain.label_confidence_).any()


@pytest.mark.parametrize("kernel_rows", [4000, 50], ids=["all rows", "landmarks"])
def test_sieve_takes_and_gives_tensors(data, torch, kernel_rows):
    X, Y, T = data[0], data[1], torch.asarray(data[0])
    options = {"max_kernel_rows": kernel_rows, "n_landmarks": 40, "max_iter": 3}
    expected, found = Sieve(**options).fit(X, Y), Sieve(**options).fit(T, Y)
    outputs = {
        "label_confidence_": (found.label_confidence_, expected.label_confidence_),
        "noise_": (found.noise_, expected.noise_),
        "scores": (found.decision_function(T), expected.decision_function(X)),
        "probabilities": (found.predict_proba(T), expected.predict_proba(X)),
        "predictions": (found.predict(T), expected.predict(X)),
        "disambiguate": (found.disambiguate(T + 3, Y), expected.disambiguate(X + 3, Y)),
    }
    for name, (tensor, array) in outputs.items():
        assert isinstance(tensor, torch.Tensor), name
        np.testing.assert_allclose(tensor.numpy(), array, atol=1e-3, err_msg=name)
    assert found.informativeness_ == pytest.approx(expected.informativeness_, abs=1e-3)


def test_log_odds_of_all_rows_are_kept_where_a_sample_measures_the_features(
    data, torch, monkeypatch
):
    X, Y = data
    model = Sieve(max_iter=2, max_kernel_rows=50, n_landmarks=40)
    whole = clone(model).fit(torch.asarray(X), Y)
    monkeypatch.setattr(sys.modules["schirn.estimators.sieve"], "SAMPLE_ROWS", 50)
    found = clone(model).fit(torch.asarray(X), Y)
    assert isinstance(found.training_log_odds_, torch.Tensor)
    torch.testing.assert_close(found.training_log_odds_, whole.training_log_odds_)


def test_where_rows_are():
    assert location([[1.0, 2.0]]) == "memory"
    assert location([]) == "memory"
    assert location(sp.csr_array((2, 2))) == "memory"


@pytest.fixture
def torch():
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    return pytest.importorskip("torch", reason="torch is not installed")


@intercepts
@pytest.mark.parametrize("rows", [150, 9], ids=["tall", "wide"])
def test_tensors_in_tensors_out(data, torch, intercept, rows):
    X, Y = data[0][:rows], data[1][:rows]
    T = torch.asarray(X)
    options = {"alpha": 0.2, "beta": 0.05, "lam": 1.0, "fit_intercept": intercept}
    expected, found = Schirn(**options).fit(X, Y), Schirn(**options).fit(T, Y)
    outputs = {
        "coef_": (found.coef_, expected.coef_),
        "intercept_": (found.intercept_, expected.intercept_),
        "label_confidence_": (found.label_confidence_, expected.label_confidence_),
        "noise_": (found.noise_, expected.noise_),
        "scores": (found.decision_function(T), expected.decision_function(X)),
        "probabilities": (found.predict_proba(T), expected.predict_proba(X)),
        "disambiguate": (found.disambiguate(T + 3, Y), expected.disambiguate(X + 3, Y)),
    }
    for rule in (None, "top-2", "row-0.5", 0.3, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]):
        pair = found.predict(T, threshold=rule), expected.predict(X, threshold=rule)
        outputs[f"predict {rule}"] = pair
    for name, (tensor, array) in outputs.items():
        assert isinstance(tensor, torch.Tensor), name
        np.testing.assert_allclose(tensor.numpy(), array, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X))
    assert found.score(T, Y) == pytest.approx(expected.score(X, Y))


def test_tensors_of_wide_scale_are_factored_by_svd(data, torch):
    X, Y = data[0] * np.logspace(0, 9, 12), data[1]
    expected = Schirn().fit(X, Y).decision_function(X)
    found = Schirn().fit(torch.asarray(X), Y).decision_function(torch.asarray(X))
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-6 * np.abs(expected).max())


def test_tensors_keep_single_precision_and_sparse_candidates(data, torch):
    T = torch.asarray(data[0], dtype=torch.float32)
    model = Schirn(alpha=0.2, beta=0.05, lam=1.0).fit(
        T, sp.csr_array(data[1]), label_names=list("abcdef")
    )
    assert model.label_names_ == list("abcdef")
    assert model.coef_.dtype == model.predict_proba(T).dtype == torch.float32
    assert isinstance(model.noise_, sp.csr_array)
    expected = Schirn(alpha=0.2, beta=0.05, lam=1.0).fit(data[0], data[1]).noise_
    assert (model.noise_.toarray() != expected).mean() < 0.01


def test_models_of_tensors_are_saved_as_numpy(data, torch, tmp_path):
    T = torch.asarray(data[0])
    model = Schirn(alpha=0.2, beta=0.05, lam=1.0, threshold="row-0.9").fit(
        T, torch.asarray(data[1])
    )
    schirn.save(model, tmp_path / "tensors.schirn")
    again = schirn.load(tmp_path / "tensors.schirn")
    assert isinstance(again.coef_, np.ndarray)
    np.testing.assert_array_equal(again.predict(T).numpy(), model.predict(T).numpy())
    np.testing.assert_array_equal(again.predict(data[0]), model.predict(T).numpy())


def test_tensors_are_checked(data, torch):
    T, Y = torch.asarray(data[0]), data[1]
    with pytest.raises(InputError, match=r"sparse tensors \(torch.sparse_coo\)"):
        Schirn().fit(T.to_sparse(), Y)
    trained = Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=2).fit(T.clone().requires_grad_(), Y)
    assert not trained.coef_.requires_grad
    with pytest.raises(InputError, match="150 rows but the candidates have 149"):
        Schirn().fit(T, Y[:-1])
    broken = T.clone()
    broken[5, 2] = float("inf")
    with pytest.raises(InputError, match="inf at row 5, column 2"):
        Schirn().fit(broken, Y)
    model = Schirn(alpha=0.2, beta=0.05, lam=10.0, max_iter=2).fit(T, Y)
    with pytest.raises(InputError, match="11 features, but Schirn is expecting 12"):
        model.predict(T[:, :-1])
    for wrong in (T[0], T[:0], T[:, :0]):
        with pytest.raises(InputError, match=r"X must have rows and columns, got shape \("):
            Schirn().fit(wrong, Y)
    with pytest.raises(InputError, match="y is None"):
        Schirn().fit(T, None)
    with pytest.raises(InputError, match="no row carries a candidate"):
        Schirn().fit(T, 0 * Y)


def test_a_method_for_main_memory_says_so(data, tmp_path):
    X, Y = data
    np.save(tmp_path / "X.npy", X)
    with RowFile(tmp_path / "X.npy") as rows, pytest.raises(InputError) as caught:
        lab.NLR().fit(rows, Y)
    assert str(caught.value) == (
        "NLR works in main memory, but the rows are in files; load them, or use a method that "
        "trains where the rows are: Schirn or Sieve"
    )


@pytest.mark.parametrize("cls", [Schirn, Sieve])
@pytest.mark.parametrize("value", [1e155, -1e300, np.nan, np.inf])
def test_values_that_overflow_are_named_wherever_the_rows_live(data, cls, value):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    X, Y = data[0].copy(), data[1]
    X[60, 2] = value
    for fit in (
        lambda: fit_in_blocks(cls(), X, Y),
        lambda: cls().fit(torch.from_numpy(X), Y),
    ):
        with pytest.raises(InputError, match=r"X (holds|contains) .* at row 60, column 2"):
            fit()


@pytest.mark.parametrize("cls", [Schirn, Sieve])
@pytest.mark.parametrize("place", ["files", "device"])
def test_a_refit_elsewhere_forgets_the_rows_of_the_first_fit(cls, place, data, tmp_path):
    pd = pytest.importorskip("pandas", reason="the first fit takes a DataFrame")
    X, Y = data
    if place == "device":
        torch = pytest.importorskip("torch", reason="rows on a device need torch")
        rows = torch.asarray(X[50:])
    else:
        np.save(tmp_path / "rows.npy", X[50:])
        rows = RowFile(tmp_path / "rows.npy", block_rows=30)
    first = pd.DataFrame(X[:90]).add_prefix("feature ")
    model = cls().fit(first, Y[:90]).fit(rows, Y[50:])
    fresh = cls().fit(rows, Y[50:])
    assert set(vars(model)) == set(vars(fresh))
    np.testing.assert_array_equal(model.decision_function(X), fresh.decision_function(X))
    with_first = model.disambiguate(X[:90], Y[:90])
    np.testing.assert_array_equal(with_first, fresh.disambiguate(X[:90], Y[:90]))
