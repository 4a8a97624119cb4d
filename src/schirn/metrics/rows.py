"""Values of the metrics for each row of a block."""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Block:
    """Truth and scores of some rows; quantities that metrics share are computed once.

    `n_true` is the number of true labels of each row; the masks `every`, `has_true` and `has_both`
    are all rows, those with a true label, and those with a true and a false one.
    """

    def __init__(self, truth: Bools, scores: npt.NDArray[Any]) -> None:
        self.truth = truth
        self.scores = scores
        self.n_labels = truth.shape[1]
        self.n_true = np.count_nonzero(truth, axis=1).astype(np.int64)
        self.every = np.ones(len(truth), dtype=bool)
        self.has_true = self.n_true > 0
        self.has_both = self.has_true & (self.n_true < self.n_labels)

    @cached_property
    def order(self) -> npt.NDArray[np.intp]:
        """Labels from the lowest score to the highest; the later of two ties ranks higher."""
        return np.argsort(self.scores, axis=1, kind="stable")

    @cached_property
    def sorted_truth(self) -> Bools:
        """Truth in ascending order of the scores."""
        return np.take_along_axis(self.truth, self.order, axis=1)

    @cached_property
    def tie_start(self) -> npt.NDArray[np.intp]:
        """Position of the lowest label tied with the one at each sorted position."""
        ordered = np.take_along_axis(self.scores, self.order, axis=1)
        start = np.zeros(ordered.shape, dtype=np.intp)
        changes = ordered[:, 1:] != ordered[:, :-1]
        start[:, 1:] = np.where(changes, np.arange(1, self.n_labels), 0)
        return np.maximum.accumulate(start, axis=1)

    @cached_property
    def tie_end(self) -> npt.NDArray[np.intp]:
        """Position of the highest label tied with the one at each sorted position."""
        starts = np.arange(self.n_labels) == self.tie_start
        last = np.full(starts.shape, self.n_labels - 1, dtype=np.intp)
        last[:, :-1] = np.where(starts[:, 1:], np.arange(self.n_labels - 1), self.n_labels - 1)
        return np.minimum.accumulate(last[:, ::-1], axis=1)[:, ::-1]

    @cached_property
    def true_above_tie(self) -> npt.NDArray[np.int64]:
        """True labels scored higher than the one at each sorted position."""
        up_to = np.cumsum(self.sorted_truth, axis=1, dtype=np.int64)
        return np.asarray(self.n_true[:, None] - np.take_along_axis(up_to, self.tie_end, axis=1))

    @cached_property
    def true_from_tie(self) -> npt.NDArray[np.int64]:
        """True labels scored at least as high as the one at each sorted position."""
        below = np.cumsum(self.sorted_truth, axis=1, dtype=np.int64) - self.sorted_truth
        at_tie = np.take_along_axis(below, self.tie_start, axis=1)
        return np.asarray(self.n_true[:, None] - at_tie)


def _mean_over_true(block: Block, values: Floats) -> Floats:
    """Return the mean of `values` (in sorted order) over the true labels; 0 if there are none."""
    return np.where(block.sorted_truth, values, 0.0).sum(axis=1) / np.maximum(block.n_true, 1)


def average_precision_by_position(block: Block) -> Floats:
    """Precision at the position of each true label, averaged; ties by label index."""
    depth = np.arange(block.n_labels, 0, -1)
    true_from_here = np.cumsum(block.sorted_truth[:, ::-1], axis=1)[:, ::-1]
    return _mean_over_true(block, true_from_here / depth)


def average_precision_random(block: Block) -> Floats:
    """Precision expected if ties are broken at random."""
    size = block.tie_end - block.tie_start + 1
    n_true = block.true_from_tie - block.true_above_tie
    position = np.arange(block.n_labels)
    # At a place of its group a label is true with probability n_true / size; of the places above
    # it in the group, a share of (n_true - 1) / (size - 1) is then true.
    above = (block.tie_end - position) * (n_true - 1) / np.maximum(size - 1, 1)
    precision = (block.true_above_tie + 1 + above) / (block.n_labels - position)
    return (n_true / size * precision).sum(axis=1) / np.maximum(block.n_true, 1)


def ranking_loss_random(block: Block) -> Floats:
    """Share of (true, false) pairs in the wrong order; a tie is half wrong."""
    at_least = block.n_labels - block.tie_start - block.true_from_tie
    above = block.n_labels - 1 - block.tie_end - block.true_above_tie
    n_false = np.maximum(block.n_labels - block.n_true, 1)
    return _mean_over_true(block, (at_least + above) / (2 * n_false[:, None]))


def coverage_random(block: Block) -> Floats:
    """Position of the lowest true label expected if ties are broken at random."""
    lowest = np.argmax(block.sorted_truth, axis=1)[:, None]
    start, end, above, at_least = (
        np.take_along_axis(values, lowest, axis=1)[:, 0]
        for values in (block.tie_start, block.tie_end, block.true_above_tie, block.true_from_tie)
    )
    n_true = at_least - above
    # The lowest of n true labels among m in random order has the mean position n (m + 1) / (n + 1).
    depth = block.n_labels - 1 - end + n_true * (end - start + 2) / (n_true + 1)
    return np.asarray((np.where(block.has_true, depth, 0) - 1) / block.n_labels)


def one_error_random(block: Block) -> Floats:
    """Share of false labels among those at the top."""
    top = _top(block)
    return np.asarray((top & ~block.truth).sum(axis=1) / top.sum(axis=1))


def is_tied(block: Block) -> Floats:
    """1 for a row in which a true and a false label have the same score."""
    n_true = block.true_from_tie - block.true_above_tie
    mixed = (n_true > 0) & (n_true < block.tie_end - block.tie_start + 1)
    return mixed.any(axis=1).astype(float)


def ranking_loss(block: Block) -> Floats:
    """Share of (true, false) pairs not ordered strictly; 0 for rows without such a pair."""
    false_from_tie = block.n_labels - block.tie_start - block.true_from_tie
    n_false = np.maximum(block.n_labels - block.n_true, 1)
    return _mean_over_true(block, false_from_tie / n_false[:, None])


def coverage(block: Block) -> Floats:
    """Position, from 0 at the top, of the lowest true label, divided by the number of labels."""
    lowest = np.argmax(block.sorted_truth, axis=1)
    depth = np.where(block.has_true, block.n_labels - lowest, 0)
    return np.asarray((depth - 1) / block.n_labels)


def _top(block: Block) -> Bools:
    """Labels tied at the highest score of their row."""
    return np.asarray(block.scores == block.scores.max(axis=1, keepdims=True))


def one_error_lenient(block: Block) -> Floats:
    """1 for a row in which no label at the top is true."""
    return (~(_top(block) & block.truth).any(axis=1)).astype(float)


def hamming(block: Block) -> Floats:
    """Share of labels predicted wrongly, from scores that are 0/1 predictions."""
    return np.mean(block.truth != block.scores, axis=1)


def top_k_precision(block: Block, k: int) -> Floats:
    """Share of true labels among the k highest positions."""
    return np.mean(block.sorted_truth[:, -k:], axis=1)
