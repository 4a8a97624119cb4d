"""Rows that must not judge each other: groups that are given, and copies."""

from collections.abc import Iterable
from itertools import count
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from schirn._input import Array, canonical, is_missing
from schirn.exceptions import InputError
from schirn.labels.tags import Tags
from schirn.scale.copies import equal_rows


def group_numbers(groups: Iterable[Any], n: int) -> Array:
    """Number the groups in their own order; a row without a group becomes one of its own."""
    values = list(groups)
    if len(values) != n:
        raise InputError(f"groups has {len(values)} values for {n} rows; give one per row")
    try:
        distinct = {value for value in values if not is_missing(value)}
        ordered = sorted(distinct, key=lambda value: (isinstance(value, str), value))
    except TypeError:
        raise InputError("groups must hold one text or number per row, not lists") from None
    number = {value: k for k, value in enumerate(ordered)}
    unused = count(len(number))
    return np.array([next(unused) if is_missing(value) else number[value] for value in values])


def with_copies(copy_group: Array, tags: Tags, groups: Array | None) -> Array | None:
    """Groups of rows that must not judge each other: copies, merged with the groups of the caller.

    Features that repeat in most rows although the tags differ are categories, not copies.

    Parameters
    ----------
    copy_group : (n,) int array
        What `schirn.scale.copies.equal_rows` makes of the features.
    tags : Tags
    groups : (n,) int array, optional
    """
    n = tags.n_rows
    distinct = int(copy_group.max(initial=-1)) + 1
    if distinct == n:
        return groups
    if 2 * distinct < n:
        ones = np.ones(len(tags.row), dtype=np.uint8)
        Y = canonical(sp.csr_array((ones, (tags.row, tags.column)), shape=tags.shape))
        Y.data[:] = 1
        if len(np.unique(np.c_[copy_group, equal_rows(Y)], axis=0)) > 1.5 * distinct:
            return groups
    if groups is None:
        return copy_group
    size = distinct + int(groups.max()) + 1
    links = sp.coo_array((np.ones(n), (copy_group, distinct + groups)), shape=(size, size))
    return np.asarray(connected_components(links, directed=False)[1][copy_group])
