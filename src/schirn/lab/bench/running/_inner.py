"""Scores by which a run chose its parameters, on held-out candidates."""

from typing import Any, NamedTuple

import numpy as np

from schirn.lab.bench.running._data import Prepared
from schirn.lab.bench.running._execute import _fixed_params, _fold
from schirn.lab.bench.running._methods import import_class
from schirn.lab.bench.running._plan import Run
from schirn.model_selection import CandidateSearchCV


class InnerScore(NamedTuple):
    """A point of a search, and its average precision on held-out candidates."""

    params: dict[str, Any]
    score: float


def inner_scores(run: Run, data: Prepared) -> list[InnerScore]:
    """Repeat the search of a run on candidates, and return all points with their scores.

    Parameters
    ----------
    run : Run
        A run that was not tuned on the truth of the test rows.
    data : Prepared
        Its data.

    Returns
    -------
    list of InnerScore
        Empty if the run chooses nothing, or does not show its scores.
    """
    cls = import_class(run.method.path)
    model = cls(**_fixed_params(cls, run))
    fold = _fold(run, data)
    truth = fold.truth if run.method.sees_truth else None
    if run.method.tunes_itself:
        model.fit(fold.X, fold.candidates, **({} if truth is None else {"y_clean": truth}))
        return _scores_of_fit(model, run)
    if not run.known["grid"] or run.fields["oracle"]:
        return []
    # The search of `execute`, which keeps only its best point.
    rows = np.arange(len(fold.truth))
    limit = run.known["search_rows"]
    seed = run.fields["seed"]
    if limit is not None and limit < len(rows):
        rows = np.sort(np.random.RandomState(seed).choice(rows, limit, replace=False))
    search = CandidateSearchCV(
        model,
        run.known["grid"],
        cv=run.inner_folds,
        refit=False,
        oracle=run.method.sees_truth,
        random_state=seed,
    )
    search.fit(
        fold.X[rows], fold.candidates[rows], **({} if truth is None else {"y_clean": truth[rows]})
    )
    points = zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True)
    return [InnerScore(dict(params), float(score)) for params, score in points]


def _scores_of_fit(model: Any, run: Run) -> list[InnerScore]:
    """Return the scores of the points among which `fit` chose."""
    search = getattr(model, "search_", None)
    if search is None:
        return []
    names = [name for name in run.method.grid or () if name in search]
    columns = [search[name].tolist() for name in names]
    return [
        InnerScore(dict(zip(names, point, strict=True)), float(score))
        for *point, score in zip(*columns, search["score"], strict=True)
    ]
