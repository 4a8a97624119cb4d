"""Copies of tables in blocks of rows are those of whole tables."""

import io
import json
import random
import warnings
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables.random_tables import random_csv, random_jsonl, text_of

from schirn.exceptions import DataError
from schirn.tables.files import open_table, write_copy
from schirn.tables.stream import RowStream, unpacked


def copied(path, target, options, columns):
    """Return the copy of a file in blocks, with the next cells of the new columns."""
    with path.open("rb") as file:
        rows = RowStream(unpacked(file), path, path.suffix, **options)
        cells = {name: iter(values) for name, values in columns.items()}
        out = io.BytesIO()
        rows.copy(
            out,
            target,
            lambda block: {name: list(islice(new, block.n_rows)) for name, new in cells.items()},
        )
    return out.getvalue(), rows


@pytest.fixture(params=[1, 2, 4096])
def block_rows(request, monkeypatch):
    monkeypatch.setattr(RowStream.blocks, "__defaults__", (request.param,))


def test_csv_in_blocks_comes_back_exactly(tmp_path, block_rows):
    @settings(max_examples=150, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def run(seed):
        chance = random.Random(seed)
        content, options = random_csv(chance)
        options.pop("separator")
        if options["encoding"] == "utf-16":
            options["encoding"], content = "utf-8", content.decode("utf-16").encode()
        source, copy, lines = (tmp_path / name for name in ("in.csv", "out.csv", "out.jsonl"))
        source.write_bytes(content)
        table = open_table(source, **options)
        codec = options["encoding"]
        texts = [text_of(chance).encode(codec, "ignore").decode(codec) for _ in range(table.n_rows)]
        for path, new in ((copy, texts), (lines, [text.lstrip("'") for text in texts])):
            write_copy(str(path), table, {}, {"more": new})
            blocks, rows = copied(source, path, options, {"more": new})
            assert blocks == path.read_bytes()
            assert rows.n_rows == table.n_rows

    run()


def test_jsonl_in_blocks_comes_back_exactly(tmp_path, block_rows):
    @settings(max_examples=150, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def run(seed):
        chance = random.Random(seed)
        content, _ = random_jsonl(chance)
        source, copy = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
        source.write_bytes(content)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = open_table(source)
            new = {"more": [[text_of(chance)] for _ in range(table.n_rows)]}
            write_copy(str(copy), table, {}, new)
            blocks, _ = copied(source, copy, {}, new)
        # Which new characters are escapes depends on the rest of a block.
        for got, want in zip(blocks.split(b"\n"), copy.read_bytes().split(b"\n"), strict=True):
            assert got.partition(b'"more"')[0] == want.partition(b'"more"')[0]
            if want.strip():
                assert json.loads(got)["more"] == json.loads(want)["more"]

    run()


def test_json_lines_of_a_csv_table_are_utf_8_without_apostrophes(tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes("id,text\n1,é\n".encode("latin-1"))
    options = {"encoding": "latin-1"}
    content, _ = copied(source, tmp_path / "out.jsonl", options, {"tags": ["'=1"]})
    assert content == '{"id": "1", "text": "é", "tags": "=1"}\n'.encode()
    source.write_bytes(b"\xef\xbb\xbfid\n1\n")
    content, _ = copied(source, tmp_path / "out.jsonl", {}, {"tags": ["a"]})
    assert content == b'{"id": "1", "tags": "a"}\n'


def test_a_tag_that_the_encoding_lacks(tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes("id,text\n1,é\n".encode("latin-1"))
    with pytest.raises(DataError, match="lacks the character 'ה'"):
        copied(source, tmp_path / "out.csv", {"encoding": "latin-1"}, {"tags": ["ה"]})
