import json

import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import Dataset, load
from schirn.lab.data import data_card

Y = np.array([[1, 1, 0, 1], [0, 0, 0, 1], [1, 1, 0, 1]], dtype=np.uint8)
C = np.array([[1, 1, 1, 1], [0, 0, 1, 1], [1, 1, 0, 1]], dtype=np.uint8)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_facts_by_hand(container):
    X = container(np.array([[0.0, 1], [0, 0], [2, 0]]))
    card = data_card(Dataset("toy", X, container(Y), container(C)))
    assert card == {
        "name": "toy",
        "n_samples": 3,
        "n_features": 2,
        "n_labels": 4,
        "sparse": container is sparse.csr_array,
        "cardinality_true": pytest.approx(7 / 3),
        "rows_without_true": 0,
        "labels_without_true": 1,
        "rank_true": 2,
        "rank_true_note": "proven",
        "cardinality_candidates": pytest.approx(3),
        "rows_without_candidates": 0,
        "labels_without_candidates": 0,
        "rank_candidates": 3,
        "rank_candidates_note": "proven",
        "ratio": pytest.approx(2 / 12),
        "noise_rate": pytest.approx(2 / 9),
        "noisy_per_row": pytest.approx(2 / 3),
        "missed_truth": 0,
    }


def test_facts_that_need_missing_labels_are_left_out():
    truth = data_card(Dataset("toy", np.empty((3, 0)), Y))
    assert not {"noise_rate", "ratio", "cardinality_candidates"} & truth.keys()
    noisy = data_card(Dataset("toy", np.ones((3, 1)), candidates=C * [[1], [0], [1]]))
    assert "cardinality_true" not in noisy
    assert noisy["rows_without_candidates"] == 1


def test_truth_outside_the_candidates_is_counted():
    assert data_card(Dataset("toy", np.ones((3, 1)), C, Y))["missed_truth"] == 2


def test_rank_is_left_out_with_a_reason():
    ring = np.eye(9, dtype=np.uint8) | np.roll(np.eye(9, dtype=np.uint8), 1, axis=1)
    data = Dataset("toy", np.ones((9, 1)), ring, np.eye(9, dtype=np.uint8))
    assert data_card(data)["rank_true"] == 9
    card = data_card(data, max_rank_bytes=100)
    assert (card["rank_true"], card["rank_candidates"]) == (None, 9)
    assert "GB for a dense remainder of 9 x 9" in card["rank_true_note"]


def test_cards_are_ready_for_json():
    card = data_card(load("digits_attributes"))
    assert json.loads(json.dumps(card))["noisy_per_row"] == 2.0


def test_the_card_states_how_sure_the_ranks_are():
    # A dense square of less than full rank cannot be proven modulo primes.
    rng = np.random.default_rng(0)
    base = (rng.random((40, 30)) < 0.5).astype(np.uint8)
    doubtful = np.hstack([base, 1 - base])
    note = data_card(Dataset("toy", np.ones((40, 1)), doubtful))["rank_true_note"]
    assert note.startswith("modulo ")
    assert "too low with a probability below" in note
