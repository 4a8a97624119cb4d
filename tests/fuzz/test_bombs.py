"""Small files that would get large in memory are refused by their size, before it is taken."""

import gzip
import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from functools import partial

import numpy as np
import pytest

import schirn
from schirn.app.tables import open_table
from schirn.app.workflow._columns import matrix_for
from schirn.datasets import load, make_partial_multilabel
from schirn.exceptions import DataError, InputError, ModelFileError
from schirn.scale import RowFile

MEGABYTE = 1 << 20
VARIABLE = "SCHIRN_MAX_BYTES"


@pytest.fixture
def limit(monkeypatch):
    """A small limit, set as a user would."""
    monkeypatch.setenv(VARIABLE, "2M")
    return 2 * MEGABYTE


def refused(path, *words, read=load, error=DataError):
    """The file is refused in one sentence, with little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(error) as caught:
            read(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    for word in words:
        assert word in text
    assert peak < 8 * MEGABYTE, f"{peak:,} bytes were taken"


def test_limit(monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    path = tmp_path / "x.csv"
    path.write_text("x,tags\n" + "1,dog\n" * 500)
    size = path.stat().st_size
    assert load(path).n_samples == 500
    refused(path, f"has {size:,} bytes, more than max_bytes=7;", read=partial(load, max_bytes=7))
    for text, wanted in (("1000", 1000), (" 2k ", 2048)):
        monkeypatch.setenv(VARIABLE, text)
        refused(path, f"more than max_bytes={wanted:,};")
        assert load(path, max_bytes=size).n_samples == 500
    monkeypatch.setenv(VARIABLE, "16G")
    assert load(path).n_samples == 500
    for text in ("much", "-1", "1.5G", "9" * 40, "²"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(InputError, match=VARIABLE):
            load(path)


def test_npz(limit, tmp_path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, X=np.zeros((5000, 1000)), Y=np.zeros((5000, 1)))
    assert path.stat().st_size < limit // 10
    refused(path, "40,0", "max_bytes=2,097,152", VARIABLE)
    assert load(path, max_bytes=8 * 1024**3).n_samples == 5000


def test_npz_with_thousands_of_entries(tmp_path):
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(1001):
            archive.writestr(f"{k}.npy", b"")
    refused(path, "1,001 entries")


@pytest.mark.parametrize("shape", ["(-1,)", "(-2, -3)", "(10**18,)", "(1000000000000000000, 2)"])
def test_absurd_shapes(tmp_path, shape):
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    content = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(48)
    (tmp_path / "x.npy").write_bytes(content)
    for read in (lambda path: matrix_for(str(path), 6, "t.csv"), RowFile):
        refused(tmp_path / "x.npy", read=read)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", content)
    refused(tmp_path / "x.npz", "X.npy")


def test_pickled_arrays_are_not_loaded(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, X=np.array([[{}]], dtype=object), Y=np.ones((1, 1)))
    refused(path, "Python objects, which are never loaded")


@pytest.mark.parametrize("name", ["x.csv.gz", "x.jsonl.gz", "x.arff.gz", "x.svm.gz"])
def test_gzip(limit, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(bytes(50 * MEGABYTE)))
    assert path.stat().st_size < limit
    refused(path, "unpacks to at least", VARIABLE)


def test_gzip_of_several_parts(limit, tmp_path):
    """Parts in a row count together."""
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress(b" " * MEGABYTE) * 3)
    refused(path, "unpacks to at least")


def test_packed_tables_are_read_like_others(tmp_path):
    pytest.importorskip("pandas", reason="tables need pandas")
    table = b"x,tags\n1,dog;cat\n2,dog\n"
    (tmp_path / "pets.csv").write_bytes(table)
    (tmp_path / "pets.csv.gz").write_bytes(gzip.compress(table))
    plain, packed = (load(tmp_path / name) for name in ("pets.csv", "pets.csv.gz"))
    assert packed.name == plain.name == "pets"
    assert packed.label_names == ["cat", "dog"]
    np.testing.assert_array_equal(packed.candidates, plain.candidates)
    with pytest.raises(DataError, match=r"no reader for '\.npz\.gz'"):
        load(tmp_path / "x.npz.gz")


def test_packed_arff_finds_its_labels(tmp_path):
    text = b"@relation r\n@attribute a real\n@attribute dog {0,1}\n@data\n1,0\n2,1\n"
    (tmp_path / "x.arff.gz").write_bytes(gzip.compress(text))
    (tmp_path / "x.xml").write_bytes(b'<labels><label name="dog"/></labels>')
    assert load(tmp_path / "x.arff.gz").label_names == ["dog"]


def test_mat_with_a_packed_sparse_matrix(limit, tmp_path):
    """Its shape is small; what it claims to store is not."""
    flags, shape = struct.pack("<4I", 6, 8, 5, 1), struct.pack("<4I", 5, 8, 2, 3)
    name = struct.pack("<HH4s", 1, 4, b"data")
    rows = struct.pack("<II", 5, 20 * MEGABYTE) + bytes(20 * MEGABYTE)
    body = flags + shape + name + rows
    packed = zlib.compress(struct.pack("<II", 14, len(body)) + body)
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM"
    path = tmp_path / "x.mat"
    path.write_bytes(head + struct.pack("<II", 15, len(packed)) + packed)
    assert path.stat().st_size < limit
    refused(path, "not a readable MATLAB file")


def test_parquet_with_one_text_in_every_row(limit, tmp_path):
    arrow = pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    from pyarrow import parquet

    texts = arrow.DictionaryArray.from_arrays(np.zeros(5000, np.int32), ["x" * 2000])
    table = arrow.table({"x": np.arange(5000.0), "tags": texts})
    path = tmp_path / "x.parquet"
    parquet.write_table(table, path, store_schema=False)
    assert path.stat().st_size < limit // 10
    refused(path, "unpacks to at least", VARIABLE)


def test_sparse_arff_rows_that_are_full(limit, tmp_path):
    head = "".join(f"@attribute a{k} {{1,0}}\n" for k in range(500))
    path = tmp_path / "x.arff"
    path.write_text("@relation 'r -C 1'\n" + head + "@data\n" + "{}\n" * 1000)
    refused(path, "1,000 rows of 500 values")


def test_labels_out_of_nothing(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("2 3 99999999999999\n0 1:1\n1 1:1\n")
    refused(path, "99,999,999,999,999 labels", VARIABLE)


def test_models(limit, tmp_path):
    data = make_partial_multilabel(n_samples=30, n_features=3, n_labels=3, r=1, random_state=0)
    model = schirn.CandidateRidge().fit(data.X, data.candidates)
    path = tmp_path / "model"
    schirn.save(model, path)
    assert schirn.load(path).predict(data.X).shape == (30, 3)
    model.extra_ = np.zeros(MEGABYTE)
    schirn.save(model, path)
    refused(path, "unpacks to 8,", VARIABLE, read=schirn.load, error=ModelFileError)
    del model.extra_
    schirn.save(model, path, notes={"long": "x" * MEGABYTE})
    refused(path, "a header of 1,0", VARIABLE, read=schirn.load, error=ModelFileError)


def test_a_model_with_a_hundred_thousand_members(tmp_path):
    path, buffer = tmp_path / "model", io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("header.json", json.dumps({"version": 1}))
        info = archive.infolist()[0]
    archive.filelist = [info] * 100_001
    path.write_bytes(buffer.getvalue())
    with zipfile.ZipFile(path, "a") as archive:
        archive.filelist += [info] * 100_001
        archive._didModify = True
    with pytest.raises(ModelFileError, match="more than 100,000 members"):
        schirn.load(path)


def sheet(path, *rows):
    """Write a workbook whose first sheet holds these rows of XML."""
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    openpyxl.Workbook().save(path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    head, _, tail = parts[name].partition(b"<sheetData")
    tail = tail.partition(b">")[2]
    parts[name] = head + b"<sheetData>" + "".join(rows).encode() + b"</sheetData>" + tail
    parts[name] = parts[name].replace(b"</sheetData></sheetData>", b"</sheetData>")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in parts.items():
            archive.writestr(part, content)


HEAD = '<row r="1"><c r="A1" t="str"><v>tags</v></c></row>'


def test_workbook_with_a_cell_far_from_all_others(tmp_path):
    path = tmp_path / "x.xlsx"
    sheet(path, HEAD, '<row r="20000"><c r="XFD20000"><v>1</v></c></row>')
    refused(path, "20,000 rows of 16,384 columns", "only 2 cells", read=open_table)
    wide = (f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(2, 700))
    sheet(path, HEAD, *wide)
    with pytest.raises(DataError, match=r"only 6\d\d cells that hold something"):
        open_table(path)


@pytest.mark.parametrize("place", ["A99999999999", "XFE2", "ZZZZ2"])
def test_workbook_with_a_cell_beyond_all_limits(tmp_path, place):
    path = tmp_path / "x.xlsx"
    row = "".join(filter(str.isdigit, place))
    sheet(path, HEAD, f'<row r="{row}"><c r="{place}"><v>1</v></c></row>')
    with pytest.raises(DataError, match=r"beyond row 1,048,576 or column XFD|not a valid column"):
        open_table(path)


def test_workbook_with_formatted_empty_cells_is_read(tmp_path):
    path = tmp_path / "x.xlsx"
    rows = (f'<row r="{i}"><c r="A{i}"><v>1</v></c><c r="XFD{i}" s="0"/></row>' for i in (2, 3))
    sheet(path, HEAD, *rows, '<row r="9000"><c r="XFD9000" s="0"/></row>')
    table = open_table(path)
    assert (table.columns, table.n_rows) == (["tags"], 2)
