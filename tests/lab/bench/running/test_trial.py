"""Classes that do not take the data of a benchmark are refused before the first run."""

import numpy as np
import pytest
import scipy.sparse as sp
from lab.bench.bench_helpers import quick, tiny

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.estimators import CandidateRidge
from schirn.exceptions import InputError


class DenseOnly(CandidateRidge):
    """A class that takes dense features only."""

    def fit(self, X, y):
        if sp.issparse(X):
            raise TypeError("dense rows, please")
        return super().fit(X, y)


class SeveralLabels(CandidateRidge):
    def fit(self, X, y):
        if y.shape[1] == 1:
            raise ValueError("at least two labels")
        return super().fit(X, y)


class FewLabels(CandidateRidge):
    def fit(self, X, y):
        if y.shape[1] > 20:
            raise ValueError("too many labels")
        return super().fit(X, y)


class Failing(CandidateRidge):
    def fit(self, X, y):
        raise RuntimeError("no luck")


def dataset(name, n_labels=5, sparse=False):
    made = make_partial_multilabel(
        n_samples=120, n_labels=max(n_labels, 3), r=1, sparse=sparse, random_state=0
    )
    labels = slice(0, n_labels)
    return Dataset(name, made.X, made.y_true[:, labels], made.candidates[:, labels])


SETS = {
    DenseOnly: ("sparse features", dataset("thin", sparse=True), "TypeError: dense rows, please"),
    SeveralLabels: ("a single label", dataset("lone", 1), "ValueError: at least two labels"),
    FewLabels: ("50 labels", dataset("wide", 60), "ValueError: too many labels"),
}


@pytest.mark.parametrize("cls", SETS)
def test_a_kind_that_a_class_does_not_take_is_named_before_the_first_run(cls, tmp_path):
    kind, data, reason = SETS[cls]
    reports = []
    message = (
        f"{cls.__name__} fails on {kind}, which {data.name} has: {reason}; 2 of its 4 runs would "
        "fail: change the class, or leave these data sets out"
    )
    with pytest.raises(InputError) as error:
        quick([tiny(), data], [CandidateRidge, cls], tmp_path, report=reports.append)
    assert str(error.value) == message
    assert reports == []
    # The folder is free again.
    results = quick([tiny()], [CandidateRidge, cls], tmp_path)
    assert {result["status"] for result in results} == {"done"}


def test_kernel_features_are_dense(tmp_path):
    data = dataset("thin", sparse=True)
    results = quick([data], [DenseOnly], tmp_path, features="kernel")
    assert {result["status"] for result in results} == {"done"}


def test_a_class_that_fails_anyway_is_left_to_its_runs(tmp_path):
    results = quick([dataset("thin", sparse=True)], [Failing], tmp_path)
    assert {result["reason"] for result in results} == {"RuntimeError: no luck"}


def test_classes_of_this_library_are_not_tried(tmp_path, monkeypatch):
    monkeypatch.setattr("schirn.lab.bench.running._trial._fault", None)
    results = quick([dataset("thin", sparse=True)], ["CandidateRidge"], tmp_path)
    assert {result["status"] for result in results} == {"done"}


def test_data_of_a_trial_are_well_behaved():
    from schirn.lab.bench.running import _trial as trial

    for kind in (trial._PLAIN, trial.Kind(True, 1), trial.Kind(False, 1), trial.Kind(True, 50)):
        data = trial._small(kind)
        assert data.n_labels == kind.n_labels
        assert sp.issparse(data.X) == kind.is_sparse
        assert np.asarray(data.y_true).any(axis=0).all()
