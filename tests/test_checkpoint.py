"""Checkpoints: a killed fit goes on where it was, with the same result."""

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import schirn
from schirn import lab
from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.metrics import average_precision
from schirn.model_selection import CandidateSearchCV
from schirn.scale import RowFile


@pytest.fixture(scope="module")
def data():
    return make_partial_multilabel(n_samples=240, n_features=10, n_labels=6, r=1, random_state=1)


class Stopped(BaseException):
    """Like a kill: nobody catches it."""


def stop_after(monkeypatch, module, rounds, what="round", *, seconds=3600):
    """Stop a loop at the beginning of a round; returns the rounds that were begun.

    Every round appears to take this many seconds, and the state is saved after an hour.
    """
    begun, monotonic = [], time.monotonic

    def track(items, name, *args, **options):
        for item in items:
            # Round 0 of Sieve is its first guess, which does not count.
            if name == what and item != 0:
                if len(begun) == rounds:
                    raise Stopped
                begun.append(item)
            yield item

    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + seconds * len(begun))
    monkeypatch.setattr(f"schirn.{module}.track", track)
    return begun


def same(one, other):
    for name in ("label_confidence_", "noise_", "objective_"):
        a, b = (getattr(model, name) for model in (one, other))
        a, b = (x.toarray() if hasattr(x, "toarray") else x for x in (a, b))
        np.testing.assert_array_equal(a, b)
    assert one.n_iter_ == other.n_iter_


SIEVES = {
    "kernel": {},
    "landmarks": {"max_kernel_rows": 100, "n_landmarks": 60},
}


@pytest.mark.parametrize("kind", [*SIEVES, "files"])
def test_sieve_goes_on(data, tmp_path, monkeypatch, kind):
    options = SIEVES["landmarks" if kind == "files" else kind]
    folder = tmp_path / "kept"
    np.save(tmp_path / "X.npy", data.X)

    def rows():
        return RowFile(tmp_path / "X.npy", block_rows=90) if kind == "files" else data.X

    expected = schirn.Sieve(**options).fit(rows(), data.candidates)
    model = schirn.Sieve(checkpoint=folder, **options)
    with monkeypatch.context() as patch:
        stop_after(patch, "solvers.sieve", 5)
        with pytest.raises(Stopped):
            model.fit(rows(), data.candidates)
    assert (folder / "checkpoint.json").exists()
    with monkeypatch.context() as patch:
        begun = stop_after(patch, "solvers.sieve", 100)
        model.fit(rows(), data.candidates)
    assert begun == [6, 7, 8]
    same(model, expected)
    np.testing.assert_array_equal(model.predict_proba(data.X), expected.predict_proba(data.X))
    assert not folder.exists()


def test_known_labels_and_groups_are_part_of_the_data(data, tmp_path, monkeypatch):
    known = np.where(np.arange(240)[:, None] < 20, data.candidates, 0)
    groups = np.arange(240) // 2
    model = schirn.Sieve(checkpoint=tmp_path / "kept")
    with monkeypatch.context() as patch:
        stop_after(patch, "solvers.sieve", 3)
        with pytest.raises(Stopped):
            model.fit(data.X, data.candidates, known=known, groups=groups)
    with pytest.raises(InputError, match="with another data set"):
        model.fit(data.X, data.candidates)
    model.fit(data.X, data.candidates, known=known, groups=groups)
    same(model, schirn.Sieve().fit(data.X, data.candidates, known=known, groups=groups))


@pytest.mark.parametrize("where", ["memory", "files"])
def test_schirn_goes_on(data, tmp_path, monkeypatch, where):
    np.save(tmp_path / "X.npy", data.X)

    def rows():
        return data.X if where == "memory" else RowFile(tmp_path / "X.npy", block_rows=90)

    solver = "solvers.schirn" if where == "memory" else "solvers.schirn_blocks"
    expected = schirn.Schirn(max_iter=20).fit(rows(), data.candidates)
    model = schirn.Schirn(max_iter=20, checkpoint=tmp_path / "kept")
    with monkeypatch.context() as patch:
        stop_after(patch, solver, 12)
        with pytest.raises(Stopped):
            model.fit(rows(), data.candidates)
    saved = {path.name for path in (tmp_path / "kept").rglob("*.npz")}
    blocks = set() if where == "memory" else {f"rounds-12-{first}.npz" for first in (0, 90, 180)}
    assert saved == {"search.npz", "rounds.npz"} | blocks
    with monkeypatch.context() as patch:
        begun = stop_after(patch, solver, 1000)
        model.fit(rows(), data.candidates)
    assert begun == list(range(13, 21))
    same(model, expected)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    np.testing.assert_array_equal(model.search_["score"], expected.search_["score"])
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("method", ["Sieve", "NLR"])
def test_cleaning_in_folds_goes_on(data, tmp_path, monkeypatch, method):
    options = {"method": method, "cv": 3}
    expected = schirn.find_noisy_labels(data.X, data.candidates, **options)
    options["checkpoint"] = tmp_path / "kept"
    with monkeypatch.context() as patch:
        stop_after(patch, "cleaning._model_rankers", 2, "fold")
        with pytest.raises(Stopped):
            schirn.find_noisy_labels(data.X, data.candidates, **options)
    with pytest.raises(InputError, match="with another set of parameters"):
        schirn.find_noisy_labels(data.X, data.candidates, min_count=9, **options)
    fits = []
    model = schirn.methods()[method]
    fit = model.fit
    with monkeypatch.context() as patch:
        patch.setattr(model, "fit", lambda self, *a, **k: fits.append(1) or fit(self, *a, **k))
        found = schirn.find_noisy_labels(data.X, data.candidates, **options)
    assert len(fits) == 1
    np.testing.assert_array_equal(found.confidence, expected.confidence)
    np.testing.assert_array_equal(found.removed, expected.removed)
    assert found.summary() == expected.summary()
    np.testing.assert_array_equal(
        found.ranked.planted_confidence, expected.ranked.planted_confidence
    )
    assert not (tmp_path / "kept").exists()


class Scoring:
    """Average precision of a few held-out sets; the same in every process."""

    n_left = 0

    def __call__(self, labels, scores):
        if not Scoring.n_left:
            raise Stopped
        Scoring.n_left -= 1
        return average_precision(labels, scores)


@pytest.mark.parametrize("estimator", [schirn.Schirn(max_iter=10), lab.NLR(max_iter=5)])
def test_a_search_goes_on(data, tmp_path, estimator):
    grid = {"lam": [0.5, 5.0]} if "alpha" in estimator.get_params() else {"gamma": [1.0, 10.0]}
    expected = CandidateSearchCV(estimator, grid, cv=3).fit(data.X, data.candidates)
    options = {"scoring": Scoring(), "checkpoint": tmp_path / "kept"}
    search = CandidateSearchCV(estimator, grid, cv=3, **options)
    # Two folds of two settings, then the third fold.
    Scoring.n_left = 4
    with pytest.raises(Stopped):
        search.fit(data.X, data.candidates)
    Scoring.n_left = 2
    search.fit(data.X, data.candidates)
    for k in range(3):
        name = f"split{k}_test_score"
        np.testing.assert_array_equal(search.cv_results_[name], expected.cv_results_[name])
    assert search.cv_results_["mean_fit_time"].shape == (2,)
    same(search.best_estimator_, expected.best_estimator_)
    assert not (tmp_path / "kept").exists()


def interrupted(data, folder, monkeypatch, **options):
    model = schirn.Sieve(checkpoint=folder)
    with monkeypatch.context() as patch:
        stop_after(patch, "solvers.sieve", 3, **options)
        with pytest.raises(Stopped):
            model.fit(data.X, data.candidates)
    return model


def test_a_checkpoint_of_something_else_is_refused(data, tmp_path, monkeypatch):
    folder = tmp_path / "kept"
    interrupted(data, folder, monkeypatch)
    X, Y = data.X, data.candidates
    with pytest.raises(
        InputError, match="kept: this is a checkpoint of a fit with another data set"
    ):
        schirn.Sieve(checkpoint=folder).fit(X + 1, Y)
    with pytest.raises(InputError, match="of a fit with another set of parameters"):
        schirn.Sieve(checkpoint=folder, lam=1.0).fit(X, Y)
    with pytest.raises(InputError, match="of a fit with another method"):
        schirn.Schirn(checkpoint=folder).fit(X, Y)
    with monkeypatch.context() as patch:
        patch.setattr(schirn, "__version__", "9.9")
        with pytest.raises(InputError, match="of a fit with another version of schirn"):
            schirn.Sieve(checkpoint=folder).fit(X, Y)
    # What the result does not depend on may change.
    schirn.Sieve(checkpoint=folder, threshold="top-1", verbose=False).fit(X, Y)
    assert not folder.exists()


def test_other_folders_are_left_alone(data, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not a checkpoint, and not empty"):
        schirn.Sieve(checkpoint=tmp_path / "mine").fit(data.X, data.candidates)
    model = interrupted(data, tmp_path / "kept", monkeypatch)
    (tmp_path / "kept" / "notes.txt").write_text("mine")
    model.fit(data.X, data.candidates)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("folder", "file"),
    [("my_16_char_notes", "rounds.npz"), ("0123456789abcdef", "notes.txt")],
)
def test_only_sections_are_removed(data, tmp_path, monkeypatch, folder, file):
    """Neither the name of a folder alone nor its content alone makes it a section."""
    model = interrupted(data, tmp_path / "kept", monkeypatch)
    notes = tmp_path / "kept" / folder / file
    notes.parent.mkdir()
    notes.write_text("mine")
    model.fit(data.X, data.candidates)
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [folder]
    assert notes.read_text() == "mine"


def test_a_damaged_checkpoint_is_named(data, tmp_path, monkeypatch):
    model = interrupted(data, tmp_path / "kept", monkeypatch)
    (path,) = (tmp_path / "kept").rglob("rounds.npz")
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match=r"rounds\.npz: damaged .* delete the folder"):
        model.fit(data.X, data.candidates)


def test_a_rewritten_checkpoint_is_not_continued(data, tmp_path, monkeypatch):
    model = interrupted(data, tmp_path / "kept", monkeypatch)
    (path,) = (tmp_path / "kept").rglob("rounds.npz")
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    large = max(arrays, key=lambda name: arrays[name].size)
    np.savez(path, **{**arrays, large: np.zeros_like(arrays[large])})
    with pytest.raises(InputError, match=r"rounds\.npz: damaged .* delete the folder"):
        model.fit(data.X, data.candidates)


def test_what_cannot_be_continued_is_refused(data, tmp_path):
    torch = pytest.importorskip("torch", reason="a device array needs PyTorch")
    pytest.importorskip("array_api_compat", reason="so does the array interface")
    folder = tmp_path / "kept"
    with pytest.raises(InputError, match="random_state=None cannot be continued"):
        schirn.Sieve(checkpoint=folder, random_state=None).fit(data.X, data.candidates)
    with pytest.raises(InputError, match="no checkpoint of rows on a device"):
        schirn.Sieve(checkpoint=folder).fit(torch.as_tensor(data.X), data.candidates)


def test_a_saved_model_does_not_know_the_folder(data, tmp_path):
    model = schirn.Sieve(checkpoint=tmp_path / "kept").fit(data.X, data.candidates)
    schirn.save(model, tmp_path / "model.schirn")
    assert schirn.load(tmp_path / "model.schirn").checkpoint is None


def test_the_first_guess_is_not_repeated(data, tmp_path, monkeypatch):
    from schirn.solvers import sieve

    guess = sieve.first_guess
    guesses = []

    def counted(*args):
        guesses.append(1)
        return guess(*args)

    monkeypatch.setattr(sieve, "first_guess", counted)
    whole = schirn.Sieve(random_state=0).fit(data.X, data.candidates)
    assert len(guesses) == 1
    resumed = schirn.Sieve(random_state=0, checkpoint=tmp_path / "kept")
    with monkeypatch.context() as patch:
        patch.setattr("schirn._checkpoint._EVERY", 0.0)
        patch.setattr("schirn._checkpoint._PAUSE", 0.0)
        patch.setattr(sieve, "next_round", stopped)
        with pytest.raises(Stopped):
            resumed.fit(data.X, data.candidates)
    assert len(guesses) == 2
    same(resumed.fit(data.X, data.candidates), whole)
    assert len(guesses) == 2


def stopped(*args, **options):
    raise Stopped


def test_states_are_saved_now_and_then(data, tmp_path, monkeypatch):
    # Twenty seconds have not passed.
    interrupted(data, tmp_path / "kept", monkeypatch, seconds=0)
    assert not list((tmp_path / "kept").rglob("*.npz"))


PROGRAM = """
import sys, time
from schirn.app.cli import main
from schirn.solvers import sieve
hours, monotonic, before = [], time.monotonic, sieve.track
time.monotonic = lambda: monotonic() + 3600 * len(hours)
def slow(items, what, **options):
    for item in before(items, what, **options):
        print("round", item, file=sys.stderr, flush=True)
        time.sleep(0.3)
        hours.append(item)
        yield item
sieve.track = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="kills by signal")
@pytest.mark.parametrize("command", ["clean", "clean in files", "fit"])
def test_a_killed_command_goes_on(data, tmp_path, monkeypatch, capsys, command):
    command, _, in_files = command.partition(" ")
    table = tmp_path / "photos.csv"
    tags = [";".join(f"t{j}" for j in np.flatnonzero(row)) for row in data.candidates]
    lines = [f"{t},{','.join(map(repr, map(float, x)))}" for t, x in zip(tags, data.X, strict=True)]
    names = ",".join(f"x{j}" for j in range(data.X.shape[1]))
    table.write_text(f"tags,{names}\n" + "\n".join(lines) + "\n")
    kind = {"clean": "csv", "fit": "schirn"}[command]
    out, whole = tmp_path / f"out.{kind}", tmp_path / f"whole.{kind}"
    argv = [command, str(table), "--labels", "tags", "-o"]
    if in_files:
        np.save(tmp_path / "x.npy", data.X)
        few = ["--param", "max_kernel_rows=100", "--param", "n_landmarks=60"]
        chosen = ["--features", str(tmp_path / "x.npy"), "--max-memory", "2e-5", *few]
        argv[2:2] = chosen
    kept = [str(out), "--checkpoint", str(tmp_path / "kept")]
    program = [sys.executable, "-c", PROGRAM, *argv, *kept]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(program, stderr=subprocess.PIPE, text=True, env=environment)
    for line in process.stderr:
        if line.strip() == "round 5":
            process.send_signal(signal.SIGKILL)
            break
    process.stderr.close()
    process.wait()
    assert not out.exists()
    head = json.loads((tmp_path / "kept" / "checkpoint.json").read_text())
    assert head["method"] == {"clean": "find_noisy_labels", "fit": "Sieve"}[command]
    with monkeypatch.context() as patch:
        begun = stop_after(patch, "solvers.sieve", 100)
        assert main([*argv, *kept]) == 0
    assert begun == [5, 6, 7, 8]
    printed = capsys.readouterr()
    assert "schirn: going on after round 4 of 8" in printed.err
    assert ("read from files block by block" in printed.out) == bool(in_files)
    assert not (tmp_path / "kept").exists()
    assert main([*argv, str(whole)]) == 0
    if command == "clean":
        assert whole.read_bytes() == out.read_bytes()
    else:
        same(schirn.load(whole).method_, schirn.load(out).method_)


def test_every_byte_of_the_table_counts(tmp_path, monkeypatch, capsys):
    table, copy = tmp_path / "t.csv", tmp_path / "c.csv"
    lines = [f"{'ab'[k % 2]},{k % 3},{'x' * 3000}\n" for k in range(60)]
    content = ("tags,number,text\n" + "".join(lines)).encode()
    table.write_bytes(content)
    about = table.stat()

    def edit(*args, **options):
        # The same size and time, and the same blocks at both ends.
        table.write_bytes(content[:90_000] + b"y" + content[90_001:])
        os.utime(table, ns=(about.st_atime_ns, about.st_mtime_ns))
        return schirn.find_noisy_labels(*args, **options)

    monkeypatch.setattr("schirn.app.workflow._table_cleaning.find_noisy_labels", edit)
    argv = ["clean", str(table), "--columns", "number", "-o", str(copy)]
    assert main([*argv, "--checkpoint", str(tmp_path / "kept")]) == 2
    assert "has changed since it was read" in capsys.readouterr().err
    assert not copy.exists()


def test_a_method_without_checkpoints(tmp_path, capsys):
    argv = ["fit", "digits_attributes", "--method", "GLC", "-o", str(tmp_path / "m")]
    assert main([*argv, "--checkpoint", str(tmp_path / "kept")]) == 2
    assert "GLC keeps no checkpoint" in capsys.readouterr().err
