"""Checks on the real sets; they need a folder with their npz files in SCHIRN_DATA."""

import os

import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import add_noise, available, load
from schirn.lab.data import data_card, make_cooccurrence, prepare_yeast

HERE = {entry.name for entry in available() if entry.where == "folder"}


def need(*names):
    if not os.environ.get("SCHIRN_DATA"):
        pytest.skip("SCHIRN_DATA is not set")
    missing = [name for name in names if name not in HERE]
    if missing:
        pytest.skip(f"no {missing[0]} in SCHIRN_DATA")


@pytest.mark.parametrize(("name", "r"), [("yeastmf", 3), ("yeastcc", 5), ("yeastbp", 10)])
def test_published_yeast_candidates_bit_for_bit(name, r):
    need(name, f"{name}_full")
    published, prepared = load(name), prepare_yeast(load(f"{name}_full"), r)
    assert (prepared.y_true == published.y_true).all()
    assert (prepared.candidates == published.candidates).all()
    assert abs(prepared.X - published.X).nnz == 0


def test_published_birds_candidates_bit_for_bit():
    need("birds_nlr_r3", "birds")
    birds = load("birds_nlr_r3")
    candidates = add_noise(load("birds").y_true, 3, kind="legacy", random_state=100)
    assert (candidates == birds.candidates).all()
    assert [(len(train), len(test)) for train, test in birds.folds] == [(516, 129)] * 5


# name, n, d, l, true cardinality, candidate cardinality, rank of truth, rank of candidates
TABLE = [
    ("yeastmf", 1408, 6139, 39, 3.540, 6.594, 36, 39),
    ("yeastcc", 1771, 6139, 50, 4.297, 9.324, 45, 50),
    ("yeastbp", 3794, 6139, 217, 8.837, 19.285, 200, 217),
    ("music_emotion_labels_only", 6833, 0, 11, 2.424, 5.292, 11, 11),
    ("music_style_labels_only", 6839, 0, 10, 1.440, 6.043, 10, 10),
    ("birds_nlr_r3", 645, 260, 19, 1.014, 4.014, 19, 19),
    ("scene", 2407, 294, 6, 1.074, None, 6, None),
    ("medical", 978, 1449, 45, 1.245, None, 45, None),
    ("enron", 1702, 1001, 53, 3.378, None, 53, None),
    ("chess", 1675, 585, 227, 2.411, None, 227, None),
    ("philosophy", 3971, 842, 233, 2.272, None, 233, None),
    ("corel5k", 5000, 499, 374, 3.522, None, 371, None),
    ("delicious", 16105, 500, 983, 19.020, None, 983, None),
    ("flags", 194, 19, 7, 3.392, None, 7, None),
    ("mediamill", 43907, 120, 101, 4.376, None, 100, None),
    ("yeastmf_full", 6139, 6139, 39, 1.005, 1.043, 37, 37),
    ("yeastcc_full", 6139, 6139, 50, 1.348, 1.390, 45, 45),
    ("yeastbp_full", 6139, 6139, 217, 5.537, 5.925, 200, 204),
]


@pytest.mark.parametrize("row", TABLE, ids=[row[0] for row in TABLE])
def test_data_card(row):
    name, n, d, n_labels, true, candidate, rank_true, rank_candidates = row
    need(name)
    card = data_card(load(name))
    assert (card["n_samples"], card["n_features"], card["n_labels"]) == (n, d, n_labels)
    assert round(card["cardinality_true"], 3) == true
    assert (card["rank_true"], card.get("rank_candidates")) == (rank_true, rank_candidates)
    if candidate is not None:
        assert round(card["cardinality_candidates"], 3) == candidate


@pytest.mark.parametrize(
    ("name", "percent"),
    [
        ("music_emotion_labels_only", 2.698),
        ("music_style_labels_only", 5.362),
        ("yeastmf", 0.224),
        ("yeastcc", 0.276),
        ("yeastbp", 0.025),
    ],
)
def test_published_ratio(name, percent):
    need(name)
    assert round(100 * data_card(load(name))["ratio"], 3) == percent


def test_large_set_has_sparse_labels():
    need("eurlex4k")
    data = load("eurlex4k")
    assert isinstance(data.y_true, sparse.csr_array)
    assert data.y_true.shape == (19348, 3993)
    assert data.n_train == 15539
    card = data_card(data)
    assert (card["labels_without_true"], card["rows_without_true"]) == (37, 34)
    assert card["rank_true"] == 3875
    assert card["rank_true_note"] == "proven"
    noisy = add_noise(data.y_true, 10, random_state=0)
    assert noisy.nnz == data.y_true.nnz + 10 * 19348


@pytest.mark.parametrize(("name", "rank"), [("yeastmf", 29), ("yeastcc", 37), ("yeastbp", 158)])
def test_cooccurrence_reaches_the_published_ranks(name, rank):
    need(name)
    tied = make_cooccurrence(load(name).y_true, target_rank=rank, random_state=0)
    assert np.linalg.matrix_rank(tied.astype(float)) == rank
