"""Copies of tables in blocks of rows are those of whole tables."""

import io
import json
import random
import warnings
from itertools import islice

import pytest
from app.tables.random_tables import random_csv, random_jsonl, text_of
from hypothesis import given, settings
from hypothesis import strategies as st

from schirn.app.tables._files import open_table, write_copy
from schirn.app.tables._stream import RowStream, unpacked
from schirn.exceptions import DataError


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
        source, copy = tmp_path / "in.csv", tmp_path / "out.csv"
        source.write_bytes(content)
        table = open_table(source, **options)
        codec = options["encoding"]
        texts = [text_of(chance).encode(codec, "ignore").decode(codec) for _ in range(table.n_rows)]
        write_copy(str(copy), table, {}, {"more": texts})
        blocks, rows = copied(source, copy, options, {"more": texts})
        assert blocks == copy.read_bytes()
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


def test_a_tag_that_the_encoding_lacks(tmp_path):
    source = tmp_path / "in.csv"
    source.write_bytes("id,text\n1,é\n".encode("latin-1"))
    with pytest.raises(DataError, match="lacks the character 'ה'"):
        copied(source, tmp_path / "out.csv", {"encoding": "latin-1"}, {"tags": ["ה"]})
