"""Copies of random tables differ in nothing but the intended tags."""

import random

import pytest
from app.tables.random_tables import check_csv, check_jsonl, check_parquet
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pandas", reason="copies are read by pandas")
pytest.importorskip("polars", reason="copies are read by polars")
pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")


@pytest.mark.parametrize("check", [check_csv, check_jsonl, check_parquet])
def test_a_table_comes_back_exactly(check, tmp_path):
    @settings(max_examples=150, deadline=None)
    @given(seed=st.integers(0, 2**32))
    def run(seed):
        check(tmp_path, random.Random(seed))

    run()


@pytest.mark.parametrize("size", [1, 7])
@pytest.mark.parametrize("check", [check_csv, check_jsonl])
def test_line_ends_and_characters_between_two_blocks(check, size, tmp_path, monkeypatch):
    """A text is read in blocks of bytes, which may end anywhere."""
    monkeypatch.setattr("schirn._text.CHUNK", size)
    for seed in range(40):
        check(tmp_path, random.Random(seed))
