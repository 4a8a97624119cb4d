"""predict in blocks of rows: files, pipes, memory, and copies that are exact."""

import csv
import gzip
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from app.cli.clean_helpers import refused

import schirn
from schirn.app.cli import _predict as command
from schirn.app.cli import main
from schirn.app.tables import _stream as stream
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
def small_blocks(monkeypatch):
    monkeypatch.setattr(stream.RowStream.blocks, "__defaults__", (7,))


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


def whole(monkeypatch):
    """Let the program read tables as a whole."""
    monkeypatch.setattr(command, "_row_stream", lambda *_: None)


@pytest.mark.parametrize(
    ("suffix", "options", "mark"),
    [
        (".csv", {}, ""),
        (".csv", {"quoting": csv.QUOTE_ALL, "lineterminator": "\n"}, "\ufeff"),
        (".csv.gz", {"quoting": csv.QUOTE_ALL, "lineterminator": "\r"}, ""),
        (".tsv", {"delimiter": "\t"}, ""),
        (".jsonl", None, ""),
    ],
)
def test_a_copy_in_blocks_is_the_copy_of_the_whole_table(
    model, rows, tmp_path, monkeypatch, small_blocks, suffix, options, mark
):
    if options is None:
        # With and without spaces, escapes and empty lines.
        lines = [json.dumps(row, ensure_ascii=i % 2 == 0) for i, row in enumerate(rows)]
        text = "\n\n".join(lines)
    else:
        text = mark + csv_text(rows, **options)
    path, content = tmp_path / f"new{suffix}", text.encode()
    path.write_bytes(gzip.compress(content) if suffix.endswith(".gz") else content)
    copies = []
    for name in ("blocks", "whole"):
        out = tmp_path / f"{name}{suffix}"
        assert main(["predict", model, str(path), "--proba", "-o", str(out)]) == 0
        raw = out.read_bytes()
        copies.append(gzip.decompress(raw) if suffix.endswith(".gz") else raw)
        whole(monkeypatch)
    if suffix == ".jsonl":
        parsed = [[json.loads(li) for li in c.splitlines() if li.strip()] for c in copies]
        assert parsed[0] == parsed[1]
        before = content.decode().split("\n")
        for old, new in zip(before, copies[0].decode().split("\n"), strict=True):
            assert new.startswith(old[:-1])
    else:
        assert copies[0] == copies[1]


def test_stdin_and_stdout(model, rows, tagger, stdin, small_blocks, capsysbinary):
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
    assert [line.split(",")[0] for line in lines[1:]] == [str(i) for i in range(1, 51)]


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "json", "parquet", "xlsx"])
def test_any_format_in_and_out(model, rows, tagger, tmp_path, stdin, capsysbinary, kind):
    for name in ("pandas", "pyarrow", "openpyxl"):
        pytest.importorskip(name)
    from schirn.app.tables._files import open_table, write_copy

    source = tmp_path / "new.csv"
    source.write_text(csv_text(rows[:10]))
    table = tmp_path / f"new.{kind}"
    if kind != "csv":
        write_copy(str(table), open_table(source), {}, {})
    stdin(table.read_bytes())
    assert main(["predict", model, "-", "-o", "-"]) == 0
    copy = tmp_path / f"copy.{kind}"
    copy.write_bytes(capsysbinary.readouterr().out)
    cells, tags = open_table(copy).column("tags_predicted"), tagger.predict_labels(rows[:10])
    assert [each if isinstance(each, list) else each.split(";") for each in cells] == tags


def test_a_table_without_rows(model, stdin, capsysbinary):
    stdin(b"id,title\r\n")
    assert main(["predict", model, "-", "-o", "-"]) == 0
    assert capsysbinary.readouterr().out == b"id,title,tags_predicted,tags_probability\r\n"


def test_mistakes_in_a_pipe(model, stdin, capsys, tmp_path):
    stdin(b"name\nred pan\n")
    assert "there is no column 'title'" in refused(capsys, "predict", model, "-", "-o", "-")
    stdin(b"title,n\nred pan\n")
    assert "stdin: line 2 has 1 cells" in refused(capsys, "predict", model, "-")
    stdin(b'title\n"red pan\n')
    assert "is opened but never closed" in refused(capsys, "predict", model, "-")
    stdin(b"title\nred\xff pan\n")
    assert "stdin: line 2 is not utf-8 text (byte 0xff)" in refused(capsys, "predict", model, "-")
    stdin(b"title\nred\xff pan\n")
    assert main(["predict", model, "-", "--encoding", "latin-1"]) == 0
    capsys.readouterr()
    stdin(b'{"title": "red pan"}\n[1]\n')
    assert "line 2 is not a JSON object" in refused(capsys, "predict", model, "-")
    stdin(b"title,tags_predicted\nred pan,pan\n")
    assert "already has a column" in refused(capsys, "predict", model, "-", "-o", "-")
    # A file appears only if all of its rows were predicted.
    bad = tmp_path / "bad.csv"
    bad.write_text("title\n" + "red pan\n" * 9000 + "a,b\n")
    assert "line 9002" in refused(capsys, "predict", model, str(bad), "-o", str(tmp_path / "o.csv"))
    assert not (tmp_path / "o.csv").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_the_longest_table_needs_no_more_memory(model, tmp_path):
    """Peak memory, in kB, of the program on 4,000 and on 20,000 rows."""
    code = "import re, sys\nfrom schirn.app.cli import main\nassert main(sys.argv[1:]) == 0\n"
    code += "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])"
    peaks = []
    for n in (4_000, 20_000):
        table = tmp_path / f"{n}.csv"
        table.write_text("title,more\n" + f"a red pan,{'x' * 1600}\n" * n)
        argv = ["predict", model, str(table), "-o", str(tmp_path / "out.csv"), "--quiet"]
        done = subprocess.run(
            [sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True
        )
        peaks.append(int(done.stdout))
    assert peaks[1] < peaks[0] + 15_000
