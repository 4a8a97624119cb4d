"""What a reproduction reads, from a folder with some of the files."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from schirn.datasets import add_noise, load, make_partial_multilabel
from schirn.lab.bench.running._methods import default_grid
from schirn.lab.reproduction._experiments import FULL, QUICK
from schirn.lab.reproduction._plan import (
    candidates_of,
    labelled,
    make_plan,
    plan_batches,
    to_tie,
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path))
    return tmp_path


def save(folder, name, *, features=True, candidates=True):
    data = make_partial_multilabel(n_samples=40, n_features=5, n_labels=4, r=1, random_state=0)
    parts = {"Y": data.y_true}
    parts |= {"X": data.X} if features else {}
    parts |= {"C": data.candidates} if candidates else {}
    np.savez(folder / f"{name}.npz", **parts)


def test_labels_are_ranked_of_every_set_whose_labels_are_here(place):
    save(place, "yeastmf")
    save(place, "yeastcc_labels_only", features=False)
    save(place, "yeastbp", features=False)
    save(place, "yeastbp_labels_only", features=False)
    save(place, "music_style_labels_only", features=False, candidates=False)
    plan = make_plan(QUICK, methods=["CandidateRidge"])
    assert list(plan.shapes) == ["yeastmf"]
    found = [data.name for data in labelled(plan)]
    assert found == ["yeastmf", "yeastcc_labels_only", "yeastbp"]


def test_data_sets_of_the_user_stand_alone(place):
    save(place, "yeastmf")
    save(place, "mine")
    plan = make_plan(QUICK, sets=["mine:own", "absent:2"], methods=["CandidateRidge"])
    assert list(plan.skipped) == ["absent:2"]
    assert [data.name for data in labelled(plan)] == ["mine"]
    assert [data.name for data in to_tie(plan)] == ["mine"]


def test_data_sets_of_the_studies(place):
    save(place, "yeastmf")
    save(place, "music_style_labels_only", features=False)
    plan = make_plan(FULL, methods=["CandidateRidge"])
    assert [data.name for data in to_tie(plan)] == ["yeastmf"]


def test_candidates_are_the_own_ones_or_drawn_as_in_the_tables(place):
    save(place, "mine")
    data = load("mine")
    assert candidates_of(data, None) is data.candidates
    drawn = candidates_of(data, 2)
    np.testing.assert_array_equal(drawn, add_noise(data.y_true, 2, kind="legacy"))
    assert (drawn >= data.y_true).all()
    assert drawn.sum() > data.y_true.sum()


def test_tables_with_kernel_features_and_with_schirn_tuned_on_the_truth(place):
    save(place, "mine")
    save(place, "large")
    part = replace(QUICK, few_folds={"kernel": 2, "large": 3}, left_out=("PAKS",))
    chosen = ["Schirn", "NLR", "FPML", "PAKS", "CandidateRidge"]
    plan = make_plan(part, sets=["mine:1", "large:1"], methods=chosen, folds=4)
    batches = {batch.folder.name: batch.runs for batch in plan_batches(plan, place, ["ablation"])}
    assert list(batches) == ["rows", "kernel", "oracle", "ablation"]
    counts = {
        name: Counter((run.fields["dataset"], run.fields["method"]) for run in runs)
        for name, runs in batches.items()
    }
    methods = ("Schirn", "NLR", "FPML", "CandidateRidge")
    # All methods of a row of the tables have the same folds, also Schirn tuned on the truth.
    folds = {"mine": 4, "large": 3}
    assert counts["rows"] == {(d, m): n for d, n in folds.items() for m in methods}
    assert counts["oracle"] == {(d, "Schirn"): n for d, n in folds.items()}
    assert counts["kernel"] == {(d, m): 2 for d in folds for m in methods if m != "FPML"}
    assert {run.fields["features"] for run in batches["kernel"]} == {"kernel"}
    assert all(run.fields["oracle"] for run in batches["oracle"])
    # Whatever the data set, a method searches its whole grid, or chooses in `fit`.
    grids = {run.fields["method"]: run.known["grid"] for run in batches["rows"]}
    assert grids["FPML"] == default_grid("FPML")
    rows = {run.known["search_rows"] for run in batches["rows"] if run.known["grid"]}
    assert rows == {part.search_rows}


def test_only_methods_that_were_asked_for_are_named_as_left_out():
    assert make_plan(QUICK, sets=["absent:1"], methods=["Schirn"]).part.left_out == ()
    assert make_plan(QUICK, sets=["absent:1"], methods=["Schirn", "PARD"]).part.left_out == (
        "PARD",
    )
