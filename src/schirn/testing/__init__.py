"""Contract checks for methods, to run on your own class.

>>> from schirn import CandidateRidge
>>> from schirn.testing import check_method
>>> check_method(CandidateRidge)
"""

import inspect
import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from threadpoolctl import threadpool_limits

from schirn._input import Array
from schirn.datasets import Dataset, make_partial_multilabel
from schirn.exceptions import EmptyCandidatesWarning
from schirn.metrics import average_precision
from schirn.testing._reach import (
    N_TRAIN,
    Watch,
    labels_in_files,
    labels_in_globals,
    make_data,
    watched,
    with_labels_on_the_stack,
)

Factory = Callable[..., Any]


def check_method(method: Any, **params: Any) -> None:
    """Run every contract check on a method; raise AssertionError at the first broken promise.

    The error names the promise, whatever went wrong, also under ``python -O``. A class that is
    declared dense-only (`_takes_sparse = False`, or scikit-learn's tag) must refuse sparse rows.

    Parameters
    ----------
    method : class or estimator
        The estimator class, or an unfitted estimator whose parameters the checks use.
    **params
        Constructor parameters for the checks, such as fewer rounds.

    Examples
    --------
    >>> from schirn import CandidateRidge
    >>> class Boastful(CandidateRidge):
    ...     def predict_proba(self, X):
    ...         return 2 * super().predict_proba(X)
    >>> try:
    ...     check_method(Boastful)
    ... except AssertionError as error:
    ...     print(str(error).partition(": ")[0])
    ...     print(str(error).rpartition(". ")[2])
    Boastful breaks the promise "attributes"
    The probabilities are not all between 0 and 1.
    """
    if not inspect.isclass(method) and hasattr(method, "get_params"):
        params = {**method.get_params(deep=False), **params}
        method = type(method)
    for _, check in contract_checks():
        check(method, **params)


def contract_checks() -> Iterator[tuple[str, Callable[..., None]]]:
    """Return names and functions of all checks; each takes the class and its parameters.

    Returns
    -------
    iterator of (str, callable)
    """
    for name, check in list(globals().items()):
        if name.startswith("check_") and name != "check_method":
            short = name.removeprefix("check_")
            yield short, partial(_check, short, check)


def _check(name: str, check: Callable[..., None], cls: Factory, **params: Any) -> None:
    """Run a check; whatever goes wrong is a broken promise."""
    try:
        check(cls, **params)
    except (Exception, SystemExit) as error:
        message = str(error).strip()
        if not isinstance(error, AssertionError):
            message = f"{type(error).__name__}: {message}".rstrip(": ")
        promise = (check.__doc__ or "").partition("\n")[0]
        raise AssertionError(
            f'{getattr(cls, "__name__", cls)} breaks the promise "{name}": '
            f"{promise[:1].lower()}{promise[1:]} {message}"
        ) from error


def _holds(condition: Any, otherwise: str) -> None:
    """Raise AssertionError unless the condition holds; `assert` does nothing under python -O."""
    if not condition:
        raise AssertionError(f"{otherwise[:1].upper()}{otherwise[1:]}.")


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


def _refuses(what: str, action: Callable[[], Any], *words: str) -> None:
    """Check that the action raises a one-line ValueError that contains the words."""
    try:
        action()
    except ValueError as error:
        message = str(error)
        missing = [word for word in words if word.lower() not in message.lower()]
        _holds(not missing, f"the error about {what} says {message!r}, without {missing}")
        _holds(
            "\n" not in message.strip(), f"the error about {what} has several lines: {message!r}"
        )
    except Exception as error:
        raise AssertionError(
            f"{what} raises {type(error).__name__} ({error}) instead of ValueError."
        ) from error
    else:
        raise AssertionError(f"{what} raises no error; it should mention {', '.join(words)}.")


def _check_fitted(model: Any, X: Any, Y: Array) -> None:
    """Shapes, types and ranges of everything the contract names."""
    shape = Y.shape
    scores = model.decision_function(X)
    proba = model.predict_proba(X)
    predicted = model.predict(X)
    _holds(np.shape(scores) == shape, f"the scores have shape {np.shape(scores)}, not {shape}")
    _holds(scores.dtype.kind == "f", f"the scores have type {scores.dtype}, not a float type")
    _holds(np.isfinite(scores).all(), "the scores are not all finite")
    _holds(np.shape(proba) == shape, f"the probabilities have shape {np.shape(proba)}, not {shape}")
    _holds(_in_unit(proba), "the probabilities are not all between 0 and 1")
    _holds(np.shape(predicted) == shape, f"`predict` has shape {np.shape(predicted)}, not {shape}")
    _holds(np.isin(predicted, [0, 1]).all(), "`predict` returns values other than 0 and 1")
    noise = model.noise_
    _holds(np.shape(noise) == shape, f"`noise_` has shape {np.shape(noise)}, not {shape}")
    _holds(noise.dtype == bool, f"`noise_` has type {noise.dtype}, not bool")
    _holds(not (noise & (Y == 0)).any(), "`noise_` marks cells that are not candidates")
    for name, confidence in (
        ("`label_confidence_`", model.label_confidence_),
        ("`disambiguate`", model.disambiguate(X, Y)),
    ):
        _holds(np.shape(confidence) == shape, f"{name} has another shape than the candidates")
        _holds(_in_unit(confidence), f"{name} has values that are not between 0 and 1")
        _holds((confidence[Y == 0] == 0).all(), f"{name} is not 0 for labels that are not listed")
    _holds(model.n_iter_ >= 1, f"`n_iter_` is {model.n_iter_}, not at least 1")
    trace = np.asarray(model.objective_)
    _holds(
        trace.ndim == 1 and np.isfinite(trace).all(), "`objective_` is no list of finite numbers"
    )
    _holds(len(model.label_names_) == shape[1], "`label_names_` does not have one name per label")
    _holds(model.n_features_in_ == X.shape[1], "`n_features_in_` is not the number of features")


def _in_unit(values: Any) -> bool:
    return bool(((values >= 0) & (values <= 1)).all())


def _rows(data: Dataset) -> tuple[Array, Array, Array]:
    """Copies of features and candidates of training rows, and of features of test rows."""
    return data.X[:N_TRAIN].copy(), data.candidates[:N_TRAIN].copy(), data.X[N_TRAIN:].copy()


def _outputs(cls: Factory, params: dict[str, Any], rows: tuple[Any, ...]) -> Array | None:
    """Scores of test rows after a fit; None if that fails, which other checks report."""
    X, candidates, X_test = rows
    try:
        return np.asarray(_fit(cls(**params), X, candidates).decision_function(X_test))
    except (Exception, SystemExit):
        return None


def _check_reach(
    cls: Factory,
    params: dict[str, Any],
    what: str,
    offer: Callable[[Callable[[], Array | None], Dataset], Array | None],
) -> Watch:
    """Compare fits with true labels out of reach and in reach; return what the fits read."""
    fit = partial(_outputs, cls, params, _rows(make_data(0)))
    with watched() as watch:
        first = fit()
        second = fit()
        # A method that differs from fit to fit cannot be compared; other checks report it.
        if first is None or second is None or np.array_equal(first, second):
            offered = offer(fit, make_data(0))
            is_equal = first is None and offered is None
            if first is not None and offered is not None:
                is_equal = first.shape == offered.shape and np.allclose(first, offered)
            _holds(is_equal, f"it learns something else if the true labels are {what}")
    return watch


def check_call_stack(cls: Factory, **params: Any) -> None:
    """Fit does not look at the call stack, where a benchmark has the true labels."""
    _check_reach(cls, params, "on the call stack", with_labels_on_the_stack)


def check_globals(cls: Factory, **params: Any) -> None:
    """Fit does not use global variables of the program that calls it."""
    _check_reach(
        cls,
        params,
        "in global variables",
        lambda fit, data: labels_in_globals(data, cls.__module__)(fit)(),
    )


def check_files(cls: Factory, **params: Any) -> None:
    """Fit learns from its arguments and reads no other data."""
    watch = _check_reach(cls, params, "in files", lambda fit, data: labels_in_files(data)(fit)())
    _holds(not watch.files, f"it reads {', '.join(dict.fromkeys(watch.files))}")


def check_learns(cls: Factory, **params: Any) -> None:
    """Scores of unseen rows are clearly better than label frequencies and random labels give.

    The true labels are not in memory during the fits; the same seed makes them again afterwards.
    """
    gains = []
    for seed in (1, 2):
        X, candidates, X_test = _rows(make_data(seed))
        shuffled = candidates[np.random.RandomState(0).permutation(len(candidates))]
        outputs = [np.tile(candidates.mean(axis=0), (len(X_test), 1))]
        for Y in (shuffled, candidates):
            scores = _outputs(cls, params, (X, Y, X_test))
            if scores is None or scores.shape != (len(X_test), Y.shape[1]):
                return  # The next check reports it.
            outputs.append(np.nan_to_num(scores))
        truth = make_data(seed).y_true[N_TRAIN:]
        precisions = [average_precision(truth, scores) for scores in outputs]
        gains.append(precisions.pop() - max(precisions))
    _holds(
        np.mean(gains) > 0.1,
        f"the average precision is {np.mean(gains):.3f} higher than that of the better of these "
        "two, but should be more than 0.1 higher",
    )


def check_attributes(cls: Factory, **params: Any) -> None:
    """Every public attribute and output has its shape, type and range."""
    data = _data()
    _check_fitted(_fit(cls(**params), data.X, data.candidates), data.X, data.candidates)


def check_rows_alone(cls: Factory, **params: Any) -> None:
    """The scores of a row do not depend on the other rows that are scored with it."""
    data = _data()
    model = _fit(cls(**params), data.X[:60], data.candidates[:60])
    X = data.X[60:]
    for name in ("decision_function", "predict_proba"):
        score = getattr(model, name)
        batch = score(X)
        atol = 1e-6 * max(1e-12, float(np.abs(batch).max()))
        for what, rows in (
            ("alone", [score(X[k : k + 1])[0] for k in range(len(X))]),
            ("in another order", score(X[::-1])[::-1]),
        ):
            close = np.allclose(rows, batch, rtol=1e-5, atol=atol)
            _holds(close, f"`{name}` gives a row other values {what} than with all rows")


def check_hidden_state(cls: Factory, **params: Any) -> None:
    """A fit does not depend on earlier fits, of the same object or of another one."""
    data = _data()
    another = _data(seed=1)

    def scores(model: Any) -> Array:
        return np.asarray(_fit(model, data.X, data.candidates).decision_function(data.X))

    first = scores(cls(**params))
    state = _state(cls)
    if not np.array_equal(first, scores(cls(**params))):
        # Fits that differ although nothing was stored are random, which the next check reports.
        _holds(_state(cls) == state, "a second fit differs, and a class or a global has changed")
        return
    model = _fit(cls(**params), another.X, another.candidates)
    for what, later in (("another", cls(**params)), ("the same", model)):
        _holds(
            np.array_equal(scores(later), first),
            f"the scores change after a fit of {what} object on other rows",
        )
    leftover = set(vars(model)) - set(vars(_fit(cls(**params), data.X, data.candidates)))
    _holds(not leftover, f"a second fit leaves {', '.join(sorted(leftover))} of the first one")


def _state(cls: Factory) -> list[str]:
    """What the class and its module store."""
    module = inspect.getmodule(cls)
    places = [*(vars(base) for base in getattr(cls, "__mro__", ())), vars(module) if module else {}]
    return [
        repr((name, value))
        for place in places
        for name, value in place.items()
        if not name.startswith("__") and not callable(value) and not inspect.ismodule(value)
    ]


def check_same_seed_same_result(cls: Factory, **params: Any) -> None:
    """Two fits agree to the bit; so do noise and scores with one thread and with two."""
    data = _data()
    results = []
    for threads in (1, 1, 2):
        with threadpool_limits(threads):
            model = _fit(cls(**params), data.X, data.candidates)
            results.append((model.decision_function(data.X), model.noise_))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_allclose(results[0][0], results[2][0], rtol=1e-6, atol=1e-9)
    np.testing.assert_array_equal(results[0][1], results[2][1])


def check_parameters(cls: Factory, **params: Any) -> None:
    """`__init__` only stores; parameters are keyword-only; fit leaves them alone."""
    model = cls(**params)
    kinds = inspect.signature(cls).parameters.values()
    _holds(
        all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in kinds),
        "a parameter of `__init__` is not keyword-only",
    )
    initial = model.get_params()
    for name, value in initial.items():
        _holds(getattr(model, name) is value, f"`__init__` changes {name}")
    data = _data()
    _fit(model, data.X, data.candidates)
    for name, value in model.get_params().items():
        _holds(value is initial[name] or value == initial[name], f"`fit` changes {name}")
    _holds(clone(model).get_params() == initial, "`clone` changes a parameter")


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
    _holds(list(model.label_names_) == names, "`label_names_` are not the names in the lists")
    np.testing.assert_allclose(model.disambiguate(data.X, lists), model.disambiguate(data.X, Y))


def check_sparse_features(cls: Factory, **params: Any) -> None:
    """CSR features give the same scores as dense ones, or are refused if declared dense-only."""
    data = _data()
    X = np.where(np.abs(data.X) > 0.5, data.X, 0)
    dense = _fit(cls(**params), X, data.candidates)
    if not get_tags(dense).input_tags.sparse:
        model = cls(**params)
        _refuses(
            "fit on sparse features", lambda: model.fit(sp.csr_array(X), data.candidates), "sparse"
        )
        _refuses("predict on sparse features", lambda: dense.predict(sp.csr_array(X)), "sparse")
        return
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
    _holds(narrow.dtype == np.float32, f"the scores have type {narrow.dtype}")
    correlation = np.corrcoef(wide.ravel(), narrow.ravel())[0, 1]
    _holds(correlation > 0.98, f"the correlation with the float64 scores is only {correlation:.3f}")


def check_input_untouched(cls: Factory, **params: Any) -> None:
    """Fit and predict leave X and the candidates as they were."""
    data = _data()
    X = data.X.copy()
    Y = data.candidates.copy()
    X.flags.writeable = Y.flags.writeable = False
    model = _fit(cls(**params), X, Y)
    model.predict(X)
    np.testing.assert_array_equal(X, data.X)
    np.testing.assert_array_equal(Y, data.candidates)


def check_pickle(cls: Factory, **params: Any) -> None:
    """A pickled model predicts the same."""
    data = _data()
    model = _fit(cls(**params), data.X, data.candidates)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.predict(data.X), model.predict(data.X))


def check_thresholds(cls: Factory, **params: Any) -> None:
    """`predict` follows a number, one number per label, top-k and the estimated cardinality."""
    data = _data()
    model = _fit(cls(**params), data.X, data.candidates)
    scores = model.decision_function(data.X)
    l = data.candidates.shape[1]
    middle = float(np.median(scores))
    np.testing.assert_array_equal(model.predict(data.X, threshold=middle), scores > middle)
    medians = np.median(scores, axis=0)
    np.testing.assert_array_equal(model.predict(data.X, threshold=medians), scores > medians)
    counts = model.predict(data.X, threshold="top-2").sum(axis=1)
    _holds((counts == 2).all(), '`threshold="top-2"` does not predict two labels per row')
    matched = model.predict(data.X, threshold="cardinality").sum() / len(scores)
    _holds(0 < matched <= l, f'`threshold="cardinality"` predicts {matched:g} labels per row')
    predict = partial(model.predict, data.X, threshold="many")
    _refuses("an unknown threshold", predict, "threshold", "many")
    long = partial(model.predict, data.X, threshold=[0.5] * (l + 1))
    _refuses("a threshold too many", long, "threshold")


def check_odd_data(cls: Factory, **params: Any) -> None:
    """Degenerate data give finite, well-formed results."""
    data = _data(n=60)
    X = data.X
    Y = data.candidates
    constant_labels = np.column_stack([np.zeros_like(Y[:, 0]), np.ones_like(Y[:, 0]), Y])
    empty_rows = Y.copy()
    empty_rows[:5] = 0
    wide = _data(n=12, d=20, l=30, r=3)
    cases = {
        "labels never and always listed": (X, constant_labels),
        "rows without candidates": (X, empty_rows),
        "duplicate labels": (X, np.column_stack([Y, Y])),
        "one label": (X, Y[:, :1]),
        "fewer rows than labels": (wide.X, wide.candidates),
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
            raise AssertionError(f"It fails on {name}: {error}") from error


def check_bad_input(cls: Factory, **params: Any) -> None:
    """Bad input raises a one-sentence error that names the row and column."""
    data = _data()
    X = data.X
    Y = data.candidates
    model = _fit(cls(**params), X, Y)

    def fit(X: Any, Y: Any) -> Callable[[], Any]:
        return lambda: cls(**params).fit(X, Y)

    for bad, word in ((np.nan, "NaN"), (np.inf, "inf")):
        broken = X.copy()
        broken[3, 2] = bad
        words = (word, "row 3", "column 2")
        _refuses(f"fit on {word}", fit(broken, Y), *words)
        _refuses(f"predict on {word}", partial(model.predict, broken), *words)
    three = Y.astype(int)
    empty = Y.copy()
    three[4, 1] = 3
    empty[7] = 0
    _refuses("a candidate of 3", fit(X, three), "row 4", "label 1", "3")
    _refuses("a row of X too few", fit(X[:-1], Y), "89 rows", "90")
    _refuses("no candidates at all", fit(X, np.zeros_like(Y)), "no row carries a candidate")
    _refuses("a missing y", fit(X, None), "y")
    _refuses("a feature too few", lambda: model.predict(X[:, :-1]), "7 features", "8 features")
    _refuses("a label too few", lambda: model.disambiguate(X, Y[:, :-1]), "4 label", "5")
    unknown = [["nowhere"]] * len(X)
    _refuses("an unknown label", lambda: model.disambiguate(X, unknown), "nowhere", "row 0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        cls(**params).fit(X, empty)
    _holds(any("row 7" in str(w.message) for w in caught), "an empty candidate row does not warn")
