"""Sieve with known labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.metrics import average_precision
from schirn.persist import load, save


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(
        n_samples=200, n_features=12, n_labels=8, cardinality=2.0, r=3, random_state=0
    )


@pytest.fixture(scope="module")
def plain(data):
    return Sieve().fit(data.X, data.candidates)


@pytest.fixture(scope="module")
def known(data, plain):
    """The truth about the hundred most doubtful candidates."""
    C, truth = data.candidates == 1, data.y_true == 1
    doubt = np.where(C, np.abs(plain.label_confidence_ - 0.5), np.inf)
    decided = (doubt <= np.sort(doubt, axis=None)[100]) & C
    return np.where(decided, np.where(truth, 1, -1), 0)


@pytest.fixture(scope="module")
def informed(data, known):
    return Sieve().fit(data.X, data.candidates, known=known)


def test_known_labels_are_fixed(known, informed):
    confidence = informed.label_confidence_
    assert (confidence[known == 1] == 1).all()
    assert (confidence[known == -1] == 0).all()
    assert informed.noise_[known == -1].all()
    assert not informed.noise_[known == 1].any()
    assert (known == -1).sum() > 20
    assert (known == 1).sum() > 20


def test_the_other_cells_learn_from_them(data, plain, known, informed):
    rest = (data.candidates == 1) & (known == 0)

    def loss(model):
        confidence = model.label_confidence_
        right = np.where(data.y_true == 1, confidence, 1 - confidence)[rest]
        return -np.log(np.clip(right, 1e-6, 1)).mean()

    assert loss(informed) < 0.9 * loss(plain)


def test_new_rows_learn_from_them(plain, informed, data):
    assert not np.allclose(plain.decision_function(data.X), informed.decision_function(data.X))


def test_nothing_known_changes_nothing(data, plain):
    same = Sieve().fit(data.X, data.candidates, known=np.zeros(data.candidates.shape))
    np.testing.assert_array_equal(same.label_confidence_, plain.label_confidence_)


def test_every_container(data, known, informed):
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    names = [f"label {j}" for j in range(8)]
    table = pandas.DataFrame(known, columns=names).iloc[:, ::-1]
    for given in (sp.csr_array(known), known.tolist(), known.astype(float), table):
        model = Sieve().fit(data.X, data.candidates, label_names=names, known=given)
        np.testing.assert_array_equal(model.label_confidence_, informed.label_confidence_)


def test_a_table_may_hold_some_labels_only(data):
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    wrong = -(data.candidates[:, 3] & ~data.y_true[:, 3].astype(bool)).astype(int)
    model = Sieve().fit(data.X, data.candidates, known=pandas.DataFrame({"3": wrong}))
    assert (model.label_confidence_[wrong == -1, 3] == 0).all()
    assert model.label_confidence_[wrong == -1].any()


def test_one_label():
    X = np.random.RandomState(0).normal(size=(60, 3))
    y = (X[:, 0] > 0).astype(int)
    known = np.zeros(60)
    known[np.flatnonzero(y)[:3]] = -1
    confidence = Sieve().fit(X, y, known=known).label_confidence_
    assert (confidence[known == -1] == 0).all()


def test_a_trusting_model_leaves_out_what_is_wrong(data, known):
    model = Sieve(estimate_noise=False).fit(data.X, data.candidates, known=known)
    fewer = np.where(known < 0, 0, data.candidates)
    same = Sieve(estimate_noise=False).fit(data.X, fewer)
    np.testing.assert_allclose(model.decision_function(data.X), same.decision_function(data.X))
    np.testing.assert_array_equal(model.noise_, known < 0)


def test_clones_and_files(data, informed, tmp_path):
    assert "known" not in informed.get_params()
    assert not any("known" in name for name in vars(informed))
    assert clone(informed).get_params() == informed.get_params()
    save(informed, tmp_path / "model.schirn")
    again = load(tmp_path / "model.schirn")
    np.testing.assert_array_equal(again.label_confidence_, informed.label_confidence_)
    np.testing.assert_array_equal(again.predict(data.X), informed.predict(data.X))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda k: k[:, :3], r"known must hold one value per row and label, \(200, 8\)"),
        (lambda k: k + 2, "row 0, label '0' holds 2"),
        (lambda k: np.full(k.shape, np.nan), "row 0, label '0' holds nan"),
        (lambda k: [["yes"]] * 200, "entries that are not numbers"),
        (lambda k: [[1, 0], [1]], "rows of unequal length"),
    ],
)
def test_bad_known_labels_raise(data, known, change, message):
    with pytest.raises(InputError, match=message):
        Sieve().fit(data.X, data.candidates, known=change(known))


def test_a_true_label_must_be_listed(data):
    known = np.zeros(data.candidates.shape)
    i, j = np.argwhere(data.candidates == 0)[0]
    known[i, j] = 1
    with pytest.raises(InputError, match=f"row {i}, label '{j}' is known to be true but is not"):
        Sieve().fit(data.X, data.candidates, known=known)
    known[i, j] = -1
    Sieve().fit(data.X, data.candidates, known=known)


def test_columns_that_are_no_labels(data):
    pandas = pytest.importorskip("pandas", reason="tables need pandas")
    table = pandas.DataFrame(np.zeros((200, 2)), columns=["3", "dog"])
    with pytest.raises(InputError, match="a column 'dog', which is not among"):
        Sieve().fit(data.X, data.candidates, known=table)
    table.columns = ["3", "3"]
    with pytest.raises(InputError, match="two columns named '3'"):
        Sieve().fit(data.X, data.candidates, known=table)


@pytest.fixture(scope="module")
def rates_per_label():
    """False labels are listed at rates from .1 to .6, and fifty random candidates are answered."""
    data = make_partial_multilabel(
        n_samples=700, n_features=10, n_labels=6, cardinality=1.5, r=0, random_state=3
    )
    rng = np.random.default_rng(0)
    rates = np.linspace(0.1, 0.6, 6)
    truth = data.y_true
    Y = np.maximum(truth, rng.random(truth.shape) < rates).astype(int)
    known = np.zeros(Y.shape)
    row, label = np.nonzero(Y[:350])
    asked = rng.permutation(len(row))[:50]
    known[row[asked], label[asked]] = 2 * truth[row[asked], label[asked]] - 1.0
    return data.X, Y, truth, known, rates


def test_answers_teach_rates_of_labels(rates_per_label):
    X, Y, _, known, rates = rates_per_label
    plain = Sieve().fit(X[:350], Y[:350])
    taught = Sieve().fit(X[:350], Y[:350], known=known[:350])
    labels = np.arange(6)
    before, after = (
        abs(model.noise_model_.label_rates(labels) - rates).mean() for model in (plain, taught)
    )
    assert after < 0.8 * before


def test_taught_rates_reach_the_correction_of_a_plain_ridge(rates_per_label):
    """P(true | x) = 1 - a_j (1 - ridge_j(x)) with a_j = 1/(1 - rate_j), by the true rates."""
    X, Y, truth, known, rates = rates_per_label
    taught = Sieve().fit(X[:350], Y[:350], known=known[:350])
    ridge = Sieve(estimate_noise=False).fit(X[:350], Y[:350])
    listed = ridge.expansion_.scores(ridge.scale_.transform(X[350:]))[0]
    corrected = 1 - (1 - listed) / (1 - rates)
    found, reference, plain = (
        average_precision(truth[350:], scores)
        for scores in (taught.decision_function(X[350:]), corrected, listed)
    )
    assert reference > plain + 0.01
    assert found > reference - 0.01


def test_corrected_rows_do_not_teach_that_there_is_no_noise(data):
    """The wrong candidates of the first rows are gone, and all others of them known to be true."""
    checked = np.arange(200) < 80
    corrected = np.where(checked[:, None], data.y_true, data.candidates)
    known = np.where(checked[:, None], corrected, 0)
    plain = Sieve().fit(data.X, corrected)
    informed = Sieve().fit(data.X, corrected, known=known)
    assert informed.noise_model_.rate > 0.9 * plain.noise_model_.rate
