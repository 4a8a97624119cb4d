"""Every method keeps the contract."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import schirn
from schirn import CandidateRidge, Schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import CentredFeaturesWarning, InputError
from schirn.lab import NLR, PMLLRS
from schirn.testing import check_method, contract_checks

CHECKS = dict(contract_checks())


@pytest.mark.parametrize("cls", list(schirn.methods().values()), ids=schirn.methods())
@pytest.mark.parametrize("name", CHECKS)
def test_contract(cls, name):
    CHECKS[name](cls)


class ForgetsTheMask(schirn.CandidateRidge):
    def _finish(self, fit, Y):
        super()._finish(fit, Y)
        self.noise_ = np.ones_like(self.noise_)


class HasNoNoise(schirn.CandidateRidge):
    def _finish(self, fit, Y):
        super()._finish(fit, Y)
        del self.noise_


class RewritesItsParameters(schirn.CandidateRidge):
    def _fit(self, X, Y):
        self.lam = 3.0
        return super()._fit(X, Y)


class RanksBackwards(schirn.CandidateRidge):
    def _scores(self, X):
        return -super()._scores(X)


class Exits(schirn.CandidateRidge):
    def _fit(self, X, Y):
        raise SystemExit(3)


class DeniesSparseRows(schirn.CandidateRidge):
    def _validate_rows(self, X, reset=False):
        if sp.issparse(X):
            raise TypeError("no")
        return super()._validate_rows(X, reset)


class TakesPositions(schirn.CandidateRidge):
    def __init__(self, lam=1.0, fit_intercept=False, threshold="cardinality"):
        super().__init__(lam=lam, fit_intercept=fit_intercept, threshold=threshold)


class DenseOnly(schirn.CandidateRidge):
    _takes_sparse = False


class SaysDenseOnlyAndTakesAll(schirn.CandidateRidge):
    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags


class LearnsRandomLabels(schirn.CandidateRidge):
    def fit(self, X, y):
        y = np.asarray(y)
        rng = np.random.RandomState(0)
        return super().fit(X, np.maximum(rng.rand(*y.shape) < y.mean(), y.argmax(1)[:, None] < 0))


class ScalesByTheTestRows(schirn.CandidateRidge):
    def decision_function(self, X):
        return super().decision_function(X - X.mean(axis=0) if len(X) else X)


class RemembersEarlierFits(schirn.CandidateRidge):
    rows = ()

    def _fit(self, X, Y):
        type(self).rows = (*self.rows, (X, Y))
        same = [rows for rows in self.rows if rows[1].shape[1] == Y.shape[1]]
        same = [rows for rows in same if rows[0].shape[1] == X.shape[1]]
        fit = super()._fit(sum(rows[0].sum() for rows in same) * 1e-3 + X, Y)
        return fit


class KeepsItsFirstWeights(schirn.CandidateRidge):
    """Starts where the last fit of the same object ended."""

    def _fit(self, X, Y):
        bias = getattr(self, "_bias", 0.0)
        self._bias = float(X.sum())
        return super()._fit(X + bias, Y)


class CountsItsFits(schirn.CandidateRidge):
    def _fit(self, X, Y):
        if hasattr(self, "_is_fitted"):
            self._is_refitted = True
        self._is_fitted = True
        return super()._fit(X, Y)


class ReadsTheCallStack(schirn.CandidateRidge):
    def fit(self, X, y):
        frame = inspect.currentframe()
        while frame is not None:
            for value in frame.f_locals.values():
                if isinstance(value, schirn.datasets.Dataset):
                    y = value.y_true[: len(X)]
            frame = frame.f_back
        return super().fit(X, y)


class ReadsTracebacks(schirn.CandidateRidge):
    """Reaches the caller's frames without a function that can be watched."""

    def fit(self, X, y):
        try:
            raise KeyError
        except KeyError as error:
            frame = error.__traceback__.tb_frame
        while frame is not None:
            y = frame.f_locals.get("y_true", y)[: len(X)]
            frame = frame.f_back
        return super().fit(X, y)


class ReadsGlobals(schirn.CandidateRidge):
    def fit(self, X, y):
        for module in list(sys.modules.values()):
            truth = vars(module).get("y_true")
            if isinstance(truth, np.ndarray) and truth.shape[1] == np.shape(y)[1]:
                y = truth[: len(X)]
        return super().fit(X, y)


class ReadsFiles(schirn.CandidateRidge):
    def fit(self, X, y):
        for path in Path().glob("*.npy"):
            y = np.load(path)[: len(X)]
        return super().fit(X, y)


class ReadsOneFile(schirn.CandidateRidge):
    """Knows a file that no check can know; its labels fit none of the checks' data."""

    def fit(self, X, y):
        Path(__file__).with_name("sklearn_checks.py").read_bytes()
        (Path(__file__).parents[1] / "public_api.txt").read_bytes()
        return super().fit(X, y)


BROKEN = {
    LearnsRandomLabels: ("learns", "should be more than 0.1 higher."),
    ScalesByTheTestRows: ("rows_alone", "gives a row other values alone than with all rows."),
    RemembersEarlierFits: ("hidden_state", "a class or a global has changed."),
    KeepsItsFirstWeights: ("hidden_state", "after a fit of the same object on other rows."),
    CountsItsFits: ("hidden_state", "A second fit leaves _is_refitted of the first one."),
    ReadsTheCallStack: ("call_stack", "if the true labels are on the call stack."),
    ReadsTracebacks: ("call_stack", "if the true labels are on the call stack."),
    ReadsGlobals: ("globals", "if the true labels are in global variables."),
    ReadsFiles: ("files", "if the true labels are in files."),
    ReadsOneFile: ("files", "It reads "),
    ForgetsTheMask: ("attributes", "`noise_` marks cells that are not candidates."),
    HasNoNoise: ("attributes", "AttributeError: "),
    RewritesItsParameters: ("parameters", "`fit` changes lam."),
    RanksBackwards: ("learns", "The average precision is -0."),
    Exits: ("attributes", "SystemExit: 3"),
    TakesPositions: ("parameters", "A parameter of `__init__` is not keyword-only."),
    DeniesSparseRows: ("sparse_features", "TypeError: no"),
    SaysDenseOnlyAndTakesAll: ("sparse_features", "fit on sparse features raises no error"),
}


@pytest.mark.parametrize("cls", BROKEN)
def test_a_broken_promise_is_named(cls):
    promise, found = BROKEN[cls]
    with pytest.raises(AssertionError) as caught:
        check_method(cls)
    message = str(caught.value)
    assert message.startswith(f'{cls.__name__} breaks the promise "{promise}": ')
    assert found in message


@pytest.mark.slow
def test_promises_are_also_checked_without_assert_statements():
    program = (
        "from estimators.test_contract import ForgetsTheMask\n"
        "from schirn.testing import check_method\n"
        "check_method(ForgetsTheMask)"
    )
    command = [sys.executable, "-O", "-c", program]
    tests = Path(__file__).parents[1]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tests)
    assert "AssertionError: ForgetsTheMask breaks the promise" in ran.stderr


def test_a_method_may_take_dense_features_only():
    check_method(DenseOnly)
    data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
    with pytest.raises(InputError, match="DenseOnly takes dense features only, but X is sparse"):
        DenseOnly().fit(sp.csr_array(data.X), data.candidates)


@pytest.mark.parametrize("cls", [Schirn, CandidateRidge, NLR, PMLLRS])
def test_centred_features_without_an_intercept_warn(cls):
    data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
    X = data.X - data.X.mean(axis=0)
    with pytest.warns(CentredFeaturesWarning, match=rf"use {cls.__name__}\(fit_intercept=True\)"):
        cls().fit(X, data.candidates)
    cls(fit_intercept=True).fit(X, data.candidates)
    cls().fit(data.X + 1, data.candidates)


def test_an_estimator_is_checked_with_its_parameters():
    check_method(CandidateRidge(lam=3.0))
    with pytest.raises(AssertionError, match='ForgetsTheMask breaks the promise "attributes"'):
        check_method(ForgetsTheMask(lam=3.0))
