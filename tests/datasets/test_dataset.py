import numpy as np
import pytest
from scipy import sparse

from schirn.datasets import Dataset, load_digits_attributes
from schirn.exceptions import DataError


def test_repr_is_one_line_with_sizes():
    y = np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8)
    data = Dataset("toy", sparse.csr_array(np.eye(3)), y)
    assert repr(data) == "Dataset('toy', n=3, d=3, l=2, sparse, y_true)"
    assert data.label_names == ["label_0", "label_1"]


@pytest.mark.parametrize("rows", [[2, 0], np.array([True, False, True]), slice(0, 3, 2)])
def test_subset_takes_the_same_rows_of_everything(rows):
    X = np.arange(6.0).reshape(3, 2)
    y = sparse.csr_array(np.array([[1, 0], [0, 1], [1, 1]], dtype=np.uint8))
    images = np.arange(3).reshape(3, 1, 1)
    data = Dataset("toy", X, y, y, images=images, n_train=2, folds=[])
    part = data.subset(rows)
    expected = [2, 0] if isinstance(rows, list) else [0, 2]
    assert part.X[:, 0].tolist() == [2 * i for i in expected]
    assert part.images.ravel().tolist() == expected
    assert (part.candidates.toarray() == y.toarray()[expected]).all()
    assert part.n_train is None
    assert part.folds is None


def test_shapes_must_agree():
    with pytest.raises(DataError, match=r"y_true has shape \(2, 2\), but X has 3 rows"):
        Dataset("toy", np.eye(3), np.ones((2, 2), np.uint8))
    with pytest.raises(DataError, match="label_names has 1 entries for 2 columns"):
        Dataset("toy", np.eye(2), np.ones((2, 2), np.uint8), label_names=["a"])


def test_is_frozen():
    data = Dataset("toy", np.eye(2), np.ones((2, 2), np.uint8))
    with pytest.raises(AttributeError):
        data.name = "other"


def test_digits_attributes_are_true_of_the_digit():
    digits = load_digits_attributes(r=2)
    names = digits.label_names
    zero = digits.y_true[0]  # the first image is a 0
    assert {n for n, t in zip(names, zero, strict=True) if t} == {
        "even",
        "square number",
        "multiple of three",
        "less than five",
        "has a loop",
    }
    assert (digits.y_true[:, names.index("even")] + digits.y_true[:, names.index("odd")] == 1).all()
    share = digits.y_true.mean(axis=0)
    assert (share > 0).all()
    assert (share < 1).all()
    assert ((digits.candidates - digits.y_true).sum(axis=1) == 2).all()
    assert digits.images.reshape(1797, 64).tolist() == digits.X.tolist()
    again = load_digits_attributes(r=2)
    assert (again.candidates == digits.candidates).all()
