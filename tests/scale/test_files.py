"""Rows in files: the result of rows in memory, within a bounded memory, and nothing left behind."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import schirn
from schirn import Schirn, Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import DataError, InputError
from schirn.scale import RowFile
from schirn.scale.files import FileRows
from schirn.scale.row_file import copy_to_file
from schirn.solvers import schirn_blocks as solver

OPTIONS = {"lam": 1.0, "alpha": 0.0, "beta": 0.05, "max_iter": 20, "mu": 0.01, "rho": 1.5}


@pytest.fixture(scope="module")
def data():
    found = make_partial_multilabel(n_samples=230, n_features=12, n_labels=6, r=1, random_state=0)
    return np.where(np.abs(found.X) > 0.4, found.X + 1.0, 0), found.candidates


@pytest.fixture
def scratch(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def sources(X, folder):
    """The same rows in every form that `RowFile` takes."""
    np.save(folder / "X.npy", X)
    np.save(folder / "longer.npy", np.vstack([X[:3], X]))
    cuts = [slice(i, i + 60) for i in range(0, len(X), 60)]
    for k, rows in enumerate(cuts):
        np.save(folder / f"piece{k}.npy", X[rows])
    return {
        "npy": lambda: folder / "X.npy",
        "memmap": lambda: np.load(folder / "X.npy", mmap_mode="r"),
        "part of a memmap": lambda: np.load(folder / "longer.npy", mmap_mode="r")[3:],
        "changed memmap": lambda: np.load(folder / "X.npy", mmap_mode="c"),
        "npy files": lambda: [folder / f"piece{k}.npy" for k in range(len(cuts))],
        "memory": lambda: X,
        "sparse": lambda: sp.csr_array(X),
    }


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("block_rows", [None, 50])
def test_files_give_the_model_of_memory(data, tmp_path, scratch, intercept, block_rows):
    X, Y = data
    expected = Schirn(**OPTIONS, fit_intercept=intercept).fit(X, Y)
    assert 0 < expected.noise_.sum() < Y.sum()
    for name, source in sources(X, tmp_path).items():
        with RowFile(source(), block_rows=block_rows, scratch=scratch) as rows:
            assert rows.shape == X.shape, name
            found = Schirn(**OPTIONS, fit_intercept=intercept).fit(rows, sp.csr_array(Y))
            scores = found.decision_function(rows)
            np.testing.assert_array_equal(found.predict(rows), expected.predict(X))
            read = [b.toarray() if sp.issparse(b) else b for b in rows.blocks()]
        np.testing.assert_array_equal(np.vstack(read), X, err_msg=name)
        np.testing.assert_allclose(scores, expected.decision_function(X), atol=1e-9, err_msg=name)
        np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
        np.testing.assert_allclose(
            found.label_confidence_.toarray(), expected.label_confidence_, atol=1e-7
        )
        np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-9)
        assert not list(scratch.iterdir()), name


def test_single_precision_and_integers(data, tmp_path):
    X, Y = data
    np.save(tmp_path / "single.npy", X.astype(np.float32))
    model = Schirn(**OPTIONS).fit(RowFile(tmp_path / "single.npy", block_rows=100), Y)
    assert model.coef_.dtype == np.float32
    np.save(tmp_path / "whole.npy", np.rint(X).astype(np.int16))
    rows = RowFile(tmp_path / "whole.npy", block_rows=100)
    assert rows.dtype == np.float64
    expected = Schirn(**OPTIONS).fit(np.rint(X), Y).coef_
    np.testing.assert_allclose(Schirn(**OPTIONS).fit(rows, Y).coef_, expected, atol=1e-9)


@pytest.mark.parametrize("kernel_rows", [4000, 50], ids=["all rows", "landmarks"])
def test_sieve_on_files(data, kernel_rows, scratch, monkeypatch):
    X, Y = data
    options = {"max_kernel_rows": kernel_rows, "n_landmarks": 40, "max_iter": 2}
    monkeypatch.setattr(sys.modules["schirn.estimators.sieve"], "SAMPLE_ROWS", 100)
    expected = Sieve(**options).fit(X, Y)
    with RowFile(X, block_rows=60, scratch=scratch) as rows:
        found = Sieve(**options).fit(rows, Y)
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
    assert found.informativeness_ == pytest.approx(expected.informativeness_, abs=1e-4)
    np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-3)
    assert not list(scratch.iterdir())


def test_models_of_files_are_saved(data, tmp_path):
    X, Y = data
    model = Schirn(**OPTIONS).fit(RowFile(X, block_rows=100), Y)
    schirn.save(model, tmp_path / "files.schirn")
    again = schirn.load(tmp_path / "files.schirn")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("error", [ValueError("broken"), KeyboardInterrupt()])
def test_nothing_is_left_after_an_error(data, scratch, monkeypatch, error):
    X, Y = data
    finish_round, calls = solver.finish_round, []

    def breaks(*args):
        calls.append(list(scratch.iterdir()))
        if len(calls) == 6:
            raise error
        return finish_round(*args)

    monkeypatch.setattr(solver, "finish_round", breaks)
    with RowFile(X, block_rows=60, scratch=scratch) as rows:
        with pytest.raises(type(error)):
            Schirn(**OPTIONS).fit(rows, Y)
        assert len(calls[-1]) == 1
    assert not list(scratch.iterdir())


KILLED = """
import os, signal, sys
import numpy as np
from schirn import Schirn
from schirn.scale import RowFile
from schirn.solvers import schirn_blocks as solver
rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 4)), rng.random((60, 3)) < 0.5
def finish_round(*args):
    print(flush=True)
    if sys.argv[2] == "wait":
        sys.stdin.read()
    os.kill(os.getpid(), signal.SIGKILL)
solver.finish_round = finish_round
rows = RowFile(X, block_rows=20, scratch=sys.argv[1])
Schirn(alpha=0.1, beta=0.1, lam=1.0).fit(rows, Y)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL and no flock")
def test_what_a_killed_process_left_is_removed(data, scratch, monkeypatch):
    others = scratch / "schirn-of-another-program"
    others.mkdir()
    (scratch / "schirn-file").touch()
    command = [sys.executable, "-c", KILLED, str(scratch)]
    subprocess.run([*command, "die"], check=False)
    left = set(scratch.glob("schirn-*/lock"))
    assert len(left) == 1
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([*command, "wait"], **pipes) as alive:
        alive.stdout.readline()
        its_own = set(scratch.glob("schirn-*/lock"))
        assert len(its_own) == 1
        assert not left & its_own
        monkeypatch.setattr("schirn.scale.row_file.scratch_folder", lambda: str(scratch))
        with copy_to_file([data[0]]) as one, copy_to_file([data[0]]):
            assert len(set(scratch.glob("schirn-*/lock")) - its_own) == 2
            np.testing.assert_array_equal(one.read(0), data[0])
        assert set(scratch.glob("schirn-*/lock")) == its_own
        alive.communicate()
    copy_to_file([data[0]]).close()
    assert sorted(path.name for path in scratch.iterdir()) == ["schirn-file", others.name]


def test_a_full_disk_raises_one_sentence(data, scratch, monkeypatch):
    X, Y = data
    rows = RowFile(X, block_rows=60, scratch=scratch)

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("schirn.scale.files.pickle.dump", full)
    with pytest.raises(DataError, match=r"temporary files \(No space left on device\)"):
        Schirn(**OPTIONS).fit(rows, Y)
    rows.close()
    assert not list(scratch.iterdir())


def test_files_that_cannot_be_used_are_named(data, tmp_path):
    X, Y = data
    np.save(tmp_path / "columns.npy", np.asfortranarray(X))
    with pytest.raises(DataError, match=r"columns\.npy: the array is stored in Fortran order"):
        RowFile(tmp_path / "columns.npy")
    with pytest.raises(DataError, match=r"nowhere\.npy: no such file"):
        RowFile(tmp_path / "nowhere.npy")
    (tmp_path / "text.npy").write_text("1,2,3")
    with pytest.raises(DataError, match=r"text\.npy: not a readable"):
        RowFile(tmp_path / "text.npy")
    np.save(tmp_path / "X.npy", X)
    whole = (tmp_path / "X.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(whole[:-5])
    with pytest.raises(DataError, match=r"short\.npy: the file is truncated"):
        RowFile(tmp_path / "short.npy")
    rows = RowFile(tmp_path / "X.npy", block_rows=100)
    with pytest.raises(InputError, match="230 rows but the candidates have 229"):
        Schirn().fit(rows, Y[:-1])
    (tmp_path / "X.npy").write_bytes(whole[:-5])
    with pytest.raises(DataError, match=r"X\.npy: the file is truncated"):
        Schirn(**OPTIONS).fit(rows, Y)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "narrow.npy", X[:, 1:])
    with pytest.raises(InputError, match=r"same number of columns, got \[12, 11\]"):
        RowFile([tmp_path / "X.npy", tmp_path / "narrow.npy"])
    with pytest.raises(InputError, match=r"same number of columns, got \[11, 12\]"):
        copy_to_file([X, X[:, 1:]])
    with pytest.raises(InputError, match=r"a list of \.npy files .* the list has ndarray"):
        RowFile([X])
    with pytest.raises(InputError, match="at least one file"):
        RowFile([])
    with pytest.raises(InputError, match="block_rows must be an integer of at least 1"):
        RowFile(tmp_path / "X.npy", block_rows=0)
    broken = X.copy()
    broken[130, 2] = np.nan
    with pytest.raises(InputError, match="NaN at row 130, column 2"):
        Schirn().fit(RowFile(broken, block_rows=60), Y)


def test_arrays_that_are_no_rows(data, tmp_path):
    X, _ = data
    for name, array in (("flat", X[0]), ("empty", X[:0]), ("text", X.astype("U4"))):
        np.save(tmp_path / f"{name}.npy", array)
        with pytest.raises(DataError, match=rf"{name}\.npy: X must be a matrix of numbers"):
            RowFile(tmp_path / f"{name}.npy")
    np.save(tmp_path / "X.npy", X)
    columns = np.load(tmp_path / "X.npy", mmap_mode="r")[:, :5]
    np.testing.assert_array_equal(RowFile(columns).read(0), X[:, :5])
    with pytest.raises(InputError, match=r"X must be a matrix of numbers, not of shape \(12,\)"):
        RowFile(X[0])
    with pytest.raises(InputError, match="X must be a matrix of numbers"):
        RowFile(block for block in [X])


def test_memory_is_bounded_by_the_blocks(tmp_path):
    rng = np.random.default_rng(0)
    n, d, l, block_rows = 60_000, 100, 4, 2000
    X = rng.normal(size=(n, d))
    Y = sp.csr_array(rng.random((n, l)) < 0.4)
    np.save(tmp_path / "X.npy", X)
    size = X.nbytes
    del X
    rows = RowFile(tmp_path / "X.npy", block_rows=block_rows)
    tracemalloc.start()
    try:
        with pytest.warns(schirn.exceptions.EmptyCandidatesWarning):
            Schirn(max_iter=2).fit(rows, Y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # Two blocks of features, seven of scores, the candidates of all rows, and 24 MB that stay.
    assert peak < 8 * block_rows * (2 * d + 7 * l) + 65 * n + 24e6
    assert peak < 0.7 * size


def test_unchanged_parts_of_a_state_are_not_written_again(data, monkeypatch):
    X, Y = data
    written = []
    save = FileRows._save

    def spy(self, name, value):
        written.append(name)
        save(self, name, value)

    monkeypatch.setattr(FileRows, "_save", spy)
    store = FileRows(RowFile(X, block_rows=115), sp.csr_array(Y))
    state = solver.State(*(np.zeros(3) for _ in range(3)))
    store.step(lambda block, old: (state, (1,)))
    assert {name for name in written if name.startswith("1.")} == {
        "1.cells", "1.S", "1.C", "1.noise", "1.G", "1.change",
    }  # fmt: skip
    written.clear()
    assert store.step(lambda block, old: (old._replace(G=old.S + 1), (2,))) == (4,)
    assert written == ["0.G", "1.G"]
    np.testing.assert_array_equal(store.gather(lambda block, old: old.G), np.ones((2, 3)))
    store.close()


def test_changes_of_a_private_mapping_are_read(tmp_path):
    np.save(tmp_path / "X.npy", np.ones((4, 2)))
    X = np.load(tmp_path / "X.npy", mmap_mode="c")
    X[1] = 5
    np.testing.assert_array_equal(RowFile(X).read(0), X)


def test_finer_blocks_are_the_same_rows(data, tmp_path, scratch, monkeypatch):
    X, _ = data
    np.save(tmp_path / "X.npy", X)
    with RowFile(tmp_path / "X.npy", block_rows=100) as rows:
        finer = rows._finer(60)
        assert [len(block) for block in finer.blocks()] == finer.block_sizes == [60, 60, 60, 50]
        np.testing.assert_array_equal(np.vstack(list(finer.blocks())), X)
    monkeypatch.setattr("schirn.scale.row_file.scratch_folder", lambda: str(scratch))
    copied = copy_to_file([X[:100], X[100:]])._finer(70)
    # The copies live as long as whatever reads them.
    np.testing.assert_array_equal(np.vstack(list(copied.blocks())), X)
    assert len(list(scratch.iterdir())) == 1
    del copied
    assert not list(scratch.iterdir())
