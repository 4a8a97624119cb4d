"""Our reader of version 5 against SciPy's writer and reader."""

import struct

import numpy as np
import pytest
from scipy import io, sparse

from schirn.datasets import read_mat
from schirn.datasets._mat5 import Mat5
from schirn.exceptions import DataError

LIMIT = 10**8
TYPES = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?"]


def numbers(dtype):
    return (
        np.arange(12).reshape(3, 4) % 2 if dtype == "?" else np.arange(12).reshape(3, 4)
    ).astype(dtype)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", TYPES)
def test_dense(tmp_path, dtype, packed):
    path = tmp_path / "x.mat"
    io.savemat(path, {"data": numbers(dtype), "other": 1.5}, do_compression=packed)
    reader = Mat5(path, LIMIT)
    assert reader.names() == ["data", "other"]
    found = reader.get("data")
    # SciPy gives logical matrices as bytes.
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, io.loadmat(path)["data"])
    assert reader.get("other") == 1.5


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "?"])
def test_sparse(tmp_path, dtype, packed):
    path = tmp_path / "x.mat"
    matrix = sparse.random(40, 7, 0.2, random_state=0).tocsc().astype(dtype)
    io.savemat(path, {"data": matrix, "empty": sparse.csc_array((5, 3))}, do_compression=packed)
    reader = Mat5(path, LIMIT)
    found = reader.get("data")
    assert found.dtype == dtype
    np.testing.assert_array_equal(found.toarray(), matrix.toarray())
    assert reader.get("empty").shape == (5, 3)
    assert reader.get("empty").nnz == 0


def test_names_of_any_length(tmp_path):
    names = ["a", "abcd", "abcde", "a" * 31, "a" * 60]
    io.savemat(tmp_path / "x.mat", {name: k for k, name in enumerate(names)}, long_field_names=True)
    reader = Mat5(tmp_path / "x.mat", LIMIT)
    assert reader.names() == list(io.loadmat(tmp_path / "x.mat", variable_names=names))[3:]
    assert [int(reader.get(name)[0, 0]) for name in reader.names()] == list(range(len(names)))


def test_what_is_no_matrix_is_named_when_it_is_asked_for(tmp_path):
    other = {"text": "hello", "cells": np.array([1, "a"], object), "struct": {"a": 1}, "z": 1j}
    path = tmp_path / "x.mat"
    io.savemat(path, {"data": np.eye(3), "target": np.ones((3, 2)), **other})
    assert read_mat(path).n_labels == 2
    for name in other:
        with pytest.raises(DataError, match=f"{name!r} is not a matrix of real numbers"):
            read_mat(path, truth=name)


def test_the_other_byte_order(tmp_path):
    """Written by hand, since nothing here writes it."""

    def element(kind, content):
        return struct.pack(">II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    body = element(6, struct.pack(">II", 6, 0)) + element(5, struct.pack(">ii", 2, 2))
    body += struct.pack(">HH4s", 1, 1, b"x") + element(3, struct.pack(">4h", 1, 2, 3, -4))
    head = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI"
    (tmp_path / "x.mat").write_bytes(head + element(14, body))
    expected = io.loadmat(tmp_path / "x.mat")["x"]
    np.testing.assert_array_equal(Mat5(tmp_path / "x.mat", LIMIT).get("x"), expected)
    assert expected.tolist() == [[1, 3], [2, -4]]


def test_version_4(tmp_path):
    path = tmp_path / "x.mat"
    X = sparse.csc_array(np.eye(3, 5))
    io.savemat(path, {"data": X, "target": np.ones((3, 2))}, format="4")
    data = read_mat(path)
    np.testing.assert_array_equal(data.X.toarray(), np.eye(3, 5))
    with pytest.raises(DataError, match="max_bytes"):
        read_mat(path, max_bytes=100)
