from unittest import mock

import pytest

from schirn.exceptions import InputError
from schirn.metrics import _input


@pytest.fixture
def one_row_blocks():
    """Let every block hold one row, so that errors must count rows across blocks."""
    with mock.patch.object(_input, "BLOCK_CELLS", 1):
        yield


@pytest.fixture
def sentence():
    """A function that returns the message of the InputError of a call."""

    def call(function, *args, **options):
        with pytest.raises(InputError) as caught:
            function(*args, **options)
        return str(caught.value)

    return call
