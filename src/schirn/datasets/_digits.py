"""scikit-learn's digit images, labelled with attributes of the digit."""

from __future__ import annotations

from typing import Any

import numpy as np

from schirn.datasets._dataset import Dataset
from schirn.datasets.noise import add_noise

# Digits with each attribute, by their handwritten form: the 4 is open at the top, without a loop.
ATTRIBUTES: dict[str, tuple[int, ...]] = {
    "even": (0, 2, 4, 6, 8),
    "odd": (1, 3, 5, 7, 9),
    "prime": (2, 3, 5, 7),
    "square number": (0, 1, 4, 9),
    "multiple of three": (0, 3, 6, 9),
    "power of two": (1, 2, 4, 8),
    "less than five": (0, 1, 2, 3, 4),
    "has a loop": (0, 6, 8, 9),
    "only straight lines": (1, 4, 7),
    "flat stroke on top": (5, 7),
}


def load_digits_attributes(
    r: int = 2, kind: str = "exact", random_state: Any = 0, rate: float | None = None
) -> Dataset:
    """Return 1797 images of handwritten digits with ten attribute labels of the digit.

    The digits come with scikit-learn, so nothing is downloaded. You can see from the image whether
    a label is wrong.

    Parameters
    ----------
    r, kind, random_state, rate
        The noise, as in `add_noise`.

    Returns
    -------
    Dataset

    Examples
    --------
    >>> from schirn.datasets import load_digits_attributes
    >>> digits = load_digits_attributes(r=2)
    >>> [name for name, true in zip(digits.label_names, digits.y_true[3]) if true]
    ['odd', 'prime', 'multiple of three', 'less than five']
    >>> digits.images.shape
    (1797, 8, 8)
    """
    from sklearn.datasets import load_digits

    source = load_digits()
    table = np.zeros((10, len(ATTRIBUTES)), dtype=np.uint8)
    for column, digits in enumerate(ATTRIBUTES.values()):
        table[list(digits), column] = 1
    y_true = table[source.target]
    amount: dict[str, Any] = {"rate": rate} if kind == "rate" else {"r": r}
    candidates = add_noise(y_true, kind=kind, random_state=random_state, X=source.data, **amount)
    return Dataset(
        name="digits_attributes",
        X=source.data,
        y_true=y_true,
        candidates=candidates,
        label_names=list(ATTRIBUTES),
        feature_names=list(source.feature_names),
        images=source.images,
        description="Handwritten digits (scikit-learn) with attributes of the digit as labels.",
    )
