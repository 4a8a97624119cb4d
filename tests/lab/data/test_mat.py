import numpy as np
import pytest
from scipy import io, sparse

from schirn.datasets import load, read_mat
from schirn.exceptions import DataError

X = np.arange(20.0).reshape(5, 4)
Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]], dtype=np.uint8)
C = np.maximum(Y, np.eye(5, 3, dtype=np.uint8))


def write(path, variables):
    io.savemat(path, variables)


@pytest.mark.parametrize(
    ("x", "y", "c"),
    [("data", "target", "partial_labels"), ("X", "Y", "C"), ("features", "gt", "candidates")],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_names_and_orientation(tmp_path, x, y, c, transposed):
    path = tmp_path / "set.mat"
    truth, candidates = (Y.T, C.T) if transposed else (Y, C)
    write(path, {x: X, y: truth.astype(float), c: 2.0 * candidates - 1})
    data = load(path)
    assert (data.X == X).all()
    assert (data.y_true == Y).all()
    assert (data.candidates == C).all()
    assert data.candidates.dtype == np.uint8


def test_sparse_variables(tmp_path):
    path = tmp_path / "sparse.mat"
    thin = sparse.csc_matrix(X)
    write(path, {"data": thin, "target": sparse.csc_matrix(Y.T.astype(float))})
    data = read_mat(path)
    assert isinstance(data.X, sparse.csr_array)
    assert (data.X.toarray() == X).all()
    assert (data.y_true.toarray() == Y).all()


def test_given_names(tmp_path):
    path = tmp_path / "set.mat"
    write(path, {"A": X, "B": Y})
    data = read_mat(path, features="A", candidates="B")
    assert data.y_true is None
    assert (data.candidates == Y).all()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"data": X}, "no label matrix among the variables data"),
        ({"target": Y}, "no features among the variables target"),
        ({"data": X, "target": Y[:4]}, r"'target' has shape \(4, 3\), but the features have 5"),
        ({"data": X, "target": np.eye(5)}, "rows and labels cannot be distinguished"),
        ({"data": X, "target": Y * 3.0}, "holds 3"),
        ({"data": np.zeros((5, 2, 2)), "target": Y}, r"a matrix of numbers, not .* \(5, 2, 2\)"),
    ],
)
def test_wrong_content(tmp_path, variables, message):
    path = tmp_path / "bad.mat"
    write(path, variables)
    with pytest.raises(DataError, match=message):
        read_mat(path)


def test_unknown_name_is_quoted(tmp_path):
    path = tmp_path / "set.mat"
    write(path, {"data": X, "target": Y})
    with pytest.raises(DataError, match="no variable 'nope'; there are data, target"):
        read_mat(path, truth="nope")


@pytest.mark.parametrize("keep", [50, 300, 700])
def test_truncated(tmp_path, keep):
    path = tmp_path / "cut.mat"
    write(path, {"data": np.random.RandomState(0).random_sample((50, 40)), "target": Y})
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match=r"cut\.mat"):
        read_mat(path)


def test_foreign_file(tmp_path):
    path = tmp_path / "text.mat"
    path.write_text("this is no matlab file " * 20)
    with pytest.raises(DataError, match="not a readable MATLAB file"):
        read_mat(path)


def test_size_limit(tmp_path):
    path = tmp_path / "big.mat"
    write(path, {"data": np.zeros((500, 500)), "target": np.zeros((500, 3))})
    with pytest.raises(DataError, match=r"more than max_bytes"):
        read_mat(path, max_bytes=10_000)


def test_a_sparse_matrix_without_entries(tmp_path):
    write(tmp_path / "set.mat", {"data": sparse.csc_array((5, 4)), "target": Y})
    data = read_mat(tmp_path / "set.mat")
    assert data.X.shape == (5, 4)
    assert data.X.nnz == 0
    assert (data.y_true == Y).all()


def test_version_73_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "set.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(DataError, match='save it with "-v7"'):
        read_mat(path)
