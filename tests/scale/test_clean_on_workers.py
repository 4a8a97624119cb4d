"""Cleaning on Dask workers: the verdicts of one machine, from Parquet files that workers read."""

import json
import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import Sieve, find_noisy_labels
from schirn.app.cli import main
from schirn.cleaning import TextRanker
from schirn.datasets import add_noise, make_partial_multilabel
from schirn.exceptions import InputError
from schirn.scale import cluster

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask arrays are not installed")
arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

ROWS, BLOCK = 600, 170
FAST = {"max_kernel_rows": 100, "n_landmarks": 50, "max_iter": 3}
PARAMS = [word for name, value in FAST.items() for word in ("--param", f"{name}={value}")]


@pytest.fixture(scope="module")
def workers():
    """Two workers in threads of this process, which is enough where none dies."""
    options = {"processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as found:
        yield found


@pytest.fixture
def client(workers):
    with distributed.Client(workers) as found:
        yield found


@pytest.fixture(scope="module")
def data():
    found = make_partial_multilabel(n_samples=ROWS, n_features=12, n_labels=6, r=1, random_state=0)
    return found.X, found.candidates


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Three files with embeddings, numbers and tags; the second has two row groups."""
    X, Y = data
    path = tmp_path_factory.mktemp("table") / "rows"
    path.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(ROWS), 3)):
        columns = {
            "name": [f"row {i}" for i in rows],
            "embedding": arrow.array(list(X[rows].astype(np.float32))),
            "tags": [[f"tag {j}" for j in np.flatnonzero(Y[i])] for i in rows],
        }
        columns |= {f"x{j}": X[rows, j] for j in range(12)}
        parquet.write_table(arrow.table(columns), path / f"{k}.parquet", row_group_size=120)
    return path


def assert_same_verdicts(found, expected):
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)
    np.testing.assert_array_equal(found.removed, expected.removed)
    assert len(found.missing) == len(expected.missing)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_verdicts_are_those_in_memory(client, data, storage):
    X, Y = data
    X = np.where(np.abs(X) > 0.4, X, 0)
    method = Sieve(**FAST)
    expected = find_noisy_labels(storage(X), Y, method=method)
    if storage is np.asarray:
        rows = da.from_array(X, chunks=(BLOCK, 5))
    else:
        starts = range(0, ROWS, BLOCK)
        rows = [dask.delayed(storage)(X[i : i + BLOCK]) for i in starts]
    assert_same_verdicts(find_noisy_labels(rows, Y, method=method), expected)


def travelled(monkeypatch, X, Y, rounds):
    """Bytes that messages and sums take on their way to the blocks and back."""
    sent, received = [], []
    near, gather = cluster.DaskRows.near, distributed.Client.gather

    def counted_near(self, function, *args, **options):
        sent.append(len(pickle.dumps(args, protocol=5)))
        return near(self, function, *args, **options)

    def counted_gather(self, *args, **options):
        found = gather(self, *args, **options)
        received.append(len(pickle.dumps(found, protocol=5)))
        return found

    with monkeypatch.context() as patched:
        patched.setattr(cluster.DaskRows, "near", counted_near)
        patched.setattr(distributed.Client, "gather", counted_gather)
        Sieve(max_kernel_rows=100, n_landmarks=200, max_iter=rounds).fit(X, Y)
    return np.array([sum(sent), sum(received)])


def test_only_values_of_candidates_grow_with_the_rows(client, monkeypatch):
    """In a round, soft labels go to the blocks and scores of candidates come back, no features."""
    l, cells, blocks, n_ridges = 6, 300, 2, 3
    made = make_partial_multilabel(n_samples=2 * ROWS, n_labels=l, r=1, random_state=0)
    monkeypatch.setattr("schirn.solvers.sieve.POOL_CELLS", cells)
    rounds = []
    for n in (ROWS, 2 * ROWS):
        rows = da.from_array(made.X[:n], chunks=(n // blocks, -1))
        two, three = (travelled(monkeypatch, rows, made.candidates[:n], k) for k in (2, 3))
        rounds.append(three - two)
    more = int(made.candidates[ROWS:].sum())
    to, back = rounds[1] - rounds[0]
    # Soft labels of single precision for both splits, three times; cells held out.
    assert to < 2 * 3 * 4 * more + 16 * more
    assert back < 2 * 4 * (n_ridges + 1) * more + 4 * (n_ridges + 1) * more


def test_few_rows_are_brought_together(client, data):
    X, Y = data
    expected = find_noisy_labels(X, Y, method=Sieve(max_iter=2))
    found = find_noisy_labels(da.from_array(X, chunks=BLOCK), Y, method=Sieve(max_iter=2))
    np.testing.assert_array_equal(found.confidence, expected.confidence)


def test_what_needs_all_rows_here_is_named(client, data):
    X, Y = data
    rows, method = da.from_array(X, chunks=(BLOCK, -1)), Sieve(**FAST)
    with pytest.raises(InputError, match="groups needs rows in main memory"):
        find_noisy_labels(rows, Y, method=method, groups=np.arange(ROWS))
    with pytest.raises(InputError, match="cv needs rows in main memory"):
        find_noisy_labels(rows, Y, method=method, cv=3)
    with pytest.raises(InputError, match="Schirn judges in folds"):
        find_noisy_labels(rows, Y, method="Schirn")
    with pytest.raises(InputError, match="600 rows but the candidates have 599"):
        find_noisy_labels(rows, Y[:-1], method=method)


def cleaned(folder, *argv):
    assert main(["clean", str(folder), *argv, *PARAMS, "--remove-below", "0.5", "--json"]) == 0


@pytest.mark.parametrize("columns", ["embedding", "numbers"])
def test_the_program_cleans_a_folder(workers, folder, tmp_path, capsys, columns):
    names = ",".join(f"x{j}" for j in range(12))
    chosen = ["--features", "embedding"] if columns == "embedding" else ["--columns", names]
    out = [str(tmp_path / name) for name in ("here.parquet", "there.parquet")]
    cleaned(folder, *chosen, "-o", out[0])
    here = json.loads(capsys.readouterr().out)
    cleaned(folder, *chosen, "-o", out[1], "--scheduler", workers.scheduler_address)
    there = json.loads(capsys.readouterr().out)
    assert there["removed"] == here["removed"] > 0
    assert there["learned_from"] == here["learned_from"]
    assert there["left_out"] == here["left_out"]
    expected, found = (parquet.read_table(path) for path in out)
    assert found.schema == expected.schema
    for name in found.column_names:
        if name != "tags_confidence":
            assert found.column(name) == expected.column(name)


def test_the_features_are_not_read_by_the_program(workers, folder, capsys, monkeypatch):
    chosen = []
    opened = parquet.ParquetFile.iter_batches

    def watched(self, *args, **options):
        chosen.append(options.get("columns"))
        return opened(self, *args, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", watched)
    cleaned(folder, "--features", "embedding", "--scheduler", workers.scheduler_address)
    assert len(chosen) == 3
    assert all("tags" in names and "embedding" not in names for names in chosen)


def test_the_report_has_no_reasons(workers, folder, tmp_path, capsys):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    page = tmp_path / "report.html"
    options = ["--scheduler", workers.scheduler_address, "--report", str(page)]
    cleaned(folder, "--features", "embedding", *options)
    assert "row 3" in page.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--text", "name", "--columns", "x1"], "give one of text, features and columns"),
        (["--text", "name", "--encoder", "e"], "encoder cannot be used with a scheduler"),
        (["--features", "rows.npy"], "an .npy file cannot be used with a scheduler"),
        ([], "give one of text, features and columns"),
    ],
)
def test_what_workers_cannot_do(folder, capsys, options, words):
    # Nothing listens at this address: these errors come before any connection.
    assert main(["clean", str(folder), *options, "--scheduler", "tcp://127.0.0.1:1"]) == 2
    assert words in capsys.readouterr().err


def test_a_table_that_is_no_folder(folder, capsys):
    options = ["--features", "embedding", "--scheduler", "tcp://127.0.0.1:1"]
    assert main(["clean", str(folder / "0.parquet"), *options]) == 2
    assert "must be in a folder of .parquet files" in capsys.readouterr().err


def test_a_scheduler_that_does_not_answer(folder, capsys, monkeypatch):
    monkeypatch.setattr(cluster, "_PATIENCE", "200ms")
    options = ["--features", "embedding", "--scheduler", "tcp://127.0.0.1:1"]
    assert main(["clean", str(folder), *options]) == 2
    assert "no Dask scheduler answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err


def test_a_folder_that_workers_do_not_see(workers, folder, capsys, monkeypatch):
    # Workers are threads here; on their machine the files would be missing.
    monkeypatch.setattr(cluster, "_first_missing", lambda files: files[0])
    options = ["--features", "embedding", "--scheduler", workers.scheduler_address]
    assert main(["clean", str(folder), *options, *PARAMS, "--fresh"]) == 2
    err = capsys.readouterr().err
    assert "does not see" in err
    assert "0.parquet; put the folder where all workers" in err


@pytest.mark.parametrize("bad", ["text", "ragged", "empty cell", "not a number"])
def test_columns_that_are_not_numbers(workers, tmp_path, capsys, bad):
    cells = {
        "text": ["a"] * 200,
        "ragged": [[1.0, 2.0]] * 199 + [[1.0]],
        "empty cell": [[1.0, 2.0]] * 199 + [None],
        "not a number": [1.0] * 199 + [float("nan")],
    }[bad]
    tags = [["a", "b"] if i % 2 else ["a"] for i in range(200)]
    (tmp_path / "rows").mkdir()
    parquet.write_table(arrow.table({"tags": tags, "x": cells}), tmp_path / "rows" / "0.parquet")
    chosen = ["--features" if isinstance(cells[0], list) else "--columns", "x"]
    options = [*chosen, "--scheduler", workers.scheduler_address]
    assert main(["clean", str(tmp_path / "rows"), *options, *PARAMS]) == 2
    words = {"text": "holds string, not numbers", "not a number": "row 200, column 'x'"}
    assert words.get(bad, "must hold lists of numbers") in capsys.readouterr().err


@pytest.fixture(scope="module")
def titles():
    """Texts with two words for each of their tags, and one wrong tag per row."""
    rng = np.random.default_rng(0)
    truth, texts = np.zeros((ROWS, 12), dtype=np.uint8), []
    for i in range(ROWS):
        labels = rng.choice(12, rng.integers(1, 4), replace=False)
        truth[i, labels] = 1
        words = [f"t{j}{rng.choice(list('abc'))}" for j in np.repeat(labels, 2)]
        texts.append(" ".join([*words, *(f"w{k}" for k in rng.integers(60, size=5))]))
    listed = add_noise(truth, 1, random_state=0)
    # Copies are in one fold, wherever they lie.
    texts[-20:], listed[-20:] = texts[:20], listed[:20]
    return texts, [[f"tag {j}" for j in np.flatnonzero(row)] for row in listed]


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr("schirn.app.workflow._columns._TEXTS", BLOCK)


def test_texts_are_ranked_as_in_memory(client, titles, small_blocks, monkeypatch):
    # Conjugate gradients that stop early do so in other steps after other rounding.
    monkeypatch.setattr("schirn.solvers.sparse_ridges._TOLERANCE", 1e-4)
    texts, tags = titles
    blocks = [dask.delayed(texts[i : i + BLOCK]) for i in range(0, ROWS, BLOCK)]
    here, there = (find_noisy_labels(X, tags) for X in (texts, blocks))
    assert here.method == there.method == "TextRanker"
    assert there.storage.name == "workers"
    np.testing.assert_allclose(there.confidence, here.confidence, atol=1e-3)
    np.testing.assert_array_equal(there.missing.row, here.missing.row)
    np.testing.assert_allclose(there.missing.confidence, here.missing.confidence, atol=1e-3)


def test_vectors_of_the_ridges_stay_on_the_workers(client, titles, small_blocks, monkeypatch):
    texts, tags = titles
    blocks = [dask.delayed(texts[i : i + BLOCK]) for i in range(0, ROWS, BLOCK)]
    results, here = [], cluster.DaskRows.here

    def record(store, value):
        results.append(here(store, value))
        return results[-1]

    monkeypatch.setattr(cluster.DaskRows, "here", record)
    find_noisy_labels(blocks, tags)
    assert results
    assert {type(result) for result in results} == {bool}


def test_every_thread_gets_a_block_of_texts(client):
    n_threads = sum(client.nthreads().values())
    assert cluster.rows_per_block(10 * n_threads - 1, most=1000) == 10
    assert cluster.rows_per_block(10_000 * n_threads, most=1000) == 1000


def test_the_program_ranks_texts_of_any_table(workers, titles, small_blocks, tmp_path, capsys):
    texts, tags = titles
    table = tmp_path / "items.csv"
    lines = (f"{text},{';'.join(row)}" for text, row in zip(texts, tags, strict=True))
    table.write_text("\n".join(["title,tags", *lines, ""]), encoding="utf-8")
    results = []
    for name, options in (("a", []), ("b", ["--scheduler", workers.scheduler_address])):
        copy = tmp_path / f"{name}.csv"
        words = ["clean", str(table), "--text", "title", "--remove", "200", "-o", str(copy)]
        assert main([*words, *options, "--json"]) == 0
        results.append(json.loads(capsys.readouterr().out) | {"copy": copy.read_text("utf-8")})
    here, there = results
    assert there["storage"] == "workers"
    for name in ("method", "removed", "learned_from"):
        assert there[name] == here[name]
    same = zip(here["copy"].splitlines(), there["copy"].splitlines(), strict=True)
    assert sum(a.split(",")[:3] != b.split(",")[:3] for a, b in same) <= 12


def test_dense_blocks_are_not_for_the_text_ranker(client, data):
    X, Y = data
    with pytest.raises(InputError, match="needs sparse blocks"):
        find_noisy_labels(da.from_array(X, chunks=(BLOCK, -1)), Y, method=TextRanker())
