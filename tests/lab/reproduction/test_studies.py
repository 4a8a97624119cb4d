"""Studies of label matrices and single fits, and the numbers that the paper prints for them."""

import numpy as np
import pytest

from schirn.datasets import Dataset, make_partial_multilabel
from schirn.lab.rank import exact_rank
from schirn.lab.reproduction import _studies as studies
from schirn.lab.reproduction._studies import printed, show, spread


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=60, n_features=5, n_labels=4, r=1, random_state=0)


def test_label_ranks_of_a_set_whose_ranks_are_known():
    truth = np.array([[1, 1, 0], [0, 0, 1], [1, 1, 1]], dtype=np.uint8)
    candidates = np.array([[1, 1, 0], [0, 1, 1], [1, 1, 1]], dtype=np.uint8)
    study = studies.label_ranks([Dataset("yeastmf", np.eye(3), truth, candidates)])
    record = study.records[0]
    assert (record["rank_true"], record["rank_candidates"]) == (2, 3)
    assert (record["published_rank_true"], record["published_rank_candidates"]) == (36, 39)
    assert record["ratio_percent"] == pytest.approx(100 * 2 / 9)
    assert "0.22" in str(study.table)


def test_prediction_ranks(data):
    record = studies.prediction_ranks([(data, data.candidates)], lam=1.0).records[0]
    assert record["rank_true"] == exact_rank(data.y_true)
    ranks = [value for name, value in record.items() if name.startswith("rank_")]
    assert len(ranks) == 8
    assert all(0 <= rank <= 4 for rank in ranks)


def test_theorem_is_tight_on_the_identity_and_empty_for_the_noise(data):
    records = studies.theorem([("tiny", data.candidates, data.y_true)], draws=2).records
    assert all(record["holds"] for record in records)
    identity = [record for record in records if record["matrix"] == "identity"]
    assert identity
    assert all(record["lowest"] == record["bound"] == record["highest"] for record in identity)
    noise = records[-1]
    wrong = int(data.candidates.sum()) - int(data.y_true.sum())
    assert (noise["noise"], noise["removed"]) == ("all wrong labels", wrong)
    assert noise["bound"] < 0
    assert noise["lowest"] == exact_rank(data.y_true)


def test_singular_values_move_within_the_bounds(data):
    rng = np.random.default_rng(0)
    # Two groups of labels that never meet: a clear gap after the second value.
    groups = np.repeat([[1, 1, 0, 0], [0, 0, 1, 1]], 40, axis=0) * (rng.random((80, 4)) < 0.9)
    sets = [("tiny", data.candidates, data.y_true), ("groups", groups, None)]
    records = studies.singular_values(sets).records
    assert len(records) == 4
    for record in records:
        assert record["shift"] <= record["norm"] + 1e-9
        if record["wedin"] is not None:
            assert record["sine"] <= record["wedin"] + 1e-9
        if record["safe"]:
            assert record["rank_after"] == record["rank"]
    by_name = {(record["matrix"], record["noise"]): record for record in records}
    assert by_name["groups", "random"]["k"] == 2
    assert by_name["groups", "random"]["wedin"] < 1
    noise = by_name["tiny", "all wrong labels"]
    removed = data.candidates.astype(float) - data.y_true
    assert noise["norm"] == pytest.approx(np.sqrt(np.linalg.eigvalsh(removed.T @ removed)[-1]))
    assert noise["rank_after"] == exact_rank(data.y_true)


def test_a_smaller_column_costs_one_rank():
    labels = np.eye(5, dtype=np.uint8)
    records = studies.theorem([("five", labels, None)], draws=1).records
    assert [record["lowest"] for record in records if record["noise"] == "smallest column"][-1] == 4


def test_convergence_has_a_record_per_round(data):
    study = studies.convergence([("tiny", data.X, data.candidates)], max_iter=7)
    assert [record["round"] for record in study.records] == list(range(1, 8))
    assert study.records[-1]["n_noise"] <= data.candidates.sum()
    rounds, *_, removed, half = (cell.text for cell in study.table.body[0][1:])
    assert (rounds, removed) == ("7", str(study.records[-1]["n_noise"]))
    counts = [record["n_noise"] for record in study.records]
    assert all(2 * count >= counts[-1] for count in counts[int(half) - 1 :])


def test_cells_of_a_table():
    assert show(None).text == "–"
    assert (show(True).text, show(False).text) == ("yes", "no")
    assert show(0.256, 2).text == "0.26"
    assert show(3).text == "3"
    assert show("word").text == "word"
    assert spread([]) == "–"
    assert spread([0.5, 0.5]).startswith("50.0")


def test_printed_numbers():
    assert printed("ablation", "birds", 3, "Schirn", "average_precision") == (61.8, 0.6)
    assert printed("ablation", "birds", 4, "Schirn", "average_precision") is None
