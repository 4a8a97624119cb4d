"""A small project folder for the tests of the review page."""

import numpy as np
import pytest
from review.review_helpers import write_project

from schirn.datasets import make_partial_multilabel


@pytest.fixture
def folder(tmp_path):
    """Three items, six tags; from the most to the least doubtful: b/cat, a/dog, c/dog, ..."""
    items = [
        ("a", "A dog on the beach.", {"dog": 0.52, "cat": 0.1, "beach": 0.95}),
        ("b", '<b>Two</b> cats & a "quote"', {"cat": 0.49}),
        ("c", "Nobody is here.", {"dog": 0.4, "beach": 0.2}),
    ]
    return write_project(tmp_path / "project", items, ["dog", "cat", "beach"])


@pytest.fixture
def trainable(tmp_path):
    """A project with features on which training can run."""
    data = make_partial_multilabel(
        n_samples=60, n_features=8, n_labels=4, cardinality=1.5, r=1, random_state=0
    )
    labels = [f"label {j}" for j in range(4)]
    candidates = np.asarray(data.candidates)
    items = [
        (f"item {i}", f"Row {i}", {labels[j]: 0.5 for j in np.flatnonzero(row)})
        for i, row in enumerate(candidates)
    ]
    return write_project(tmp_path / "trainable", items, labels, np.asarray(data.X))
