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
    card = data_card(Dataset("toy", X, container(Y), container(C), n_dropped=5))
    assert (card.n_samples, card.n_features, card.n_labels) == (3, 2, 4)
    assert card.feature_density == pytest.approx(2 / 6)
    assert card.true_cardinality == pytest.approx(7 / 3)
    assert card.candidate_cardinality == pytest.approx(3)
    assert card.label_density == pytest.approx(7 / 12)
    assert card.noise_rate == pytest.approx(2 / 9)
    assert card.noisy_per_row == pytest.approx(2 / 3)
    assert card.missed_truth == 0
    assert (card.empty_labels, card.full_labels) == (1, 1)
    assert (card.rank_true, card.rank_candidates) == (2, 3)
    assert card.ratio == pytest.approx(2 / 12)
    assert card.rows_dropped == 5


def test_missing_parts_are_none():
    truth = data_card(Dataset("toy", np.empty((3, 0)), Y))
    assert truth.noise_rate is None
    assert truth.ratio is None
    assert truth.feature_density is None
    assert "noise rate" not in truth.to_text()
    noisy = data_card(Dataset("toy", np.ones((3, 1)), candidates=C * [[1], [0], [1]]))
    assert noisy.true_cardinality is None
    assert noisy.rows_without_candidates == 1


def test_truth_outside_the_candidates_is_counted():
    assert data_card(Dataset("toy", np.ones((3, 1)), C, Y)).missed_truth == 2


def test_rank_is_left_out_with_a_reason():
    ring = np.eye(9, dtype=np.uint8) | np.roll(np.eye(9, dtype=np.uint8), 1, axis=1)
    data = Dataset("toy", np.ones((9, 1)), ring, np.eye(9, dtype=np.uint8))
    assert data_card(data).rank_true == 9
    card = data_card(data, max_rank_bytes=100)
    assert (card.rank_true, card.rank_candidates) == (None, 9)
    assert card.rank_note.startswith("truth: the rank needs ")
    assert "GB for a dense remainder of 9 x 9" in card.rank_note
    assert "rank note" in card.to_text()


def test_text_and_dict():
    card = data_card(load("digits_attributes"))
    assert json.loads(json.dumps(card.to_dict()))["n_labels"] == 10
    lines = card.to_text().splitlines()
    assert lines[0] == "digits_attributes"
    assert any(line.split() == ["noisy", "per", "row", "2.000"] for line in lines)


def test_the_card_says_how_sure_the_ranks_are():
    assert data_card(Dataset("toy", np.ones((3, 1)), Y, C)).rank_certainty == "proven"
    assert data_card(Dataset("toy", np.ones((3, 1)))).rank_certainty == ""
    # A dense square of less than full rank cannot be proven modulo primes.
    rng = np.random.default_rng(0)
    base = (rng.random((40, 30)) < 0.5).astype(np.uint8)
    doubtful = np.hstack([base, 1 - base])
    card = data_card(Dataset("toy", np.ones((40, 1)), doubtful))
    assert card.rank_certainty.startswith("truth: modulo ")
    assert "too low with a probability below" in card.to_text()
