"""The ranking method, and its device."""

import inspect
import warnings
from collections.abc import Iterable
from typing import Any

import scipy.sparse as sp

from schirn._optional import optional
from schirn.estimators import PartialMultiLabelClassifier, find_method
from schirn.exceptions import InputError, suggest
from schirn.features.pipeline import make_method
from schirn.scale.row_file import RowFile


def make_model(
    method: str, params: Iterable[tuple[str, Any]], *, scaled: bool = False, sparse: bool = False
) -> PartialMultiLabelClassifier:
    """Return an unfitted method with the given parameters.

    Parameters
    ----------
    method : str
        Name of the method.
    params : iterable of (name, value)
        Parameters of the method.
    scaled, sparse : bool, default=False
        True if the features need no scaling, and True if they are sparse.

    Returns
    -------
    PartialMultiLabelClassifier

    Raises
    ------
    InputError
        If there is no such method, or it lacks a parameter.
    """
    cls = find_method(method)
    known = list(inspect.signature(cls).parameters)
    params = list(params)
    for name, _ in params:
        if name not in known:
            raise InputError(f"{cls.__name__} has no parameter {name!r}; {suggest(name, known)}")
    model = make_method(cls, scaled=scaled, sparse=sparse)
    for name, value in params:
        setattr(model, name, value)
    return model


def to_device(X: Any, device: str | None) -> Any:
    """Move features to a PyTorch device, in single precision.

    Parameters
    ----------
    X : array, CSR matrix or RowFile
        Features of the rows.
    device : str or None
        Name of the device, such as "cuda"; None returns X unchanged.

    Returns
    -------
    torch.Tensor, or X
    """
    if device is None:
        return X
    torch = optional("torch", "deep", "--device")
    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"the device {device} is not available here ({reason})", parameter="device"
        ) from None
    X = X.mapped() if isinstance(X, RowFile) else X
    if sp.issparse(X):
        gigabytes = X.shape[0] * X.shape[1] * 4 / 1e9
        warnings.warn(
            f"the sparse features become dense on the device ({gigabytes:.2g} GB)", stacklevel=2
        )
        X = X.toarray()
    return torch.asarray(X, dtype=torch.float32, device=place)
