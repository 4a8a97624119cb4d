"""Every method keeps the contract."""

import numpy as np
import pytest

import schirn
from schirn import NLR, PMLLRS, CandidateRidge, Schirn
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import CentredFeaturesWarning
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


class RewritesItsParameters(schirn.CandidateRidge):
    def _fit(self, X, Y):
        self.lam = 3.0
        return super()._fit(X, Y)


class RanksBackwards(schirn.CandidateRidge):
    def _scores(self, X):
        return -super()._scores(X)


@pytest.mark.parametrize("cls", [ForgetsTheMask, RewritesItsParameters, RanksBackwards])
def test_contract_checks_can_fail(cls):
    with pytest.raises(AssertionError):
        check_method(cls)


@pytest.mark.parametrize("cls", [Schirn, CandidateRidge, NLR, PMLLRS])
def test_centred_features_without_an_intercept_warn(cls):
    data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
    X = data.X - data.X.mean(axis=0)
    with pytest.warns(CentredFeaturesWarning, match=rf"use {cls.__name__}\(fit_intercept=True\)"):
        cls().fit(X, data.candidates)
    cls(fit_intercept=True).fit(X, data.candidates)
    cls().fit(data.X + 1, data.candidates)
