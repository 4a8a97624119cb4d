"""The study of random splits against plain fits of the ridge."""

import numpy as np
import pytest

from schirn import CandidateRidge
from schirn.datasets import make_partial_multilabel
from schirn.lab.reproduction._splits import split_choice
from schirn.metrics import average_precision


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=80, n_features=6, n_labels=5, r=1, random_state=2)


def setting(data, name="mine", level=1):
    return name, level, data.X, data.y_true, data.candidates


def test_equals_one_fit_for_every_split(data):
    (record,) = split_choice([setting(data)], n_splits=9, random_state=4).records
    lam = CandidateRidge().fit(data.X, data.candidates).lam_
    rng = np.random.RandomState(4)
    values = []
    for _ in range(9):
        order = rng.permutation(80)
        test, train = order[:16], order[16:]
        model = CandidateRidge(lam=lam).fit(data.X[train], data.candidates[train])
        scores = model.decision_function(data.X[test])
        values.append(100 * average_precision(data.y_true[test], scores))
    assert record["mean"] == pytest.approx(np.mean(values))
    assert record["std"] == pytest.approx(np.std(values, ddof=1))
    best = np.sort(values)[-5:]
    assert record["best_mean"] == pytest.approx(np.mean(best))
    assert record["best_std"] == pytest.approx(np.std(best, ddof=1))
    assert record["published_mean"] is None


def test_noise_levels_of_a_set_share_its_splits(data):
    """Each setting has the result that it has alone."""
    other = make_partial_multilabel(n_samples=80, n_features=6, n_labels=5, r=2, random_state=2)
    settings = [setting(data), ("mine", 2, data.X, data.y_true, other.candidates)]
    together = split_choice(settings, n_splits=6).records
    alone = [split_choice([one], n_splits=6).records[0] for one in settings]
    for one, same in zip(together, alone, strict=True):
        assert one["mean"] == pytest.approx(same["mean"], rel=1e-3)


def test_printed_figures_stand_beside(data):
    study = split_choice([setting(data, "birds", 3)], n_splits=5)
    (line,) = study.table.body
    assert line[4].text == "61.8 ± 0.6"
    assert "does not show that splits were selected" in study.table.notes[-1]
    record = study.records[0]
    assert line[5].value == pytest.approx(61.8 - record["mean"])
    # With as many splits as the best ones, both are the same.
    assert record["best_mean"] == pytest.approx(record["mean"])


def test_splits_without_a_true_label_are_left_out(data):
    truth = np.zeros_like(data.y_true)
    truth[:40] = data.y_true[:40]
    truth[3:40] = 0
    name, level, X, _, candidates = setting(data)
    (record,) = split_choice([(name, level, X, truth, candidates)], n_splits=20).records
    assert 1 <= record["splits"] < 20
