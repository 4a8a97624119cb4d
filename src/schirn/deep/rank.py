"""The rank term on a batch of predictions, with gradients that are always finite."""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def rank_loss(predictions: Tensor, *, smoothing: float = 1e-3) -> Tensor:
    r"""Negative smoothed nuclear norm of a batch of predictions.

    .. math::
        -\sum_k \sqrt{\lambda_k + \tau^2}, \qquad
        \nabla = -P (P^\top P + \tau^2 I)^{-1/2}

    where \lambda are the eigenvalues of the smaller Gram matrix of P. Minimising it keeps the rank
    of the predictions high, like the rank term of Schirn. The gradient tends to the polar factor
    of P as \tau goes to 0. It is computed in closed form, so zero or repeated singular values are
    harmless; its entries are at most one in absolute value.

    Parameters
    ----------
    predictions : Tensor of shape (n, l)
        For instance the sigmoids of a batch of logits.
    smoothing : float, default=1e-3
        \tau > 0. Singular directions of P much shorter than \tau receive no gradient.

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
    return _RankLoss.apply(predictions, smoothing)


class _RankLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, predictions: Tensor, smoothing: float) -> Tensor:
        with torch.autocast(predictions.device.type, enabled=False):
            # The Gram matrix squares the condition number of P, hence double precision.
            P = predictions.double()
            wide = P.shape[0] < P.shape[1]
            gram = P @ P.T if wide else P.T @ P
            values, V = torch.linalg.eigh(gram)
            root = (values.clamp_min(0) + smoothing**2).sqrt()
            inverse = (V / root) @ V.T
            gradient = inverse @ P if wide else P @ inverse
        ctx.save_for_backward(gradient.to(predictions.dtype))
        return -root.sum().to(predictions.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, above: Tensor) -> tuple[Tensor, None]:
        (gradient,) = ctx.saved_tensors
        return -above * gradient, None
