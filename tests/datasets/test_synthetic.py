"""Synthetic data sets: sizes, what can be learned from them, and their noise."""

import numpy as np
import pytest

from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.lab.data import data_card


@pytest.mark.parametrize("is_sparse", [False, True])
def test_synthetic_has_the_asked_sizes(is_sparse):
    data = make_partial_multilabel(
        n_samples=300,
        n_features=30,
        n_labels=12,
        cardinality=3,
        r=4,
        sparse=is_sparse,
        random_state=0,
    )
    card = data_card(data)
    assert (card["n_samples"], card["n_features"], card["n_labels"]) == (300, 30, 12)
    assert card["sparse"] is is_sparse
    assert card["cardinality_true"] == pytest.approx(3, abs=0.01)
    assert card["rows_without_true"] == 0
    assert card["noisy_per_row"] == pytest.approx(4, abs=0.05)


def test_synthetic_can_be_learned_from_its_features():
    data = make_partial_multilabel(n_samples=600, random_state=1)
    train, test = slice(0, 400), slice(400, None)
    weights = np.linalg.lstsq(data.X[train], data.y_true[train].astype(float), rcond=None)[0]
    hits = data.y_true[test][np.arange(200), (data.X[test] @ weights).argmax(axis=1)]
    assert hits.mean() > 0.8


def test_synthetic_labels_correlate_in_groups():
    tight, loose = (
        np.corrcoef(
            make_partial_multilabel(
                n_samples=3000, label_correlation=c, random_state=0
            ).y_true.T.astype(float)
        )[0, 1:3].mean()
        for c in (0.9, 0.0)
    )
    assert tight > 0.5 > abs(loose) + 0.2


def test_synthetic_noise_does_not_change_the_truth():
    first = make_partial_multilabel(random_state=0, noise="exact", r=1)
    second = make_partial_multilabel(random_state=0, noise="rate", rate=0.2)
    assert (first.X == second.X).all()
    assert (first.y_true == second.y_true).all()


@pytest.mark.parametrize(
    "wrong", [{"cardinality": 0.5}, {"cardinality": 10}, {"n_labels": 1}, {"label_correlation": 2}]
)
def test_synthetic_refuses_impossible_sizes(wrong):
    with pytest.raises(InputError):
        make_partial_multilabel(**wrong)
