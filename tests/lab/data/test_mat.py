from importlib import import_module

import numpy as np
import pytest
from scipy import io, sparse

from schirn.datasets import load, read_mat
from schirn.exceptions import DataError, MissingExtraError

X = np.arange(20.0).reshape(5, 4)
Y = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]], dtype=np.uint8)
C = np.maximum(Y, np.eye(5, 3, dtype=np.uint8))


def write5(path, variables):
    io.savemat(path, variables)


def write73(path, variables):
    """Write a file as MATLAB 7.3 does: a text header, then HDF5 with transposed arrays."""
    h5py = pytest.importorskip("h5py", reason="files of version 7.3 need h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in variables.items():
            if sparse.issparse(value):
                columns = sparse.csc_array(value)
                group = file.create_group(name)
                group.attrs["MATLAB_sparse"] = np.uint64(value.shape[0])
                group["jc"] = columns.indptr.astype(np.uint64)
                if columns.nnz:
                    group["ir"] = columns.indices.astype(np.uint64)
                    group["data"] = columns.data
            else:
                file[name] = np.asarray(value).T
    with path.open("r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file".ljust(512))


@pytest.fixture(params=[write5, write73], ids=["v5", "v7.3"])
def write(request):
    return request.param


@pytest.mark.parametrize(
    ("x", "y", "c"),
    [("data", "target", "partial_labels"), ("X", "Y", "C"), ("features", "gt", "candidates")],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_names_and_orientation(tmp_path, write, x, y, c, transposed):
    path = tmp_path / "set.mat"
    truth, candidates = (Y.T, C.T) if transposed else (Y, C)
    write(path, {x: X, y: truth.astype(float), c: 2.0 * candidates - 1})
    data = load(path)
    assert (data.X == X).all()
    assert (data.y_true == Y).all()
    assert (data.candidates == C).all()
    assert data.candidates.dtype == np.uint8


def test_sparse_variables(tmp_path, write):
    path = tmp_path / "sparse.mat"
    thin = sparse.csc_matrix(X)
    write(path, {"data": thin, "target": sparse.csc_matrix(Y.T.astype(float))})
    data = read_mat(path)
    assert isinstance(data.X, sparse.csr_array)
    assert (data.X.toarray() == X).all()
    assert (data.y_true.toarray() == Y).all()


def test_given_names(tmp_path, write):
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
def test_wrong_content(tmp_path, write, variables, message):
    path = tmp_path / "bad.mat"
    write(path, variables)
    with pytest.raises(DataError, match=message):
        read_mat(path)


def test_unknown_name_is_quoted(tmp_path, write):
    path = tmp_path / "set.mat"
    write(path, {"data": X, "target": Y})
    with pytest.raises(DataError, match="no variable 'nope'; choose from data, target"):
        read_mat(path, truth="nope")


@pytest.mark.parametrize("keep", [50, 300, 700])
def test_truncated(tmp_path, write, keep):
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


def test_size_limit(tmp_path, write):
    path = tmp_path / "big.mat"
    write(path, {"data": np.zeros((500, 500)), "target": np.zeros((500, 3))})
    with pytest.raises(DataError, match=r"more than max_bytes"):
        read_mat(path, max_bytes=10_000)


def test_a_sparse_matrix_without_entries(tmp_path, write):
    write(tmp_path / "set.mat", {"data": sparse.csc_array((5, 4)), "target": Y})
    data = read_mat(tmp_path / "set.mat")
    assert data.X.shape == (5, 4)
    assert data.X.nnz == 0
    assert (data.y_true == Y).all()


@pytest.fixture
def h5py():
    return pytest.importorskip("h5py", reason="files of version 7.3 need h5py")


def test_links_to_other_files_are_not_followed(tmp_path, h5py):
    write73(tmp_path / "other.mat", {"target": Y})
    write73(tmp_path / "set.mat", {"data": X})
    with h5py.File(tmp_path / "set.mat", "r+") as file:
        file["target"] = h5py.ExternalLink(str(tmp_path / "other.mat"), "/target")
    with pytest.raises(DataError, match="no label matrix among the variables data"):
        read_mat(tmp_path / "set.mat")


def add_text(h5py, file, folder):
    file["target"] = np.array([b"beach", b"dog"])


def add_virtual(h5py, file, folder):
    write73(folder / "other.mat", {"target": Y})
    layout = h5py.VirtualLayout(shape=Y.T.shape, dtype=Y.dtype)
    layout[:] = h5py.VirtualSource(str(folder / "other.mat"), "target", shape=Y.T.shape)
    file.create_virtual_dataset("target", layout)


def add_external(h5py, file, folder):
    (folder / "raw.bin").write_bytes(Y.tobytes())
    where = [(str(folder / "raw.bin"), 0, Y.size)]
    file.create_dataset("target", Y.T.shape, Y.dtype, external=where)


@pytest.mark.parametrize("add", [add_text, add_virtual, add_external])
def test_only_numbers_that_are_in_the_file_itself(tmp_path, h5py, add):
    """The numbers of another file, which the user may not have meant to open, are not read."""
    write73(tmp_path / "set.mat", {"data": X})
    with h5py.File(tmp_path / "set.mat", "r+") as file:
        add(h5py, file, tmp_path)
    with pytest.raises(DataError, match="'/target' is not a plain array of numbers"):
        read_mat(tmp_path / "set.mat")


def test_a_struct_is_not_taken_for_a_matrix(tmp_path, h5py):
    write73(tmp_path / "set.mat", {"data": X})
    with h5py.File(tmp_path / "set.mat", "r+") as file:
        file["target/jc"] = np.arange(3)
    with pytest.raises(DataError, match="'/target' is a struct, not a matrix"):
        read_mat(tmp_path / "set.mat")


def test_variables_that_are_not_asked_for_are_not_read(tmp_path, h5py):
    write73(tmp_path / "set.mat", {"data": X, "target": Y})
    with h5py.File(tmp_path / "set.mat", "r+") as file:
        file["notes"] = np.array([b"text"])
    assert (read_mat(tmp_path / "set.mat").X == X).all()


@pytest.mark.parametrize("content", [np.zeros((500, 500)), sparse.csc_array((100_000, 4))])
def test_what_takes_more_memory_than_disk(tmp_path, h5py, content):
    with h5py.File(tmp_path / "set.mat", "w") as file:
        if sparse.issparse(content):
            file["data/jc"] = content.indptr
            file["data"].attrs["MATLAB_sparse"] = content.shape[0]
        else:
            file.create_dataset("data", data=content, compression="gzip")
        file["target"] = Y.T
    with pytest.raises(DataError, match=r"'/data' .*max_bytes"):
        read_mat(tmp_path / "set.mat", max_bytes=100_000)
    assert (tmp_path / "set.mat").stat().st_size < 100_000


def test_missing_extra(tmp_path, monkeypatch):
    path = tmp_path / "set.mat"
    path.write_bytes(b"MATLAB 7.3 MAT-file".ljust(512) + b"\x89HDF\r\n\x1a\n")
    real = import_module

    def refuse(name):
        if name == "h5py":
            raise ImportError(name)
        return real(name)

    monkeypatch.setattr("schirn._optional.import_module", refuse)
    with pytest.raises(MissingExtraError, match='pip install "h5py>='):
        read_mat(path)
