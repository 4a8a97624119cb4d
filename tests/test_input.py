import pickle
from fractions import Fraction

import numpy as np
import pytest

from schirn._input import Number, OneOf, check_params
from schirn._optional import optional
from schirn.exceptions import DataError, InputError, MissingExtraError


@pytest.mark.parametrize("value", [0, 0.5, np.float32(1), np.int64(3), 1e300, Fraction(1, 3)])
def test_numbers_that_pass(value):
    Number().check("alpha", value)


@pytest.mark.parametrize(
    "value", [-1e-9, float("nan"), float("inf"), -float("inf"), "1", None, [1], True, 1j]
)
def test_numbers_that_do_not(value):
    with pytest.raises(InputError) as error:
        Number().check("alpha", value)
    assert str(error.value) == f"alpha must be a number of at least 0, got {value!r}"


@pytest.mark.parametrize("integer", [True, False])
@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_integers_beyond_all_floats_are_refused(value, integer):
    with pytest.raises(InputError, match="alpha must be a"):
        Number(integer=integer).check("alpha", value)


@pytest.mark.parametrize("value", [np.bool_(True), np.array(1.0), np.array([1.0, 2.0])])
def test_numpy_booleans_and_arrays_are_no_numbers(value):
    with pytest.raises(InputError, match="alpha must be a number"):
        Number().check("alpha", value)


@pytest.mark.parametrize(
    ("constraint", "good", "bad", "message"),
    [
        (Number(open_low=True), 1e-9, 0, "x must be a number of more than 0, got 0"),
        (Number(high=1), 1, 1.5, "x must be a number of at least 0 and at most 1, got 1.5"),
        (Number(low=1, integer=True), 1, 0, "x must be an integer of at least 1, got 0"),
        (Number(integer=True), np.int32(2), 2.0, "x must be an integer of at least 0, got 2.0"),
        (Number(none=True), None, "no", "x must be a number of at least 0 or None, got 'no'"),
        (Number(low=-2), -2, -2.5, "x must be a number of at least -2, got -2.5"),
        (OneOf(("high", "low")), "low", "Low", "x must be one of 'high', 'low', got 'Low'"),
        (OneOf(("high", None)), None, 0, "x must be one of 'high', None, got 0"),
        (OneOf((True, False)), False, 0, "x must be one of True, False, got 0"),
        (OneOf((True, False)), np.bool_(False), "False", "x must be one of True, False, got 'Fal"),
    ],
)
def test_constraints(constraint, good, bad, message):
    constraint.check("x", good)
    with pytest.raises(InputError) as error:
        constraint.check("x", bad)
    assert str(error.value).startswith(message)
    assert error.value.parameter == "x"


def test_one_of_takes_values_that_cannot_be_compared():
    with pytest.raises(InputError, match="x must be one of 'a', got array"):
        OneOf(("a",)).check("x", np.array(["a", "b"]))


def test_all_parameters_are_checked_and_others_ignored():
    constraints = {"alpha": Number(), "rule": OneOf(("a", "b"))}
    check_params({"alpha": 1, "rule": "a", "other": object()}, constraints)
    with pytest.raises(InputError, match="rule must be"):
        check_params({"alpha": 1, "rule": "c"}, constraints)


def test_an_error_keeps_its_parameter_in_another_process():
    error = pickle.loads(pickle.dumps(DataError("lam is wrong", parameter="lam")))
    assert (str(error), error.parameter) == ("lam is wrong", "lam")
    assert InputError("wrong").parameter is None


def test_an_optional_package_that_is_there():
    assert optional("json.decoder", "table", "reading").__name__ == "json.decoder"


def test_an_optional_package_that_is_not():
    with pytest.raises(MissingExtraError) as error:
        optional("no_such_package.part", "table", "reading tables")
    assert str(error.value) == (
        "reading tables needs the package 'no_such_package'; "
        'install it with: pip install "schirn[table]"'
    )
    assert isinstance(error.value.__cause__, ImportError)
