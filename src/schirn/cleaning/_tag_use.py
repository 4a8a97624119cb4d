"""Use of the tags of a table: on which rows, with which other tags, and on which texts.

Two tags are compared by the rows that list them. `Centroids` holds the mean row of each tag. The
likeness of two tags is the cosine of their means around the mean of all rows, corrected for the
noise in means of few rows, so that it is 1 for two tags on one kind of row and 0 for tags on
unrelated rows, whatever their counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.labels.tags import Tags

# Maximum number of pairs of tags that are counted; rows with the most tags are left out first.
_MAX_PAIRS = 20_000_000
# Weight, in rows, of the typical spread when the spread of a tag with few rows is estimated.
_PRIOR_ROWS = 4.0
# Minimum number of rows of the tags that define the typical values.
_ROWS_OF_TYPICAL = 5


def incidence(tags: Tags) -> sp.csr_array:
    """Return the (rows, tags) matrix with 1 for each listed tag.

    Parameters
    ----------
    tags : Tags
        The listed tags.

    Returns
    -------
    csr_array of shape (n, l), float32
    """
    ones = np.ones(len(tags.row), dtype=np.float32)
    Y = sp.csr_array((ones, (tags.row, tags.column)), shape=tags.shape)
    Y.sum_duplicates()
    Y.data[:] = 1
    return Y


def countable_rows(Y: sp.csr_array) -> Array:
    """Return the rows in which pairs of tags are counted: all, or the rows with the fewest tags.

    Rows with very many tags say little about pairs and cost most; they are left out if all rows
    together have more than 20 million pairs.

    Parameters
    ----------
    Y : csr_array of shape (n, l)
        1 for each listed tag.

    Returns
    -------
    int array
        Row numbers, ascending.
    """
    sizes = np.diff(Y.indptr).astype(np.int64)
    order = np.argsort(sizes, kind="stable")
    fits = np.cumsum(sizes[order] ** 2) <= _MAX_PAIRS
    return np.sort(order[fits])


def common_rows(Y: sp.csr_array) -> sp.csr_array:
    """Return the number of rows shared by each pair of tags.

    Parameters
    ----------
    Y : csr_array of shape (n, l)
        1 for each listed tag.

    Returns
    -------
    csr_array of shape (l, l)
        Symmetric, with the counts of the tags on the diagonal.
    """
    rows = countable_rows(Y)
    part = Y[rows] if len(rows) < Y.shape[0] else Y
    return sp.csr_array(part.T @ part)


def context_rows(Y: sp.csr_array) -> sp.csr_array:
    """Return rows of unit length whose features are their own tags, weighted towards rare tags.

    Tags of a single row cannot relate it to other rows, and are left out.

    Parameters
    ----------
    Y : csr_array of shape (n, l)
        1 for each listed tag.

    Returns
    -------
    csr_array of shape (n, l)
    """
    n_rows = Y.shape[0]
    counts = np.bincount(Y.indices, minlength=Y.shape[1])
    weights = np.where(counts > 1, np.log((1 + n_rows) / (1 + counts)), 0)
    rows = Y.astype(np.float32)
    rows.data = weights[rows.indices].astype(np.float32)
    return unit_rows(rows)


def unit_rows(X: sp.csr_array) -> sp.csr_array:
    """Return the rows divided by their lengths; empty rows stay empty."""
    squares = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
    return sp.csr_array(sp.diags_array(scale.astype(np.float32)) @ X)


@dataclass(frozen=True, eq=False)
class Centroids:
    """Mean rows of all tags, and the likeness of tags by these.

    Parameters
    ----------
    rows : csr_array of shape (n, d)
        Features of the rows, of unit length or empty.
    listed : csr_array of shape (n, l)
        1 for each listed tag.
    is_context : bool
        True if feature j is tag j, as in `context_rows`. The two compared tags are then left out of
        the comparison.
    """

    rows: sp.csr_array
    listed: sp.csr_array
    is_context: bool = False

    @cached_property
    def counts(self) -> Array:
        """Number of rows of each tag."""
        return np.bincount(self.listed.indices, minlength=self.listed.shape[1])

    @cached_property
    def squares(self) -> Array:
        """Squared length of each row: 1, or 0 for an empty row."""
        return np.asarray(self.rows.multiply(self.rows).sum(axis=1)).ravel()

    @cached_property
    def means(self) -> sp.csr_array:
        """Mean row of each tag, of shape (l, d)."""
        inverse = 1 / np.maximum(self.counts, 1)
        sums = sp.csr_array(self.listed.T @ self.rows)
        means = sp.csr_array(sp.diags_array(inverse.astype(np.float32)) @ sums)
        means.sort_indices()
        return means

    @cached_property
    def center(self) -> Array:
        """Mean of all rows."""
        return np.asarray(self.rows.mean(axis=0)).ravel()

    @cached_property
    def _to_center(self) -> Array:
        """Product of each mean row with the center, without the tag itself."""
        products = np.asarray(self.means @ self.center).ravel()
        if self.is_context:
            products = products - self.means.diagonal() * self.center
        return products

    @cached_property
    def _own_products(self) -> Array:
        """Mean product of two distinct rows of a tag, without the tag itself."""
        squares = np.asarray(self.means.multiply(self.means).sum(axis=1)).ravel()
        lengths = np.asarray(self.listed.T @ self.squares).ravel()
        if self.is_context:
            squares = squares - self.means.diagonal() ** 2
            lengths = lengths - self._own_squares
        counts = self.counts.astype(float)
        pairs = np.maximum(counts * (counts - 1), 1)
        return (counts**2 * squares - lengths) / pairs

    @cached_property
    def spread(self) -> Array:
        """Mean product of two distinct rows of a tag around the center; 0 for a single row."""
        spread = self._own_products - 2 * self._to_center + self._center_square
        return np.where(self.counts > 1, spread, 0)

    @cached_property
    def direction(self) -> Array:
        """Like `spread`, for the part of each mean row that the center does not explain."""
        square = np.full(len(self.counts), self._center_square)
        if self.is_context:
            square -= self.center**2
        explained = self._to_center**2 / np.maximum(square, 1e-12)
        return np.where(self.counts > 1, self._own_products - explained, 0)

    @cached_property
    def _center_square(self) -> float:
        return float(self.center @ self.center)

    @cached_property
    def _own_squares(self) -> Array:
        """Sum over the rows of each tag of the square of its own entry."""
        entries = self.listed.multiply(self.rows.multiply(self.rows))
        return np.asarray(entries.sum(axis=0)).ravel()

    def products(self, a: Array, b: Array, shared: Array) -> Array:
        """Return the mean product of a row of tag a and a distinct row of tag b around the center.

        Parameters
        ----------
        a, b : int arrays
            Pairs of tags.
        shared : int array
            Number of rows that have both.
        """
        products = self._dots(a, b)
        counts = self.counts.astype(float)
        pairs = counts[a] * counts[b]
        # A row with both tags is no evidence that they are alike.
        lengths = np.asarray(self.listed.T @ self.squares).ravel()
        mean_length = lengths[a] / counts[a]
        distinct = np.maximum(pairs - shared, 1)
        products = (pairs * products - shared * mean_length) / distinct
        return products - self._to_center[a] - self._to_center[b] + self._center_square

    def _dots(self, a: Array, b: Array) -> Array:
        dots = np.zeros(len(a))
        step = 2_000
        for first in range(0, len(a), step):
            part = slice(first, first + step)
            product = self.means[a[part]].multiply(self.means[b[part]])
            dots[part] = np.asarray(product.sum(axis=1)).ravel()
        if self.is_context and len(a):
            diagonal = self.means.diagonal()
            for tag, partner in ((a, b), (b, a)):
                entry = np.asarray(self.means[partner, tag]).ravel()
                dots -= diagonal[tag] * entry
        return dots

    def likeness(self, a: Array, b: Array, shared: Array) -> Array:
        """Return the likeness of two tags' rows: 1 for one kind of row, 0 for unrelated rows.

        Parameters
        ----------
        a, b : int arrays
            Pairs of tags.
        shared : int array
            Number of rows that have both.

        Returns
        -------
        float array
            NaN if unknown, such as for tags without features.
        """
        scale = self._scale(a, b)
        return self.products(a, b, shared) / scale

    def error(self, a: Array, b: Array) -> Array:
        """Return the standard error of `likeness`, from the rows of both tags.

        Parameters
        ----------
        a, b : int arrays
            Pairs of tags.
        """
        counts = self.counts.astype(float)
        tags, place = np.unique(np.r_[a, b], return_inverse=True)
        variance = np.array([self._variance(tag) for tag in tags.tolist()])
        # Few rows scatter too little around their own mean.
        weight = counts[tags]
        typical = self._typical_variance
        variance = (weight * variance + _PRIOR_ROWS * typical) / (weight + _PRIOR_ROWS)
        variance = variance[place]
        variance_a = variance[: len(a)]
        variance_b = variance[len(a) :]
        total = np.maximum(variance_b, typical) / counts[a] + variance_a / counts[b]
        return np.sqrt(total) / self._scale(a, b)

    def _scale(self, a: Array, b: Array) -> Array:
        """Return the geometric mean of the spreads of both tags; NaN if one is not positive."""
        own_a = self._steady_spread[a]
        own_b = self._steady_spread[b]
        is_valid = (own_a > 0) & (own_b > 0)
        return np.where(is_valid, np.sqrt(np.where(is_valid, own_a * own_b, 1)), np.nan)

    @cached_property
    def _steady_spread(self) -> Array:
        """Spread of each tag; tags with few rows borrow the spread of a typical tag."""
        weight = np.maximum(self.counts - 1.0, 0)
        typical = self.typical_spread
        return (weight * self.spread + _PRIOR_ROWS * typical) / (weight + _PRIOR_ROWS)

    @cached_property
    def typical_direction(self) -> float:
        """Direction of a typical tag."""
        return _typical(self.direction, self.counts)

    @cached_property
    def typical_spread(self) -> float:
        """Spread of a typical tag."""
        return _typical(self.spread, self.counts)

    @cached_property
    def _typical_variance(self) -> float:
        """Variance of the products of the rows of a typical tag with its mean row."""
        frequent = np.flatnonzero(self.counts >= _ROWS_OF_TYPICAL)
        chosen = frequent[:: max(1, len(frequent) // 100)]
        return float(np.median([self._variance(tag) for tag in chosen.tolist()] or [0.0]))

    def gram(self, rows: Array, without: Sequence[int] = ()) -> Array:
        """Return the products of some rows around the center.

        Parameters
        ----------
        rows : int array
            The rows.
        without : sequence of int
            Tags to leave out of the features, if features are tags.
        """
        part = self.rows[rows]
        if self.is_context:
            weight = np.ones(part.shape[1], dtype=np.float32)
            weight[list(without)] = 0
            part = sp.csr_array(part.multiply(weight))
        products = (part @ part.T).toarray()
        to_center = np.asarray(part @ self.center).ravel()
        is_empty = products.diagonal() == 0
        products += self._center_square - to_center[:, None] - to_center[None, :]
        # An empty row carries no information, so it counts as being at the center.
        products[is_empty] = 0
        products[:, is_empty] = 0
        return products

    def rows_of(self, tag: int, limit: int = 200) -> Array:
        """Return the rows of a tag, evenly sampled if there are more than `limit`."""
        by_tag = self._by_tag
        rows = by_tag.indices[by_tag.indptr[tag] : by_tag.indptr[tag + 1]]
        if len(rows) <= limit:
            return rows
        return rows[np.linspace(0, len(rows) - 1, limit).astype(int)]

    @cached_property
    def _by_tag(self) -> sp.csr_array:
        return sp.csr_array(self.listed.T)

    def _variance(self, tag: int) -> float:
        """Return the variance of the products of the rows of a tag with its mean row."""
        mean = self.means[[tag]].toarray().ravel()
        if self.is_context:
            mean[tag] = 0
        products = self.rows[self.rows_of(tag)] @ mean
        return float(np.var(products))


@dataclass(frozen=True, eq=False)
class TagUse:
    """Use of the tags of a table, from which proposals are made.

    Parameters
    ----------
    tags : Tags
        The listed tags.
    rows : csr_array of shape (n, d), optional
        Features of unit length, such as `TextFeatures`; without them, rows are only compared by
        their other tags.
    """

    tags: Tags
    rows: sp.csr_array | None = None

    @cached_property
    def listed(self) -> sp.csr_array:
        """The (rows, tags) matrix with 1 for each listed tag."""
        return incidence(self.tags)

    @cached_property
    def counts(self) -> Array:
        """Number of rows of each tag."""
        return self.tags.counts

    @cached_property
    def common(self) -> sp.csr_array:
        """Number of rows shared by each pair of tags."""
        return common_rows(self.listed)

    @cached_property
    def contexts(self) -> Centroids:
        """Mean rows, with the other tags as features."""
        return Centroids(context_rows(self.listed), self.listed, is_context=True)

    @cached_property
    def contents(self) -> Centroids | None:
        """Mean rows of the features; None without features."""
        return None if self.rows is None else Centroids(self.rows, self.listed)

    def n_common(self, a: Array, b: Array) -> Array:
        """Return the number of rows that have both tags of each pair."""
        if not len(a):
            return np.zeros(0, dtype=np.int64)
        return np.asarray(self.common[a, b]).ravel().astype(np.int64)


def _typical(values: Array, counts: Array) -> float:
    """Return the median over the tags with enough rows, or else over tags with two rows."""
    for least in (_ROWS_OF_TYPICAL, 2):
        chosen = values[counts >= least]
        if len(chosen):
            return max(float(np.median(chosen)), 0.0)
    return 0.0
