import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import Dataset, add_noise, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.lab.data import data_card, make_cooccurrence, prepare_yeast


def random_labels(n=200, n_labels=20, seed=0):
    return (np.random.RandomState(seed).random_sample((n, n_labels)) < 0.15).astype(np.uint8)


def test_prepare_yeast_keeps_rows_with_two_labels():
    y = random_labels(50)
    candidates = add_noise(y, 1, random_state=0)
    prepared = prepare_yeast(Dataset("toy", np.arange(50.0)[:, None], y, candidates), 3)
    keep = y.sum(axis=1) >= 2
    assert prepared.X.ravel().tolist() == np.flatnonzero(keep).tolist()
    assert prepared.n_dropped == (~keep).sum() > 0
    expected = add_noise(y[keep], 3, kind="legacy", seed=3) | candidates[keep]
    assert (prepared.candidates == expected).all()
    thin = Dataset("toy", np.ones((50, 1)), sparse.csr_array(y), sparse.csr_array(candidates))
    assert (prepare_yeast(thin, 3).candidates.toarray() == expected).all()
    with pytest.raises(InputError, match="needs true labels and candidates"):
        prepare_yeast(Dataset("toy", np.ones((50, 1)), y), 3)


def test_cooccurrence_ties_disjoint_pairs_to_their_union():
    y = random_labels()
    tied = make_cooccurrence(y, 0.25, random_state=0)
    changed = np.flatnonzero((tied != y).any(axis=0))
    assert (tied >= y).all()
    partners = [
        [k for k in range(20) if k != j and (tied[:, k] == tied[:, j]).all()] for j in changed
    ]
    assert len(changed) == 10
    for j, partner in zip(changed, partners, strict=True):
        assert len(partner) == 1
        assert (tied[:, j] == (y[:, j] | y[:, partner[0]])).all()
    assert np.linalg.matrix_rank(tied) == 15


def test_cooccurrence_reaches_a_rank():
    y = random_labels()
    tied = make_cooccurrence(sparse.csr_array(y), target_rank=13, random_state=0)
    assert isinstance(tied, sparse.csr_array)
    assert np.linalg.matrix_rank(tied.toarray()) == 13
    same = make_cooccurrence(y, target_rank=20, random_state=0)
    assert (same == y).all()
    with pytest.raises(InputError, match="from 20 to 10, not to 5"):
        make_cooccurrence(y, target_rank=5, random_state=0)
    with pytest.raises(InputError, match=r"between 0 and 0\.5"):
        make_cooccurrence(y, 0.8)


def test_a_pair_that_would_go_below_the_rank_is_left_alone():
    """The union of the first two columns is the third: two ranks less at once."""
    y = np.array([[1, 0, 1, 0], [1, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 1]], dtype=np.uint8)
    for seed in range(20):
        tied = make_cooccurrence(y, target_rank=3, random_state=seed)
        assert np.linalg.matrix_rank(tied) == 3
        assert (tied[:, 0] != tied[:, 1]).any()


def test_cooccurrence_with_an_odd_number_of_labels():
    assert make_cooccurrence(random_labels(50, 7), 0.5, random_state=0).shape == (50, 7)


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
