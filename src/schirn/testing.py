"""Contract checks for methods, to run on your own class.

>>> from schirn import CandidateRidge
>>> from schirn.testing import check_method
>>> check_method(CandidateRidge)
"""

import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning, InputError
from schirn.metrics import average_precision

Array = np.ndarray
Factory = Callable[..., Any]


def check_method(cls: Factory, **params: Any) -> None:
    """Run every contract check on the class; raise AssertionError at the first failure.

    Parameters
    ----------
    cls : class
        The estimator class.
    **params
        Constructor parameters for the checks, such as fewer rounds.
    """
    for _, check in contract_checks():
        check(cls, **params)


def contract_checks() -> Iterator[tuple[str, Callable[..., None]]]:
    """Return names and functions of all checks; each takes the class and its parameters."""
    for name, check in list(globals().items()):
        if name.startswith("check_") and name != "check_method":
            yield name.removeprefix("check_"), check


def _data(n: int = 90, d: int = 8, l: int = 5, r: int = 1, seed: int = 0) -> Dataset:
    return make_partial_multilabel(
        n_samples=n, n_features=d, n_labels=l, cardinality=2.0, r=r, random_state=seed
    )


def _fit(model: Any, X: Any, y: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EmptyCandidatesWarning)
        # Degenerate data may need more rounds than a method grants.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def _refuses(action: Callable[[], Any], *words: str) -> None:
    """Check that the action raises a one-line ValueError that contains the words."""
    try:
        action()
    except ValueError as error:
        message = str(error)
        missing = [word for word in words if word.lower() not in message.lower()]
        assert not missing, f"the error says {message!r} without {missing}"
        assert "\n" not in message.strip(), f"the error has more than one line: {message!r}"
        return
    raise AssertionError(f"no error was raised; one that mentions {words} was expected")


def _check_fitted(model: Any, X: Any, Y: Array) -> None:
    """Shapes, types and ranges of everything the contract names."""
    n, l = Y.shape
    scores, proba = model.decision_function(X), model.predict_proba(X)
    assert scores.shape == proba.shape == (n, l)
    assert scores.dtype.kind == "f"
    assert np.isfinite(scores).all()
    assert ((proba >= 0) & (proba <= 1)).all()
    predicted = model.predict(X)
    assert predicted.shape == (n, l)
    assert np.isin(predicted, [0, 1]).all()
    assert model.noise_.dtype == bool
    assert model.noise_.shape == (n, l)
    assert not (model.noise_ & (Y == 0)).any(), "noise_ marks cells that are no candidates"
    for confidence in (model.label_confidence_, model.disambiguate(X, Y)):
        assert confidence.shape == (n, l)
        assert ((confidence >= 0) & (confidence <= 1)).all()
        assert (confidence[Y == 0] == 0).all()
    assert model.n_iter_ >= 1
    assert np.ndim(model.objective_) == 1
    assert np.isfinite(model.objective_).all()
    assert len(model.label_names_) == l
    assert model.n_features_in_ == X.shape[1]


def check_attributes(cls: Factory, **params: Any) -> None:
    """Every public attribute and output has its shape, type and range."""
    data = _data()
    _check_fitted(_fit(cls(**params), data.X, data.candidates), data.X, data.candidates)


def check_parameters(cls: Factory, **params: Any) -> None:
    """`__init__` only stores; parameters are keyword-only; fit leaves them alone."""
    model = cls(**params)
    before = model.get_params()
    assert all(getattr(model, name) is value for name, value in before.items())
    data = _data()
    _fit(model, data.X, data.candidates)
    assert model.get_params() == before
    assert clone(model).get_params() == before


def check_containers(cls: Factory, **params: Any) -> None:
    """Candidates in every container give the same model."""
    data = _data()
    Y = data.candidates
    names = [f"label {j}" for j in range(Y.shape[1])]
    lists = [[names[j] for j in np.flatnonzero(row).tolist()] for row in Y]
    containers = [Y.astype(bool), Y.astype(float), np.asfortranarray(Y), sp.csr_array(Y), lists]
    expected = _fit(cls(**params), data.X, Y).decision_function(data.X)
    for container in containers:
        model = _fit(cls(**params), data.X, container)
        np.testing.assert_allclose(model.decision_function(data.X), expected, atol=1e-9)
    assert model.label_names_ == names
    np.testing.assert_allclose(model.disambiguate(data.X, lists), model.disambiguate(data.X, Y))


def check_sparse_features(cls: Factory, **params: Any) -> None:
    """A CSR matrix of features gives what the dense one gives."""
    data = _data()
    X = np.where(np.abs(data.X) > 0.5, data.X, 0)
    dense = _fit(cls(**params), X, data.candidates)
    sparse = _fit(cls(**params), sp.csr_array(X), data.candidates)
    expected = dense.decision_function(X)
    atol = 1e-6 * np.abs(expected).max()
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(X)), expected, atol=atol)
    np.testing.assert_allclose(sparse.decision_function(X), expected, atol=atol)


def check_float32(cls: Factory, **params: Any) -> None:
    """float32 features give float32 scores near the float64 ones."""
    data = _data()
    wide = _fit(cls(**params), data.X, data.candidates).decision_function(data.X)
    X = data.X.astype(np.float32)
    narrow = _fit(cls(**params), X, data.candidates).decision_function(X)
    assert narrow.dtype == np.float32
    assert np.corrcoef(wide.ravel(), narrow.ravel())[0, 1] > 0.98


def check_same_seed_same_result(cls: Factory, **params: Any) -> None:
    """Two fits agree to the bit; so do noise and scores with one thread and with two."""
    from threadpoolctl import threadpool_limits

    data = _data()
    results = []
    for threads in (1, 1, 2):
        with threadpool_limits(threads):
            model = _fit(cls(**params), data.X, data.candidates)
            results.append((model.decision_function(data.X), model.noise_))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][0], results[2][0], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(results[0][1], results[2][1])


def check_input_untouched(cls: Factory, **params: Any) -> None:
    """Fit and predict leave X and the candidates as they were."""
    data = _data()
    X, Y = data.X.copy(), data.candidates.copy()
    X.flags.writeable = Y.flags.writeable = False
    model = _fit(cls(**params), X, Y)
    model.predict(X)
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(Y, data.candidates)


def check_pickle(cls: Factory, **params: Any) -> None:
    """A pickled model predicts the same."""
    data = _data()
    model = _fit(cls(**params), data.X, data.candidates)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))


def check_learns(cls: Factory, **params: Any) -> None:
    """On unseen rows, the scores rank true labels clearly better than label frequencies."""
    data = _data(n=400, r=1)
    train, test = slice(0, 300), slice(300, 400)
    model = _fit(cls(**params), data.X[train], data.candidates[train])
    ours = average_precision(data.y_true[test], model.decision_function(data.X[test]))
    prior = np.tile(data.candidates[train].mean(axis=0), (100, 1))
    assert ours > average_precision(data.y_true[test], prior) + 0.05


def check_thresholds(cls: Factory, **params: Any) -> None:
    """`predict` follows a number, one number per label, top-k and the estimated cardinality."""
    data = _data()
    model = _fit(cls(**params), data.X, data.candidates)
    scores, l = model.decision_function(data.X), data.candidates.shape[1]
    middle = float(np.median(scores))
    np.testing.assert_array_equal(model.predict(data.X, threshold=middle), scores > middle)
    each = np.median(scores, axis=0)
    np.testing.assert_array_equal(model.predict(data.X, threshold=each), scores > each)
    assert (model.predict(data.X, threshold="top-2").sum(axis=1) == 2).all()
    matched = model.predict(data.X, threshold="cardinality").sum() / len(scores)
    assert 0 <= matched <= l
    _refuses(lambda: model.predict(data.X, threshold="many"), "threshold", "many")
    _refuses(lambda: model.predict(data.X, threshold=[0.5] * (l + 1)), "threshold")


def check_odd_data(cls: Factory, **params: Any) -> None:
    """Degenerate data give finite, well-formed results."""
    data = _data(n=60)
    X, Y = data.X, data.candidates
    constant_labels = np.column_stack([np.zeros_like(Y[:, 0]), np.ones_like(Y[:, 0]), Y])
    empty_rows = Y.copy()
    empty_rows[:5] = 0
    many = _data(n=12, d=20, l=30, r=3)
    cases = {
        "labels never and always listed": (X, constant_labels),
        "rows without candidates": (X, empty_rows),
        "duplicate labels": (X, np.column_stack([Y, Y])),
        "one label": (X, Y[:, :1]),
        "fewer rows than labels": (many.X, many.candidates),
        "zero and constant features": (np.column_stack([0 * X, 0 * X[:, :1] + 1, X]), Y),
        "repeated features": (np.column_stack([X, X]), Y),
        "repeated rows": (np.vstack([X, X]), np.vstack([Y, Y])),
        "features without variation": (np.ones_like(X), Y),
        "wide scales": (X * np.logspace(-3, 5, X.shape[1]), Y),
        "tiny features": (X * 1e-8, Y),
        "huge features": (X * 1e8, Y),
    }
    for name, (features, labels) in cases.items():
        try:
            _check_fitted(_fit(cls(**params), features, labels), features, labels)
        except Exception as error:
            raise AssertionError(f"{cls.__name__} fails on {name}: {error}") from error


def check_bad_input(cls: Factory, **params: Any) -> None:
    """Bad input raises a one-sentence error that names the row and column."""
    data = _data()
    X, Y = data.X, data.candidates
    model = _fit(cls(**params), X, Y)
    for bad, word in ((np.nan, "NaN"), (np.inf, "inf")):
        broken = X.copy()
        broken[3, 2] = bad
        words = (word, "row 3", "column 2")
        _refuses(partial(cls(**params).fit, broken, Y), *words)
        _refuses(partial(model.predict, broken), *words)
    three = Y.astype(int)
    three[4, 1] = 3
    _refuses(lambda: cls(**params).fit(X, three), "row 4", "label 1", "3")
    _refuses(lambda: cls(**params).fit(X[:-1], Y), "89 rows", "90")
    _refuses(lambda: cls(**params).fit(X, np.zeros_like(Y)), "no row carries a candidate")
    _refuses(lambda: cls(**params).fit(X, None), "y")
    _refuses(lambda: model.predict(X[:, :-1]), "7 features", "8 features")
    _refuses(lambda: model.disambiguate(X, Y[:, :-1]), "4 label", "5")
    _refuses(lambda: model.disambiguate(X, [["nowhere"]] * len(X)), "nowhere", "row 0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        empty = Y.copy()
        empty[7] = 0
        cls(**params).fit(X, empty)
    assert any("row 7" in str(w.message) for w in caught), "an empty candidate row must warn"
    assert issubclass(InputError, ValueError)
