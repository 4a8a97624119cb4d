"""Every method keeps the contract."""

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


BROKEN = {
    ForgetsTheMask: ("attributes", "`noise_` marks cells that are not candidates."),
    HasNoNoise: ("attributes", "AttributeError: "),
    RewritesItsParameters: ("parameters", "`fit` changes lam."),
    RanksBackwards: ("learns", "The average precision is 0."),
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
        "from methods.test_contract import ForgetsTheMask\n"
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
