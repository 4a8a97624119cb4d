"""Which tags to ask about first."""

import numpy as np

from schirn.cleaning.found import CLOSE

Array = np.ndarray

# Each closer tag of the same label puts a tag back by this much confidence.
_VARIETY = 0.01


def review_order(confidence: Array, column: Array, threshold: float) -> Array:
    """Numbers of the tags, most informative first.

    A tag near the threshold tells most. Where one label holds many such tags, those of other labels
    come in between: the k-th nearest tag of a label is ranked as if it were k hundredths further.

    Parameters
    ----------
    confidence : (m,) that each tag is true
    column : (m,) label of each tag
    threshold : tags at or above it are kept

    Examples
    --------
    >>> import numpy as np
    >>> from schirn.review import review_order
    >>> review_order(np.array([0.9, 0.51, 0.511, 0.515]), np.array([0, 0, 0, 1]), 0.5)
    array([1, 3, 2, 0])
    """
    distance = np.abs(confidence - threshold)
    by_label = np.lexsort((distance, column))
    _, first, size = np.unique(column[by_label], return_index=True, return_counts=True)
    rank = np.empty(len(column))
    rank[by_label] = np.arange(len(column)) - np.repeat(first, size)
    return np.lexsort((distance, distance + _VARIETY * rank))


def doubtful(confidence: Array, threshold: float) -> Array:
    """Whether each confidence is near the threshold."""
    return np.abs(confidence - threshold) < CLOSE
