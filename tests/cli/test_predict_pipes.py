"""predict with stdin and stdout."""

import csv
import gzip
import io
import sys
from functools import partial

import numpy as np
import pytest
from cli.clean_helpers import refused

import schirn
from schirn.cli import main
from schirn.features import TagPipeline

KINDS = ["pan", "chair", "lamp"]


@pytest.fixture(scope="module")
def tagger():
    titles = [f"a {colour} {kind}" for kind in KINDS for colour in ("red", "blue", "oak")] * 5
    return TagPipeline(text="title").fit({"title": titles}, [[t.split()[2]] for t in titles])


@pytest.fixture
def model(tagger, tmp_path):
    path = str(tmp_path / "tagger.schirn")
    schirn.save(tagger, path, notes={"labels": "tags"})
    return path


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    colours = ["red", "blue;green", 'the "best"', "two\nlines", "", "é", "=1+1"]
    return [
        {"id": str(i), "title": f"{colours[i % 7]} {KINDS[int(rng.integers(3))]}", "n": i}
        for i in range(50)
    ]


@pytest.fixture
def stdin(monkeypatch):
    def give(content):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content))))

    return give


def csv_text(rows, **options):
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), **options)
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def test_stdin_and_stdout(model, rows, tagger, stdin, capsysbinary):
    stdin(csv_text(rows).encode())
    assert main(["predict", model, "-", "-o", "-"]) == 0
    captured = capsysbinary.readouterr()
    assert captured.err == b""
    tagged = list(csv.DictReader(io.StringIO(captured.out.decode(), newline="")))
    assert [row["title"] for row in tagged] == [row["title"] for row in rows]
    predicted = [";".join(tags) for tags in tagger.predict_labels(rows)]
    assert [row["tags_predicted"] for row in tagged] == predicted
    stdin(gzip.compress(csv_text(rows).encode()))
    assert main(["predict", model, "-"]) == 0
    lines = capsysbinary.readouterr().out.decode().splitlines()
    assert lines[0] == "row,labels"
    assert [line.split(",")[1] for line in lines[1:]] == predicted
    assert [line.split(",")[0] for line in lines[1:]] == [str(i) for i in range(50)]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "xlsx"])
def test_any_format_in_and_out(model, rows, tagger, tmp_path, stdin, capsysbinary, kind):
    for name in ("pandas", "pyarrow", "openpyxl"):
        pytest.importorskip(name)
    import pandas as pd

    from schirn.tables.files import open_table

    table, frame = tmp_path / f"new.{kind}", pd.DataFrame(rows[:6])
    write = {
        "csv": partial(frame.to_csv, index=False),
        "tsv": partial(frame.to_csv, index=False, sep="\t"),
        "jsonl": partial(frame.to_json, orient="records", lines=True),
        "json": partial(frame.to_json, orient="records"),
        "parquet": frame.to_parquet,
        "xlsx": partial(frame.to_excel, index=False),
    }
    write[kind](table)
    stdin(table.read_bytes())
    assert main(["predict", model, "-", "-o", "-"]) == 0
    copy = tmp_path / f"copy.{kind}"
    copy.write_bytes(capsysbinary.readouterr().out)
    cells, tags = open_table(copy).column("tags_predicted"), tagger.predict_labels(rows[:6])
    assert [each if isinstance(each, list) else each.split(";") for each in cells] == tags


def test_a_table_without_rows(model, stdin, capsysbinary):
    stdin(b"id,title\r\n")
    assert main(["predict", model, "-", "-o", "-"]) == 0
    assert capsysbinary.readouterr().out == b"id,title,tags_predicted,tags_probability\r\n"


def test_mistakes_in_a_pipe(model, stdin, capsys, tmp_path):
    stdin(b"name\nred pan\n")
    assert "there is no column 'title'" in refused(capsys, "predict", model, "-", "-o", "-")
    stdin(b"title,n\nred pan\n")
    assert "stdin.csv: line 2 has 1 cells" in refused(capsys, "predict", model, "-")
    stdin(b'title\n"red pan\n')
    assert "is opened but never closed" in refused(capsys, "predict", model, "-")
    stdin(b"title\nred\xff pan\n")
    assert "stdin.csv: line 2 is not utf-8 text (byte 0xff)" in refused(
        capsys, "predict", model, "-"
    )
    stdin(b"title\nred\xff pan\n")
    assert main(["predict", model, "-", "--encoding", "latin-1"]) == 0
    capsys.readouterr()
    stdin(b'{"title": "red pan"}\n[1]\n')
    assert "line 2 is not a JSON object" in refused(capsys, "predict", model, "-")
    stdin(gzip.compress(b"title\nred pan\n" * 100)[:40])
    assert "stdin: not a readable table" in refused(capsys, "predict", model, "-")
    stdin(b"title,tags_predicted\nred pan,pan\n")
    assert "already has a column" in refused(capsys, "predict", model, "-", "-o", "-")
    # A file appears only if all of its rows were predicted.
    bad = tmp_path / "bad.csv"
    bad.write_text("title\n" + "red pan\n" * 9000 + "a,b\n")
    assert "line 9002" in refused(capsys, "predict", model, str(bad), "-o", str(tmp_path / "o.csv"))
    assert not (tmp_path / "o.csv").exists()
