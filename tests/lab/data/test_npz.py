import io
import zipfile

import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import load, read_npz
from schirn.exceptions import DataError

Y = np.array([[1, 0, 0], [0, 1, 1]], dtype=np.uint8)


def test_dense_with_everything(tmp_path):
    path = tmp_path / "all.npz"
    masks = np.array([[1, 0], [0, 1]], np.uint8)
    np.savez_compressed(
        path,
        X=np.eye(2),
        Y=Y,
        C=np.ones_like(Y),
        label_names=np.array(["a", "b", "c"]),
        feature_names=np.array(["x", "y"]),
        n_train=1,
        train_mask=masks,
        test_mask=1 - masks,
    )
    data = load(path)
    assert data.label_names == ["a", "b", "c"]
    assert data.feature_names == ["x", "y"]
    assert data.n_train == 1
    assert [(a.tolist(), b.tolist()) for a, b in data.folds] == [([0], [1]), ([1], [0])]
    assert (data.candidates == 1).all()
    assert data.y_true.dtype == np.uint8


def test_sparse_features_and_labels(tmp_path):
    path = tmp_path / "sparse.npz"
    X, labels = sparse.csr_array(np.eye(2, 5)), sparse.csr_array(Y)
    np.savez(
        path,
        data=X.data,
        indices=X.indices,
        indptr=X.indptr,
        shape=X.shape,
        Y=np.zeros((2, 4), np.uint8),  # the dense copy only tells the number of labels
        Y_indices=labels.indices,
        Y_indptr=labels.indptr,
    )
    data = read_npz(path)
    assert isinstance(data.X, sparse.csr_array)
    assert (data.X.toarray() == np.eye(2, 5)).all()
    assert data.y_true.toarray().tolist() == [[1, 0, 0, 0], [0, 1, 1, 0]]


def test_labels_only(tmp_path):
    np.savez(tmp_path / "l.npz", Y=Y)
    data = read_npz(tmp_path / "l.npz")
    assert data.X.shape == (2, 0)
    assert "Labels only" in data.description


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"X": np.eye(2)}, "no labels; the file needs the key 'Y', 'C' or both"),
        ({"data": np.ones(1), "indices": np.zeros(1, int), "Y": Y}, "lack the key 'indptr'"),
        ({"X": np.eye(2), "Y_indptr": np.array([0, 1])}, "lack the key 'Y_indices'"),
        ({"X": np.eye(3), "Y": Y}, "X has 3 rows"),
        ({"X": np.eye(2), "Y": Y * 5}, "holds 5"),
        ({"X": np.array([["a", "b"]]), "Y": Y}, "X must be a matrix of numbers"),
        ({"X": np.eye(2), "Y": Y, "train_mask": Y}, "train_mask and test_mask"),
        (
            {"data": [1.0], "indices": [0], "indptr": [0, 1], "shape": [1, 2, 3], "Y": Y},
            "the sparse features are not a matrix of numbers",
        ),
        (
            {"data": ["a"], "indices": [0], "indptr": [0, 1], "shape": [1, 2], "Y": Y},
            "the sparse features are not a matrix of numbers",
        ),
        (
            {"X": np.eye(2), "Y": Y[0], "Y_indices": [0], "Y_indptr": [0, 1, 1]},
            r"Y must be a matrix \(rows × labels\), not \[3\]",
        ),
        (
            {"data": [1.0], "indices": [9], "indptr": [0, 1, 1], "shape": [2, 3], "Y": Y},
            "the sparse matrix X is damaged",
        ),
    ],
)
def test_wrong_content(tmp_path, arrays, message):
    path = tmp_path / "bad.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError, match=message) as caught:
        read_npz(path)
    assert str(path) in str(caught.value)


def test_object_arrays_are_refused(tmp_path):
    path = tmp_path / "pickle.npz"
    np.savez(path, X=np.eye(2), Y=Y, extra=np.array([{"a": 1}], dtype=object))
    with pytest.raises(DataError, match="holds Python objects, which are never loaded"):
        read_npz(path)


def test_bomb_is_refused_before_allocation(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, X=np.zeros((1000, 1000)), Y=np.zeros((1000, 2), np.uint8))
    assert path.stat().st_size < 50_000
    with pytest.raises(DataError, match=r"more than max_bytes=100,000"):
        read_npz(path, max_bytes=100_000)


def test_header_that_lies_about_its_size(tmp_path):
    path = tmp_path / "lie.npz"
    stream = io.BytesIO()
    header = {"descr": "<f8", "fortran_order": False, "shape": (10**6, 10**6)}
    np.lib.format.write_array_header_1_0(stream, header)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("X.npy", stream.getvalue() + b"\0" * 16)
    with pytest.raises(DataError, match=r"'X.npy' is damaged \(wrong size\)"):
        read_npz(path)


@pytest.mark.parametrize("keep", [10, 200, 400])
def test_truncated(tmp_path, keep):
    path = tmp_path / "cut.npz"
    np.savez(path, X=np.eye(2), Y=Y)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cut\.npz: not a readable npz archive, or truncated"):
        read_npz(path)


def test_flipped_byte(tmp_path):
    path = tmp_path / "flip.npz"
    np.savez_compressed(path, X=np.arange(1000.0).reshape(2, 500), Y=Y)
    raw = bytearray(path.read_bytes())
    raw[400] ^= 0xFF
    path.write_bytes(raw)
    with pytest.raises(DataError, match="flip"):
        read_npz(path)


def test_foreign_and_missing(tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("hello")
    with pytest.raises(DataError, match="not a readable npz archive"):
        read_npz(path)
    with pytest.raises(DataError, match="there is no such file"):
        read_npz(tmp_path / "none.npz")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("X.npy", b"not an array")
    with pytest.raises(DataError, match=r"'X.npy' is not an array"):
        read_npz(tmp_path / "zip.npz")


def test_names_saved_as_bytes_and_names_that_repeat(tmp_path):
    names = np.array(["dog", "caf\u00e9", "x"])
    np.savez(tmp_path / "b.npz", X=np.eye(2), Y=Y, label_names=np.char.encode(names, "utf-8"))
    assert load(tmp_path / "b.npz").label_names == names.tolist()
    np.savez(tmp_path / "b.npz", X=np.eye(2), Y=Y, label_names=["dog", "cat", "dog"])
    with pytest.raises(DataError, match=r"b\.npz: two labels are called 'dog'"):
        load(tmp_path / "b.npz")
