import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from schirn.datasets import load, read_svmlight
from schirn.exceptions import DataError


def write(tmp_path, text, name="set.svm"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_xmc_header_and_rows_without_labels(tmp_path):
    text = "3 5 6\n0,3 0:0.5 4:2\n 1:1\n5\n"
    data = load(write(tmp_path, text, "xmc.txt"))
    assert data.X.toarray().tolist() == [[0.5, 0, 0, 0, 2], [0, 1, 0, 0, 0], [0] * 5]
    assert data.y_true.tolist() == [
        [1, 0, 0, 1, 0, 0],
        [0] * 6,
        [0, 0, 0, 0, 0, 1],
    ]


def test_agrees_with_scikit_learn(tmp_path):
    rng = np.random.RandomState(0)
    X = rng.random_sample((30, 8)) * (rng.random_sample((30, 8)) < 0.4)
    y = (rng.random_sample((30, 5)) < 0.4).astype(int)
    X[:, 0] = 1  # a row of nothing would be an empty line, which both skip
    X[0] = 1
    y[0] = 1
    path = tmp_path / "sk.svm"
    dump_svmlight_file(X, y, str(path), multilabel=True, zero_based=False)
    data = read_svmlight(path)
    theirs, labels = load_svmlight_file(str(path), multilabel=True)
    assert np.allclose(data.X.toarray(), theirs.toarray())
    assert np.allclose(data.X.toarray(), X)
    rows = [tuple(np.flatnonzero(row)) for row in data.y_true]
    assert rows == [tuple(int(label) for label in row) for row in labels]


def test_comments_and_widths(tmp_path):
    path = write(tmp_path, "1 2:1 # a comment\n\n0 1:3\n")
    data = read_svmlight(path, n_features=6, n_labels=4)
    assert data.X.shape == (2, 6)
    assert data.y_true.shape == (2, 4)
    assert data.X.toarray()[0].tolist() == [0, 1, 0, 0, 0, 0]
    assert read_svmlight(path, zero_based=True).X.toarray()[0].tolist() == [0, 0, 1]


def test_large_label_matrix_stays_sparse(tmp_path, monkeypatch):
    monkeypatch.setattr("schirn.lab.data._content.LARGE_LABELS", 3)
    data = read_svmlight(write(tmp_path, "0,1,1 1:1\n1 1:1\n"))
    assert isinstance(data.y_true, sparse.csr_array)
    assert data.y_true.toarray().tolist() == [[1, 1], [0, 1]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1:1\n0 1:x\n", "not a file of svmlight rows .*b'x'"),
        ("0 1:nan\n", "a feature is not a finite number"),
        ("0 1:1 7\n", "not a file of svmlight rows"),
        ("0 2:1 1:1\n", "indices .* should be sorted"),
        ("cat 1:1\n", "not a file of svmlight rows .*b'cat'"),
        ("-1 1:1\n", "labels must be whole numbers from 0, found -1"),
        ("0.5 1:1\n", "labels must be whole numbers from 0, found 0.5"),
        ("1e300 1:1\n", "labels must be whole numbers from 0, found 1e\\+300"),
        ("0 99999999999:1\n", "not a file of svmlight rows"),
        ("3 5 6\n0 1:1\n", "1 rows, but the header says 3"),
        ("2 5 6\n0 1:1\n\n", "does it have empty lines"),
        ("1 5 6\n9 1:1\n", "row 1: label 9 is outside the 6 labels, counted from 0"),
        ("1 5 6\n0 7:1\n", "row 1: feature 7 is outside the 5 features"),
        ("<html>not found</html>", "not a file of svmlight rows"),
        ("\n\n", "the file has no rows"),
    ],
)
def test_wrong_content(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        read_svmlight(write(tmp_path, text))
