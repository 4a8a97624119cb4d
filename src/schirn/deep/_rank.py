"""The rank term on a batch of predictions, with gradients that are always finite."""

import torch
from torch import Tensor


def rank_loss(predictions: Tensor, *, smoothing: float = 1e-3) -> Tensor:
    r"""Negative smoothed nuclear norm of a batch of predictions.

    .. math::
        -\sum_k \sqrt{\lambda_k + \tau^2}, \qquad
        \nabla = -P (P^\top P + \tau^2 I)^{-1/2}

    where \lambda are the eigenvalues of the smaller Gram matrix of P. Minimising it keeps the rank
    of the predictions high, like the rank term of Schirn. The gradient tends to the polar factor
    of P as \tau goes to 0. It needs eigenvalues only, so zero or repeated singular values are
    harmless; its entries are at most one in absolute value.

    Parameters
    ----------
    predictions : Tensor of shape (n, l)
        For instance the sigmoids of a batch of logits.
    smoothing : float, default=1e-3
        \tau > 0. Singular directions of P much shorter than \tau receive no gradient.

    Returns
    -------
    Tensor
        A scalar.

    Examples
    --------
    >>> P = torch.tensor([[3.0, 0.0], [0.0, 4.0], [0.0, 0.0]], requires_grad=True)
    >>> loss = rank_loss(P)
    >>> round(loss.item(), 4)
    -7.0
    >>> loss.backward()
    >>> P.grad.abs().round(decimals=3)
    tensor([[1., 0.],
            [0., 1.],
            [0., 0.]])
    """
    with torch.autocast(predictions.device.type, enabled=False):
        # The Gram matrix squares the condition number of P, hence double precision.
        P = predictions.double()
        gram = P @ P.T if P.shape[0] < P.shape[1] else P.T @ P
        values = torch.linalg.eigvalsh(gram).clamp_min(0)
        return -(values + smoothing**2).sqrt().sum().to(predictions.dtype)
