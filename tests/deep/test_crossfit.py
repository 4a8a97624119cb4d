"""Which rows each network is trained on, and which it judges."""

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep._crossfit import split_rows
from schirn.exceptions import InputError


def test_no_network_judges_a_row_that_it_learned():
    splits = split_rows(23, 4, np.random.default_rng(0))
    assert len(splits) == 5
    for train, held in splits[:-1]:
        assert not set(train) & set(held)
        assert len(train) + len(held) == 23
    assert sorted(np.concatenate([held for _, held in splits])) == list(range(23))
    assert len(splits[-1][0]) == 23


def test_one_row_cannot_be_split():
    with pytest.raises(InputError, match="at least two rows, got n_samples=1"):
        split_rows(1, 3, np.random.default_rng(0))
