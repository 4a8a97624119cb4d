"""Tables of every format through `schirn clean`: what is kept, and what is refused."""

import base64
import gzip
import json

import numpy as np
import pytest
from app.cli.clean_helpers import make_items, read_csv, refused, write_csv

from schirn.app.cli import main
from schirn.app.tables._files import open_table
from schirn.exceptions import DataError
from schirn.program.page import png_uri


@pytest.fixture(scope="module")
def items():
    return make_items()


@pytest.fixture(scope="module")
def records(items):
    return [
        {"id": i, "description": text, "tags": tags, "vector": vector(text)}
        for i, (text, tags, _) in enumerate(items)
    ]


def vector(text):
    """Which of the words that go with the four tags are in a text."""
    words = "sand wave shore palm bark tail leash puppy orange dusk horizon glow street tower"
    return [float(word in text.split()) for word in words.split()]


def clean(*argv):
    """The quickest method: what is looked at here are the tables."""
    return main(["clean", *map(str, argv), "--method", "CandidateRidge"])


def write_jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return str(path)


def read_jsonl(path, encoding="utf-8"):
    return [json.loads(line) for line in path.read_text(encoding).splitlines()]


def test_embeddings_in_a_column_of_lists(records, tmp_path, capsys):
    """The same numbers in a column and in a file give the same verdicts."""
    source = write_jsonl(tmp_path / "items.jsonl", records)
    np.save(tmp_path / "v.npy", np.array([record["vector"] for record in records]))
    copies = []
    for features in ("vector", str(tmp_path / "v.npy")):
        out = tmp_path / "c.jsonl"
        assert clean(source, "--features", features, "-o", out, "--remove-below", 0.5) == 0
        copies.append(read_jsonl(out))
    assert copies[0] == copies[1]
    assert sum(len(copy["tags_removed"]) for copy in copies[0]) > 10


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ([1.0], "the column 'vector' must hold lists of numbers"),
        ("1 2 3", "the column 'vector' must hold lists of numbers"),
        (["a"] * 14, "the column 'vector' must hold lists of numbers"),
        ([{}] * 14, "the column 'vector' must hold lists of numbers"),
    ],
)
def test_a_column_that_holds_no_embeddings(records, tmp_path, capsys, cell, words):
    spoiled = [*records[:-1], {**records[-1], "vector": cell}]
    source = write_jsonl(tmp_path / "items.jsonl", spoiled)
    assert words in refused(capsys, "clean", source, "--features", "vector")


@pytest.mark.parametrize(
    "matrix",
    [np.ones((159, 3)), np.ones(160), np.full((160, 2), "a")],
    ids=["short", "flat", "text"],
)
def test_a_file_of_embeddings_that_does_not_fit(items, tmp_path, capsys, matrix):
    source = write_csv(tmp_path / "items.csv", items)
    np.save(tmp_path / "v.npy", matrix)
    sentence = refused(capsys, "clean", source, "--features", str(tmp_path / "v.npy"))
    assert f"of shape {matrix.shape}, but {source} has 160 rows" in sentence


def test_embeddings_over_the_limit(items, tmp_path, capsys, monkeypatch):
    source = write_csv(tmp_path / "items.csv", items[:10])
    np.save(tmp_path / "v.npy", np.ones((10, 1000)))
    monkeypatch.setenv("SCHIRN_MAX_BYTES", "20000")
    sentence = refused(capsys, "clean", source, "--features", str(tmp_path / "v.npy"))
    assert "v.npy: has 80,128 bytes" in sentence


def test_embeddings_without_a_number(records, tmp_path, capsys):
    empty = [{**record, "vector": []} for record in records]
    source = write_jsonl(tmp_path / "items.jsonl", empty)
    out = str(tmp_path / "c.jsonl")
    err = refused(capsys, "clean", source, "--features", "vector", "-o", out)
    assert "the same length and not empty" in err
    np.save(tmp_path / "v.npy", np.empty((len(records), 0)))
    argv = ["clean", source, "--features", str(tmp_path / "v.npy"), "-o", out]
    assert "v.npy: float64 of shape (160, 0)" in refused(capsys, *argv)


def test_folders_that_cannot_be_used(records, tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    write_jsonl(folder / "a.jsonl", records)
    assert "the folder holds no .parquet file" in refused(capsys, "clean", str(folder))
    argv = ["clean", str(folder), "--text", "description", "-o", str(folder / "c.jsonl")]
    assert "is inside the input folder; choose another path" in refused(capsys, *argv)
    assert [path.name for path in folder.iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(("encoding", "odd"), [("latin-1", "€ 5"), ("utf-8", "half \ud83d")])
def test_what_an_encoding_lacks_stays_escaped(records, tmp_path, encoding, odd):
    """JSON can name characters that the encoding of the file cannot write."""
    source = tmp_path / "items.jsonl"
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    lines[3] = json.dumps({**records[3], "note": odd})
    lines[4] = json.dumps({**records[4], "note": "é"}, ensure_ascii=False)
    source.write_text("\n".join(lines), encoding)
    out = tmp_path / "c.jsonl"
    assert clean(source, "--text", "description", "--encoding", encoding, "-o", out) == 0
    copies = read_jsonl(out, encoding)
    assert copies[3]["note"] == odd
    assert copies[4]["note"] == "é"
    assert "é".encode(encoding) in out.read_bytes()


def test_categories_of_a_parquet_file(items, tmp_path):
    pandas = pytest.importorskip("pandas", reason="Parquet files need pandas")
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    plain = write_csv(tmp_path / "items.csv", items)
    frame = pandas.read_csv(plain, dtype=str).astype({"tags": "category"})
    frame.to_parquet(tmp_path / "items.parquet")
    for suffix in (".csv", ".parquet"):
        source, out = tmp_path / f"items{suffix}", tmp_path / f"c{suffix}"
        assert clean(source, "--text", "description", "-o", out) == 0
    copy = pandas.read_parquet(tmp_path / "c.parquet")
    expected = read_csv(tmp_path / "c.csv")
    assert copy["tags"].tolist() == [row["tags"] for row in expected]
    assert copy["tags_removed"].tolist() == [row["tags_removed"] for row in expected]


@pytest.mark.parametrize("name", ["t.csv", "t.parquet", "t.xlsx"])
def test_a_table_without_rows_is_tagged_but_not_cleaned(items, tmp_path, capsys, name):
    pandas = pytest.importorskip("pandas", reason="the tables are made with pandas")
    pytest.importorskip("openpyxl" if name == "t.xlsx" else "pyarrow", reason="formats need them")
    empty = pandas.DataFrame({"tags": [], "description": []}, dtype=str)
    suffix = name[1:]
    writers = {".csv": empty.to_csv, ".parquet": empty.to_parquet, ".xlsx": empty.to_excel}
    source, out = tmp_path / name, tmp_path / f"c{suffix}"
    writers[suffix](source, index=False)
    assert clean(source, "--text", "description", "-o", out) == 2
    assert "the table has no rows" in capsys.readouterr().err
    assert not out.exists()
    model, tagged = str(tmp_path / "m.schirn"), tmp_path / f"p{suffix}"
    whole = write_csv(tmp_path / "items.csv", items)
    assert main(["fit", whole, "--text", "description", "-o", model]) == 0
    assert main(["predict", model, str(source), "-o", str(tagged)]) == 0
    assert open_table(tagged, empty=True).columns[2:] == ["tags_predicted", "tags_probability"]


def test_empty_lines_are_no_rows(tmp_path):
    (tmp_path / "t.csv").write_text("\ntags,a\n\nx,1\n\n\ny,2\n")
    (tmp_path / "t.jsonl").write_text('\n{"tags": "x", "a": 1}\n\n{"tags": "y", "a": 2}\n')
    for name in ("t.csv", "t.jsonl"):
        table = open_table(str(tmp_path / name), encoding="utf-8", delimiter=None)
        assert table.columns == ["tags", "a"]
        assert table.column("tags") == ["x", "y"]


@pytest.mark.parametrize("name", ["items.csv", "items.jsonl"])
def test_packed_tables(items, records, tmp_path, name):
    """A packed table gives the packed copy of what the plain one gives."""
    plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
    if name == "items.csv":
        write_csv(plain, items)
    else:
        write_jsonl(plain, records)
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for source in (plain, packed):
        assert (
            clean(source, "--text", "description", "-o", source.with_stem(f"c_{source.stem}")) == 0
        )
    copy = gzip.decompress((tmp_path / f"c_{name}.gz").read_bytes())
    assert copy == (tmp_path / f"c_{name}").read_bytes()


@pytest.mark.parametrize("name", ["c.tsv", "c.csv.gz", "c.jsonl", "c.json", "c.parquet", "c.xlsx"])
def test_a_copy_of_another_format(items, records, tmp_path, name):
    """The copy says the same in every format, whatever the format of the table."""
    for module in {"c.parquet": ["pyarrow"], "c.xlsx": ["openpyxl"]}.get(name, []):
        pytest.importorskip(module, reason="the format needs it")
    source, out = write_csv(tmp_path / "items.csv", items), tmp_path / name
    plain = tmp_path / "plain.csv"
    for path in (plain, out):
        assert clean(source, "--text", "description", "--id", "id", "-o", path) == 0
    expected, copy = open_table(plain), open_table(out)
    assert copy.columns == expected.columns
    for column in expected.columns:
        cells = [
            "" if cell is None else cell if isinstance(cell, str) else str(cell)
            for cell in copy.column(column)
        ]
        assert cells == expected.column(column)
    lines = write_jsonl(tmp_path / "items.jsonl", records)
    assert clean(lines, "--text", "description", "-o", out) == 0
    assert open_table(out).n_rows == len(records)


def test_tables_that_are_not_there_or_not_known(tmp_path, capsys):
    assert "there is no such file" in refused(capsys, "clean", str(tmp_path / "gone.csv"))
    (tmp_path / "t.ods").touch()
    assert "a table must be .csv, .tsv, .jsonl" in refused(capsys, "clean", str(tmp_path / "t.ods"))


def test_other_delimiters(items, tmp_path, capsys):
    comma = write_csv(tmp_path / "items.csv", items)
    outs = []
    for name, delimiter, options in (
        ("items.csv", ",", []),
        ("bars.csv", "|", ["--delimiter", "|"]),
        ("items.tsv", "\t", []),
    ):
        source = write_csv(tmp_path / name, items, delimiter=delimiter)
        out = tmp_path / f"c_{name}"
        assert clean(source, "--text", "description", *options, "-o", out) == 0
        outs.append(read_csv(out, delimiter=delimiter))
    assert outs[0] == outs[1] == outs[2]
    capsys.readouterr()
    for wrong in (";;", "", "\n", '"'):
        sentence = refused(capsys, "clean", comma, "--text", "description", "--delimiter", wrong)
        assert f"--delimiter: must be one character, not {wrong!r}" in sentence


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-o", "PAGE.html", "--report", "PAGE.html"], "is given for both the copy and the report"),
        (["--remove-below", "half"], "must be a number from 0 to 1, not 'half'"),
    ],
)
def test_options_that_cannot_be_used(items, tmp_path, monkeypatch, capsys, options, words):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "items.csv", items)
    assert words in refused(capsys, "clean", "items.csv", "--text", "description", *options)
    assert [path.name for path in tmp_path.iterdir()] == ["items.csv"]


def test_images_of_the_table_are_in_the_report(items, tmp_path):
    """Paths in the table are meant from where the table is."""
    pytest.importorskip("jinja2", reason="the report needs jinja2")
    picture = png_uri(np.eye(8))
    (tmp_path / "pictures").mkdir()
    raw = base64.b64decode(picture.partition(",")[2])
    (tmp_path / "pictures" / "dog.png").write_bytes(raw)
    source = write_csv(tmp_path / "items.csv", items)
    with open(source, encoding="utf-8") as stream:
        header, *lines = stream.read().splitlines()
    pictures = ["pictures/dog.png", "", "pictures/gone.png"]
    rows = [f"{line},{pictures[i % 3]}" for i, line in enumerate(lines)]
    (tmp_path / "items.csv").write_text("\n".join([f"{header},file", *rows]), "utf-8")
    page = tmp_path / "r.html"
    assert clean(source, "--text", "description", "--image", "file", "--report", page) == 0
    text = page.read_text("utf-8")
    assert text.count(picture) == text.count("data:image/") > 0


def test_the_table_of_a_broken_parquet_file_is_named(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet files need pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(DataError, match=r"t\.parquet: not a readable Parquet file"):
        open_table(str(tmp_path / "t.parquet"), encoding="utf-8", delimiter=None)
