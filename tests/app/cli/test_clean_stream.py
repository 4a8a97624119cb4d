"""`schirn clean` on vectors that do not fit into memory, and on very many tags."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from schirn import find_noisy_labels
from schirn.app.cli import main
from schirn.datasets import make_partial_multilabel
from schirn.labels.matrix import label_lists

arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

ROWS, FEATURES = 600, 12
FAST = {"max_kernel_rows": 100, "n_landmarks": 50, "max_iter": 3}
PARAMS = [word for name, value in FAST.items() for word in ("--param", f"{name}={value}")]
# Gigabytes: the features need more than half of it.
SCARCE = ["--max-memory", "5e-5"]


@pytest.fixture(scope="module")
def data():
    found = make_partial_multilabel(ROWS, FEATURES, 6, r=1, random_state=0)
    return found.X.astype(np.float32), found.candidates


@pytest.fixture(scope="module")
def folder(data, tmp_path_factory):
    """Three files with vectors, numbers and tags; one is empty, and one is in another folder."""
    X, Y = data
    path = tmp_path_factory.mktemp("table") / "rows"
    ends = [0, 250, 250, ROWS]
    for k, name in enumerate(["part=1/a", "part=1/b", "part=2/c"]):
        rows = np.arange(ends[k], ends[k + 1])
        vectors = arrow.array(X[rows].tolist(), type=arrow.list_(arrow.float32()))
        tags = [[f"tag {j}" for j in np.flatnonzero(Y[i])] for i in rows]
        columns = {
            "name": arrow.array([f"row {i}" for i in rows], arrow.string()),
            "vector": vectors,
            "tags": arrow.array(tags, arrow.list_(arrow.string())),
        }
        columns |= {f"x{j}": X[rows, j].astype(np.float64) for j in range(FEATURES)}
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        parquet.write_table(arrow.table(columns), path / f"{name}.parquet", row_group_size=120)
    return path


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    found = tmp_path / "scratch"
    found.mkdir()
    monkeypatch.setenv("TMPDIR", str(found))
    monkeypatch.setattr("tempfile.tempdir", None)
    return found


def cleaned(capsys, source, *argv):
    assert (
        main(["clean", str(source), *map(str, argv), *PARAMS, "--remove-below", "0.5", "--json"])
        == 0
    )
    return json.loads(capsys.readouterr().out)


def assert_same(found, expected):
    """Equal apart from the time, and up to rounding."""
    assert found["in_files"]
    assert not expected["in_files"]
    for name in ("removed", "learned_from", "left_out", "tags", "unjudged"):
        assert found[name] == expected[name], name
    assert found["removed"] > 0
    planted = "planted_among_suspects"
    assert found[planted] == pytest.approx(expected[planted], abs=1e-4)


def assert_same_tables(found, expected):
    assert found.schema.equals(expected.schema, check_metadata=True)
    for name in found.column_names:
        if name != "tags_confidence":
            assert found.column(name) == expected.column(name), name
    confidences = [
        [
            pair["confidence"]
            for cell in table.column("tags_confidence").to_pylist()
            for pair in cell
        ]
        for table in (found, expected)
    ]
    np.testing.assert_allclose(*confidences, atol=2e-4)


@pytest.mark.parametrize("chosen", ["vector", "columns", "list of columns"])
def test_a_parquet_folder(folder, scratch, tmp_path, capsys, chosen):
    names = ",".join(f"x{j}" for j in range(FEATURES))
    options = ["--columns" if chosen == "columns" else "--features"]
    options.append("vector" if chosen == "vector" else names)
    out = [tmp_path / name for name in ("here.parquet", "there.parquet")]
    expected = cleaned(capsys, folder, *options, "-o", out[0])
    found = cleaned(capsys, folder, *options, "-o", out[1], *SCARCE)
    assert_same(found, expected)
    here, there = (parquet.read_table(path) for path in out)
    assert_same_tables(there, here)
    assert not list(scratch.iterdir())


def test_one_file(folder, scratch, tmp_path, capsys):
    out = [tmp_path / f"{k}.parquet" for k in range(2)]
    options = ["--features", "vector", "-o"]
    source = folder / "part=2" / "c.parquet"
    expected = cleaned(capsys, source, *options, out[0])
    found = cleaned(capsys, source, *options, out[1], "--max-memory", "2.5e-5")
    assert_same(found, expected)
    here, there = (parquet.read_table(path) for path in out)
    assert_same_tables(there, here)


def test_an_npy_file_beside_a_table(data, folder, scratch, tmp_path, capsys):
    np.save(tmp_path / "x.npy", data[0])
    chosen = ["--features", tmp_path / "x.npy"]
    expected = cleaned(capsys, folder, *chosen)
    assert_same(cleaned(capsys, folder, *chosen, *SCARCE), expected)
    assert not list(scratch.iterdir())
    vectors = cleaned(capsys, folder, "--features", "vector")
    assert vectors["removed"] == expected["removed"]


def test_what_the_program_says(folder, capsys):
    argv = ["clean", str(folder), "--features", "vector", *PARAMS]
    assert main([*argv, *SCARCE]) == 0
    words = "features of 2.9e-05 GB are read from files block by block, as 5e-05 GB of memory were"
    assert words in capsys.readouterr().out
    assert main(argv) == 0
    assert "block by block" not in capsys.readouterr().out


def test_pages_and_other_methods(folder, tmp_path, capsys):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    options = ["--features", "vector", *SCARCE]
    page = tmp_path / "report.html"
    found = cleaned(capsys, folder, *options, "--report", page)
    assert found["in_files"]
    assert "row 3" in page.read_text()
    argv = ["clean", str(folder), *options, "--json"]
    assert main([*argv, "--method", "CandidateRidge"]) == 0
    assert json.loads(capsys.readouterr().out)["in_files"]
    assert main([*argv, "--group", "name"]) == 2
    assert "needs 0.00027 GB of memory, but 5e-05 GB are free" in capsys.readouterr().err


def test_a_disk_that_is_too_small(folder, scratch, capsys, monkeypatch):
    usage = shutil.disk_usage(scratch)._replace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    assert main(["clean", str(folder), "--features", "vector", *PARAMS, *SCARCE]) == 2
    err = capsys.readouterr().err
    assert "vector need 2.9e-05 GB in temporary files, since only 5e-05 GB of memory" in err
    assert "scratch has 1e-06 GB; set TMPDIR" in err
    assert not list(scratch.iterdir())


@pytest.mark.parametrize("bad", ["ragged", "empty cell", "not a number"])
def test_vectors_that_are_none(tmp_path, scratch, capsys, bad):
    cells = {
        "ragged": [[1.0, 2.0]] * 199 + [[1.0]],
        "empty cell": [[1.0, 2.0]] * 199 + [None],
        "not a number": [[1.0, float(k)] for k in range(199)] + [[1.0, float("nan")]],
    }[bad]
    tags = [["a", "b"] if i % 2 else ["a"] for i in range(200)]
    parquet.write_table(arrow.table({"tags": tags, "x": cells}), tmp_path / "t.parquet")
    argv = ["clean", str(tmp_path / "t.parquet"), "--features", "x", *PARAMS]
    assert main([*argv, "--max-memory", "2e-6"]) == 2
    words = {"not a number": "row 199, column 1"}
    assert words.get(bad, "must hold lists of numbers") in capsys.readouterr().err
    assert not list(scratch.iterdir())


@pytest.fixture
def many(tmp_path, monkeypatch):
    """A table with more tags than Sieve is for, by a limit that is lowered."""
    monkeypatch.setattr("schirn.cleaning.find.MANY_LABELS", 30)
    data = make_partial_multilabel(400, 30, 40, cardinality=3, r=2, random_state=0)
    tags = [[f"t{j}" for j in np.flatnonzero(row)] for row in data.candidates]
    with open(tmp_path / "many.csv", "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["name", "tags", "checked"])
        writer.writerows([f"row {i}", ";".join(own), int(i < 5)] for i, own in enumerate(tags))
    np.save(tmp_path / "x.npy", data.X)
    return tmp_path / "many.csv", tmp_path / "x.npy", data.X, tags


def test_very_many_tags(many, tmp_path, capsys):
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    table, features, X, tags = many
    written = {name: tmp_path / f"new-{name}" for name in ("copy.csv", "changes.csv", "page.html")}
    argv = ["clean", str(table), "--features", str(features), "--known-clean", "checked"]
    argv += [
        "--remove-below",
        "0.5",
        "-o",
        str(written["copy.csv"]),
        "--changes",
        str(written["changes.csv"]),
    ]
    assert main([*argv, "--report", str(written["page.html"])]) == 0
    out = capsys.readouterr().out
    assert "(label centroids, " in out
    assert "too many for Sieve" in out
    checked = np.arange(400) < 5
    expected = find_noisy_labels(X, tags, known_clean=checked).remove(below=0.5)
    assert expected.removed.any()
    assert not expected.removed[checked[expected.row]].any()
    with written["copy.csv"].open(newline="") as stream:
        copy = [row["tags"].split(";") for row in csv.DictReader(stream)]
    assert [set(own) for own in copy] == [
        set(own) for own in label_lists(expected.clean, expected.label_names)
    ]
    with written["changes.csv"].open(newline="") as stream:
        assert len(list(csv.DictReader(stream))) == expected.removed.sum()
    assert "row 3" in written["page.html"].read_text()


def test_a_parameter_of_sieve_asks_for_sieve(many, capsys):
    table, features, *_ = many
    argv = ["clean", str(table), "--features", str(features), "--json"]
    assert main([*argv, "--param", "max_iter=2"]) == 0
    assert json.loads(capsys.readouterr().out)["method"] == "Sieve"
    assert main([*argv, "--max-memory", "1e-6"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "label centroids"
    assert found["in_files"]


@pytest.mark.skipif(os.name != "posix", reason="signals are sent the POSIX way")
@pytest.mark.parametrize(
    ("sign", "word"),
    [("SIGTERM", "terminated"), ("SIGHUP", "terminated"), ("SIGINT", "interrupted")],
)
def test_a_signal_leaves_no_temporary_files(folder, scratch, tmp_path, sign, word):
    """The program sleeps while its features are in a temporary file."""
    out = tmp_path / "out.parquet"
    argv = ["clean", str(folder), "--features", "vector", "-o", str(out), *SCARCE, *PARAMS]
    argv += ["--fresh"]
    code = (
        "import signal, sys, time, schirn.app.workflow._table_cleaning as cleaning\n"
        # Under nohup, the program would rightly ignore this signal.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "def rank(*_, **options): (print('ready', flush=True), time.sleep(60))\n"
        "cleaning.find_noisy_labels = rank\n"
        "from schirn.app.cli import main\n"
        f"sys.exit(main({argv!r}))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "ready\n"
    assert list(scratch.iterdir())
    process.send_signal(getattr(signal, sign))
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + getattr(signal, sign)
    assert err.splitlines()[-1] == f"schirn: {word}"
    assert not list(scratch.iterdir())
    assert not out.exists()
