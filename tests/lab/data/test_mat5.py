"""Kinds of variables, and damaged ones, which SciPy may not survive."""

import struct

import numpy as np
import pytest
from scipy import io, sparse

from schirn.datasets import read_mat
from schirn.exceptions import DataError

LABELS = np.array([[1, 0], [0, 1], [1, 1]])


def numbers(dtype):
    return (
        np.arange(12).reshape(3, 4) % 2 if dtype == "?" else np.arange(12).reshape(3, 4)
    ).astype(dtype)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i1", "u8", "?"])
def test_dense(tmp_path, dtype, packed):
    path = tmp_path / "x.mat"
    io.savemat(path, {"data": numbers(dtype), "gt": LABELS}, do_compression=packed)
    np.testing.assert_array_equal(read_mat(path).X, numbers(dtype))


@pytest.mark.parametrize("dtype", ["f8", "?"])
def test_sparse(tmp_path, dtype):
    path = tmp_path / "x.mat"
    matrix = sparse.random(3, 7, 0.5, random_state=0).tocsc().astype(dtype)
    io.savemat(path, {"data": matrix, "gt": LABELS})
    np.testing.assert_array_equal(read_mat(path).X.toarray(), matrix.toarray())


@pytest.mark.parametrize("name", ["a", "abcde", "file", "names", "a" * 60])
def test_names(tmp_path, name):
    path = tmp_path / "x.mat"
    io.savemat(path, {name: numbers("f8"), "gt": LABELS}, long_field_names=True)
    np.testing.assert_array_equal(read_mat(path, features=name).X, numbers("f8"))


def test_what_is_no_matrix_is_named_when_it_is_asked_for(tmp_path):
    other = {"text": "hello", "cells": np.array([1, "a"], object), "struct": {"a": 1}, "z": 1j}
    path = tmp_path / "x.mat"
    io.savemat(path, {"data": np.eye(3), "target": np.ones((3, 2)), **other})
    assert read_mat(path).n_labels == 2
    for name in other:
        with pytest.raises(DataError, match=f"{name!r} is not a matrix of real numbers"):
            read_mat(path, truth=name)


def element(kind, content, order="<"):
    fill = b"\0" * (-len(content) % 8)
    return struct.pack(f"{order}II", kind, len(content)) + content + fill


def header(order="<"):
    version, mark = struct.pack(f"{order}H", 0x0100), b"IM" if order == "<" else b"MI"
    return b"MATLAB 5.0".ljust(124) + version + mark


def matrix(kind, shape, *numbers):
    """A matrix called x; the numbers are pairs of a type and the content."""
    body = element(6, struct.pack("<II", kind, 0)) + element(
        5, struct.pack(f"<{len(shape)}i", *shape)
    )
    body += element(1, b"x") + b"".join(element(*part) for part in numbers)
    return element(14, body)


def whole(*numbers):
    return 5, struct.pack(f"<{len(numbers)}i", *numbers)


def doubles(*numbers):
    return 9, struct.pack(f"<{len(numbers)}d", *numbers)


SPARSE, DOUBLE = 5, 6


@pytest.mark.parametrize(
    "content",
    [
        matrix(SPARSE, (2, 2), whole(0), whole(0, 1, 3), doubles(1)),
        matrix(SPARSE, (2, 2), whole(9), whole(0, 1, 1), doubles(1)),
        matrix(DOUBLE, (2, 2), doubles(1, 2, 3)),
        matrix(DOUBLE, (2, 2), (17, b"")),
        matrix(DOUBLE, (2, 2)),
        matrix(DOUBLE, (2**30, 2**20), doubles(1)),
        matrix(DOUBLE, (1, 1), doubles(1))[:-8],
    ],
)
def test_damaged_variables_are_refused(tmp_path, content):
    path = tmp_path / "x.mat"
    path.write_bytes(header() + content)
    with pytest.raises(DataError, match=r"x\.mat: not a readable MATLAB file"):
        read_mat(path, features="x")


def test_a_process_that_ends_is_told(tmp_path, monkeypatch):
    path, program = tmp_path / "x.mat", tmp_path / "ends.py"
    io.savemat(path, {"data": numbers("f8"), "gt": LABELS})
    program.write_text("import os; os.kill(os.getpid(), 11)")
    monkeypatch.setattr("schirn.lab.data._mat._PROGRAM", str(program))
    with pytest.raises(DataError, match=r"not a readable MATLAB file.*exit code -11"):
        read_mat(path)


def test_a_matrix_that_is_too_large(tmp_path):
    path = tmp_path / "x.mat"
    io.savemat(path, {"data": np.zeros((300, 40)), "gt": np.ones((300, 2))}, do_compression=True)
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="max_bytes"):
        read_mat(path, max_bytes=50_000)
