"""Every method keeps the contract."""

import numpy as np
import pytest

import schirn
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
