"""Copies of random tables differ in nothing but the intended tags."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables.random_tables import check_csv, check_jsonl

pytest.importorskip("pandas", reason="copies are read by pandas")
pytest.importorskip("polars", reason="copies are read by polars")


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_csv_comes_back_exactly(seed, tmp_path_factory):
    check_csv(tmp_path_factory.mktemp("t"), random.Random(seed))


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_json_lines_come_back_exactly(seed, tmp_path_factory):
    check_jsonl(tmp_path_factory.mktemp("t"), random.Random(seed))
