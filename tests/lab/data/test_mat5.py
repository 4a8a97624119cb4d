"""Our reader of version 5 against SciPy's writer and reader."""

import struct
import zlib

import numpy as np
import pytest
from scipy import io, sparse

from schirn.datasets import read_mat
from schirn.exceptions import DataError
from schirn.lab.data.mat import Mat5

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


def element(kind, content, order="<"):
    fill = b"\0" * (-len(content) % 8)
    return struct.pack(f"{order}II", kind, len(content)) + content + fill


def packed(content):
    """A packed variable; only this element is not filled up to 8 bytes."""
    raw = zlib.compress(content)
    return struct.pack("<II", 15, len(raw)) + raw


def header(order="<"):
    version, mark = struct.pack(f"{order}H", 0x0100), b"IM" if order == "<" else b"MI"
    return b"MATLAB 5.0".ljust(124) + version + mark


def test_the_other_byte_order(tmp_path):
    """Written by hand, since nothing here writes it."""
    body = element(6, struct.pack(">II", 6, 0), ">") + element(5, struct.pack(">ii", 2, 2), ">")
    body += struct.pack(">HH4s", 1, 1, b"x") + element(3, struct.pack(">4h", 1, 2, 3, -4), ">")
    (tmp_path / "x.mat").write_bytes(header(">") + element(14, body, ">"))
    expected = io.loadmat(tmp_path / "x.mat")["x"]
    np.testing.assert_array_equal(Mat5(tmp_path / "x.mat", LIMIT).get("x"), expected)
    assert expected.tolist() == [[1, 3], [2, -4]]


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
    ("content", "reason"),
    [
        (
            matrix(SPARSE, (2, 2, 2), whole(0), whole(0, 1, 1), doubles(1)),
            "a sparse matrix with other than two sides",
        ),
        (
            matrix(SPARSE, (2, 2), whole(0), whole(0, 1, 3), doubles(1)),
            "a sparse matrix with fewer entries than its header says",
        ),
        (
            matrix(SPARSE, (2, 2), whole(0, 1), whole(0, 1, 2), doubles(1)),
            "a sparse matrix with fewer entries than its header says",
        ),
        (matrix(SPARSE, (2, 2), whole(0), whole(0, 1), doubles(1)), "2 numbers instead of 3"),
        (matrix(DOUBLE, (2, 2), doubles(1, 2, 3)), "3 numbers instead of 4"),
        (matrix(DOUBLE, (2, 2), (4, b"\1")), "not a readable MATLAB file"),
        (matrix(DOUBLE, (2, 2), (17, b"")), "an element of type 17, which is not numeric"),
        (matrix(DOUBLE, (2, 2)), "a matrix is truncated"),
        (matrix(DOUBLE, (2,), doubles(1, 2)), "a variable of shape"),
        (matrix(DOUBLE, (-2, 2), doubles(1, 2)), "a variable of shape"),
        (matrix(DOUBLE, (1, 1), doubles(1)) + b"\x0e\0\0", "the last element is truncated"),
        (matrix(DOUBLE, (1, 1), doubles(1))[:-8], "a variable is truncated"),
        (packed(element(9, b"\0" * 8)), "a packed variable is not a matrix"),
        (packed(b"\x0e"), "a packed variable is not a matrix"),
    ],
)
def test_damaged_variables_are_refused_with_the_reason(tmp_path, content, reason):
    path = tmp_path / "x.mat"
    path.write_bytes(header() + content)
    with pytest.raises(DataError, match=reason) as caught:
        read_mat(path, features="x")
    assert str(path) in str(caught.value)


def test_a_sparse_matrix_with_room_for_more_entries(tmp_path):
    """MATLAB allots room ahead; only the last start says how much of it is used."""
    content = matrix(SPARSE, (3, 2), whole(2, 0, 1, 0), whole(0, 1, 2), doubles(5, 7, 8, 9))
    (tmp_path / "x.mat").write_bytes(header() + content)
    found = Mat5(tmp_path / "x.mat", LIMIT).get("x").toarray()
    assert found.tolist() == [[0, 7], [0, 0], [5, 0]]


def test_what_is_no_variable_is_passed_over(tmp_path):
    other = element(9, b"\0" * 24)
    content = other + matrix(DOUBLE, (1, 2), doubles(3, 4)) + other
    (tmp_path / "x.mat").write_bytes(header() + content)
    reader = Mat5(tmp_path / "x.mat", LIMIT)
    assert reader.names() == ["x"]
    assert reader.get("x").tolist() == [[3, 4]]


def test_a_variable_that_unpacks_to_more_than_it_says(tmp_path):
    """The shape promises one number, the stream holds a megabyte."""
    path = tmp_path / "x.mat"
    path.write_bytes(header() + packed(matrix(DOUBLE, (1, 1), doubles(*[0.0] * 131_072))))
    assert path.stat().st_size < 10_000
    with pytest.raises(DataError, match="a variable unpacks to over 50,000 bytes"):
        read_mat(path, features="x", max_bytes=50_000)


def test_a_matrix_that_says_it_is_huge(tmp_path):
    path = tmp_path / "x.mat"
    path.write_bytes(header() + matrix(DOUBLE, (2**30, 2**20), doubles(1)))
    with pytest.raises(DataError, match=r"'x' of shape .*max_bytes"):
        read_mat(path)
    path.write_bytes(header() + matrix(SPARSE, (2**31 - 1, 2), whole(), whole(0, 0, 0), doubles()))
    with pytest.raises(DataError, match=r"'x' of shape .*max_bytes"):
        read_mat(path)


def test_too_many_variables(tmp_path, monkeypatch):
    path = tmp_path / "x.mat"
    path.write_bytes(header() + matrix(DOUBLE, (1, 1), doubles(1)) * 4)
    assert Mat5(path, LIMIT).names() == ["x"]
    monkeypatch.setattr("schirn.lab.data.mat.MOST_VARIABLES", 4)
    with pytest.raises(DataError, match="more than 4 variables"):
        read_mat(path)
