"""What a reproduction reads, from a folder with some of the files."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from schirn.datasets import add_noise, load, make_partial_multilabel
from schirn.lab.bench.running.methods import default_grid
from schirn.lab.reproduction.costs import expected_seconds
from schirn.lab.reproduction.experiments import FULL, QUICK
from schirn.lab.reproduction.plan import (
    AUTHORS,
    authors,
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
    plan = make_plan(QUICK, methods=["CandidateRidge"], studies=["label_ranks"])
    assert list(plan.shapes) == ["yeastmf"]
    found = [data.name for data in labelled(plan)]
    assert found == ["yeastmf", "yeastcc_labels_only", "yeastbp"]


def test_data_sets_of_the_user_stand_alone(place):
    save(place, "yeastmf")
    save(place, "mine")
    save(place, AUTHORS)
    plan = make_plan(QUICK, sets=["mine:own", "absent:2"], methods=["CandidateRidge"])
    assert list(plan.skipped) == ["absent:2"]
    assert [data.name for data in labelled(plan)] == ["mine"]
    assert [data.name for data in to_tie(plan)] == ["mine"]
    assert authors(plan) == []
    assert [path.name for path in plan.files] == ["mine.npz"]


def test_files_of_the_studies_are_read_too(place):
    save(place, "yeastmf")
    save(place, "music_style_labels_only", features=False)
    save(place, AUTHORS)
    plan = make_plan(FULL, methods=["CandidateRidge"], studies=["authors_folds"])
    assert [data.name for data in authors(plan)] == [AUTHORS]
    assert [data.name for data in to_tie(plan)] == ["yeastmf"]
    names = {path.stem for path in plan.files}
    assert names == {"yeastmf", AUTHORS, "music_style_labels_only"}


def test_candidates_are_the_own_ones_or_drawn_as_in_the_tables(place):
    save(place, "mine")
    data = load("mine")
    assert candidates_of(data, None) is data.candidates
    drawn = candidates_of(data, 2)
    np.testing.assert_array_equal(drawn, add_noise(data.y_true, 2, kind="legacy", seed=2))
    assert (drawn >= data.y_true).all()
    assert drawn.sum() > data.y_true.sum()


def test_a_run_that_cannot_be_executed_costs_nothing(place):
    save(place, "mine")
    plan = make_plan(QUICK, sets=["mine:1"], methods=["CandidateRidge"], folds=2)
    run = plan_batches(plan, place / "out", [])[0].runs[0]
    assert expected_seconds(run) > 0
    run.known["reason"] = "mine has no true labels to score on"
    assert expected_seconds(run) == 0


def test_tables_with_kernel_features_and_with_schirn_tuned_on_the_truth(place):
    save(place, "mine")
    part = replace(QUICK, some_folds={"oracle": 1, ("kernel", "mine"): 2, ("NLR", "mine"): 3})
    chosen = ["Schirn", "NLR", "FPML", "CandidateRidge"]
    plan = make_plan(part, sets=["mine:1"], methods=chosen, folds=4)
    found = {batch.folder.name: batch.runs for batch in plan_batches(plan, place, ["ablation"])}
    assert list(found) == ["rows", "kernel", "oracle", "ablation"]
    counts = {name: Counter(run.fields["method"] for run in runs) for name, runs in found.items()}
    assert counts["rows"] == {"Schirn": 4, "NLR": 3, "FPML": 4, "CandidateRidge": 4}
    assert counts["kernel"] == {"Schirn": 2, "NLR": 2, "CandidateRidge": 2}
    assert counts["oracle"] == {"Schirn": 1}
    assert {run.fields["features"] for run in found["kernel"]} == {"kernel"}
    assert all(run.fields["oracle"] for run in found["oracle"])
    # Whatever the data set, a method searches its whole grid, or chooses in `fit`.
    grids = {run.fields["method"]: run.known["grid"] for run in found["rows"]}
    assert grids["FPML"] == default_grid("FPML")
    rows = {run.known["search_rows"] for run in found["rows"] if run.known["grid"]}
    assert rows == {part.search_rows}
