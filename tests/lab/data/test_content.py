import numpy as np
import pytest
from scipy import sparse

from schirn.exceptions import DataError
from schirn.lab.data._content import label_matrix


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), r"y must be a matrix \(rows × labels\), not of shape \(3,\)"),
        (np.array([["a"]]), "y must be a 0/1 matrix .* entries that are not numbers"),
        (
            np.array([[0, 1], [2, 1]]),
            r"y must be 0 or 1 \(or -1 for 0\), but row 1, .* holds 2",
        ),
        (sparse.csr_array([[0.5]]), "but row 0, label 0 holds 0.5"),
    ],
)
def test_what_are_no_labels(values, message):
    with pytest.raises(DataError, match=message):
        label_matrix(values, "y")


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.float32])
def test_labels_of_any_type_become_bytes(container, dtype):
    y = np.array([[1, 0], [0, 1]])
    found = label_matrix(container(y.astype(dtype)), "y")
    assert found.dtype == np.uint8
    assert sparse.issparse(found) == (container is sparse.csr_array)
    assert (found == y).all() if isinstance(found, np.ndarray) else (found.toarray() == y).all()
