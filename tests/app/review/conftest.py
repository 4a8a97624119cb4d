"""A small project folder for the tests of the review page."""

import pytest
from app.review.review_helpers import write_project


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
def larger(tmp_path):
    """60 items of two tags each."""
    labels = [f"label {j}" for j in range(4)]
    items = [
        (f"item {i}", f"Row {i}", {labels[i % 4]: 0.5, labels[(i + 1) % 4]: 0.5}) for i in range(60)
    ]
    return write_project(tmp_path / "larger", items, labels)
