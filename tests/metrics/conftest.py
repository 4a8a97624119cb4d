import numpy as np
import pytest

from schirn.exceptions import InputError


@pytest.fixture
def widen():
    """A function that adds a million labels of value 0: every row is then a block of its own."""
    return lambda table: np.pad(table, ((0, 0), (0, 2**20)))


@pytest.fixture
def sentence():
    """A function that returns the message of the InputError of a call."""

    def call(function, *args, **options):
        with pytest.raises(InputError) as caught:
            function(*args, **options)
        return str(caught.value)

    return call
