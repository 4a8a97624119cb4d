"""Parameters that are checked, and the sentence for one that is wrong."""

import pickle
from fractions import Fraction

import numpy as np
import pytest

import schirn
from schirn import lab
from schirn.exceptions import DataError, InputError

X = np.arange(12.0).reshape(6, 2) % 5
CANDIDATES = np.array([[1, 0, 1], [1, 1, 0], [0, 1, 1]] * 2)
GIVEN = {"alpha": 0.5, "beta": 0.1, "lam": 1.0, "max_iter": 1}


def fit(cls=schirn.Schirn, **params):
    given = GIVEN if cls is schirn.Schirn else {}
    return cls(**{**given, **params}).fit(X, CANDIDATES)


def refusal(cls=schirn.Schirn, **params):
    """The message of the error, which also names its parameter."""
    with pytest.raises(InputError) as error:
        fit(cls, **params)
    assert error.value.parameter in params
    return str(error.value)


@pytest.mark.parametrize("value", [0, 0.5, np.float32(1), np.int64(3), 1e300, Fraction(1, 3)])
def test_numbers_that_pass(value):
    assert fit(tol=value).n_iter_ == 1


@pytest.mark.parametrize(
    "value", [-1e-9, float("nan"), float("inf"), -float("inf"), "1", None, [1], True, 1j]
)
def test_numbers_that_do_not(value):
    assert refusal(tol=value) == f"tol must be a number of at least 0, got {value!r}"


@pytest.mark.parametrize("name", ["tol", "max_iter"])
@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_integers_beyond_all_floats_are_refused(name, value):
    assert refusal(**{name: value}).startswith(f"{name} must be a")


@pytest.mark.parametrize("value", [np.bool_(True), np.array(1.0), np.array([1.0, 2.0])])
def test_numpy_booleans_and_arrays_are_no_numbers(value):
    assert refusal(tol=value).startswith("tol must be a number")


@pytest.mark.parametrize(
    ("cls", "name", "good", "bad", "message"),
    [
        (schirn.Schirn, "mu", 1e-9, 0, "must be a number of more than 0, got 0"),
        (schirn.Schirn, "rho", 1, 0.5, "must be a number of at least 1, got 0.5"),
        (schirn.Schirn, "max_iter", np.int32(2), 0, "must be an integer of at least 1, got 0"),
        (schirn.Schirn, "max_iter", 1, 2.0, "must be an integer of at least 1, got 2.0"),
        (schirn.Schirn, "alpha", None, "no", "must be a number of at least 0 or None, got 'no'"),
        (schirn.Schirn, "rank_term", "low", "Low", "must be one of 'high', 'low', 'none', got"),
        (schirn.Schirn, "sparsity", False, 0, "must be one of True, False, got 0"),
        (schirn.Schirn, "sparsity", np.bool_(False), "False", "must be one of True, False, got 'F"),
        (schirn.Sieve, "estimate_noise", False, 2, "must be one of True, False, got 2"),
        (lab.PAKS, "rho", 1.0, -1, "must be a number of at least 1, got -1"),
        (lab.ParticleMAP, "alpha", 1, 1.5, "must be a number of at least 0 and at most 1, got 1.5"),
        (lab.ParticleMAP, "thr", 1, 0, "must be a number of more than 0 and at most 1, got 0"),
    ],
)
def test_constraints(cls, name, good, bad, message):
    fit(cls, **{name: good})
    assert refusal(cls, **{name: bad}).startswith(f"{name} {message}")


def test_a_choice_takes_values_that_cannot_be_compared():
    assert "got array" in refusal(rank_term=np.array(["high", "low"]))


def test_an_error_keeps_its_parameter_in_another_process():
    error = pickle.loads(pickle.dumps(DataError("lam is wrong", parameter="lam")))
    assert (str(error), error.parameter) == ("lam is wrong", "lam")
    assert InputError("wrong").parameter is None
