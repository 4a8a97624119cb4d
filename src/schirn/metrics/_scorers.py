"""The metrics as scikit-learn scorers."""

from inspect import signature
from typing import Any

from sklearn import get_config

from schirn._input import OneOf
from schirn.exceptions import InputError
from schirn.metrics._evaluate import METRICS, Metric
from schirn.metrics._multilabel import CONVENTIONS, precision_at_k

SCORABLE = {**METRICS, "precision_at_k": Metric(precision_at_k, True, "precision at k ↑")}


def _score(
    candidates: Any,
    response: Any,
    *,
    metric: str,
    against: str,
    y_clean: Any = None,
    **options: Any,
) -> float:
    """Score against the true labels, passed as metadata, or against the candidates."""
    if against == "clean" and y_clean is None:
        raise InputError(
            f"the scorer {metric!r} compares with the true labels but got none; pass y_clean, "
            "as in cross_validate(..., params={'y_clean': Y}) or search.fit(X, candidates, "
            "y_clean=Y), or use scorer(..., against='candidates')."
        )
    truth = y_clean if against == "clean" else candidates
    return SCORABLE[metric].function(truth, response, **options)


def scorer(name: str, *, against: str = "clean", **options: Any) -> Any:
    """Make a scikit-learn scorer for estimators that are fitted on candidates.

    Parameters
    ----------
    name : str
        A key of `METRICS`, or "precision_at_k".
    against : {"clean", "candidates"}
        "clean" scores against the true labels, passed as the metadata `y_clean`; this requires
        ``sklearn.set_config(enable_metadata_routing=True)`` first. "candidates" scores against
        the held-out candidates and needs no truth.
    **options
        Passed to the metric, such as ``convention="random"`` or ``k=3``.

    Returns
    -------
    scorer
        Losses are negated, as usual in scikit-learn. "hamming_loss" uses `predict`, the other
        metrics use `decision_function`.

    Notes
    -----
    `cross_validate` and `GridSearchCV` turn errors while scoring, such as a missing `y_clean`,
    into NaN with a warning; set ``error_score="raise"`` to see them.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from schirn.metrics import scorer
    >>> X, candidates = [[0], [1], [2], [3]], [[1, 0], [1, 0], [1, 0], [0, 1]]
    >>> model = DummyClassifier().fit(X, candidates)
    >>> scorer("hamming_loss", against="candidates")(model, X, candidates)
    -0.25
    """
    OneOf(tuple(SCORABLE)).check("name", name)
    OneOf(("clean", "candidates")).check("against", against)
    metric = SCORABLE[name]
    _check_options(name, options)
    if against == "clean" and not get_config()["enable_metadata_routing"]:
        raise InputError(
            f"scorer({name!r}) with against='clean' needs metadata routing; call "
            "sklearn.set_config(enable_metadata_routing=True) first, or use against='candidates'."
        )
    from sklearn.metrics import make_scorer

    function = make_scorer(
        _score,
        response_method=metric.response,
        greater_is_better=metric.greater_is_better,
        metric=name,
        against=against,
        **options,
    )
    return function.set_score_request(y_clean=True) if against == "clean" else function


def _check_options(name: str, options: dict[str, Any]) -> None:
    """Raise InputError for options that the metric would reject, before any fold is fitted."""
    allowed = set(signature(SCORABLE[name].function).parameters)
    allowed -= {"y_true", "scores"}
    for option in options:
        if option not in allowed:
            raise InputError(f"{name} has no option {option!r}; use {', '.join(sorted(allowed))}.")
    OneOf(tuple(CONVENTIONS)).check("convention", options.get("convention", "field"))


def scorers(*, against: str = "clean", convention: str = "field") -> dict[str, Any]:
    """Make scorers for all five metrics, for `scoring` in `cross_validate` and searches.

    Parameters
    ----------
    against : {"clean", "candidates"}
        As in `scorer`.
    convention : {"field", "random"}
        As in `average_precision`.

    Returns
    -------
    dict of str to scorer
        In the order of `METRICS`.

    Examples
    --------
    >>> from schirn.metrics import scorers
    >>> list(scorers(against="candidates"))
    ['average_precision', 'ranking_loss', 'coverage', 'hamming_loss', 'one_error']
    """
    return {name: scorer(name, against=against, convention=convention) for name in METRICS}
