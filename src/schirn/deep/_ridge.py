"""Ridge regression from sums over batches, with closed-form leave-one-out scores."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from schirn.linalg.leave_one_out import leave_one_out

# Candidate ridge weights, relative to the mean squared norm of a centred feature column.
_GRID = 10.0 ** torch.arange(-4, 2.1, 0.5, dtype=torch.float64)
# Lower bound of 1 - leverage, against division by zero.
_LEAST_LEFT_OUT = 0.05


class Ridge(NamedTuple):
    """A fitted ridge, with scores (f - mean) W + offset and the inverse needed for leverages."""

    mean: Tensor
    weights: Tensor
    offset: Tensor
    inverse: Tensor
    """(F'F + lam I)^-1 of the centred features."""
    n_rows: Tensor

    def scores(self, features: Tensor) -> Tensor:
        """Return the scores of rows that were not used in the fit."""
        return (features.to(self.mean.dtype) - self.mean) @ self.weights + self.offset

    def leave_one_out(self, features: Tensor, targets: Tensor) -> Tensor:
        """Return the scores of fitted rows, each as if left out."""
        centred = features.to(self.mean.dtype) - self.mean
        leverage = 1 / self.n_rows + ((centred @ self.inverse) * centred).sum(dim=1)
        scores = centred @ self.weights + self.offset
        return leave_one_out(targets, scores, leverage, _LEAST_LEFT_OUT)


class RidgeSums:
    """Sufficient statistics of a ridge regression (F'F, F'T, ...), summed over batches."""

    def __init__(self, n_features: int, n_labels: int, device: torch.device | str = "cpu"):
        zeros = partial(torch.zeros, dtype=torch.float64, device=device)
        self.n_rows = zeros(())
        self.square = zeros(())
        self.features = zeros(n_features)
        self.targets = zeros(n_labels)
        self.gram = zeros(n_features, n_features)
        self.cross = zeros(n_features, n_labels)

    def add(self, features: Tensor, targets: Tensor) -> None:
        """Add a batch; products are computed in the precision of the features."""
        self.n_rows += len(features)
        self.square += targets.square().sum()
        self.features += features.sum(dim=0)
        self.targets += targets.sum(dim=0)
        self.gram += features.T @ features
        self.cross += features.T @ targets

    def solve(self, lam: float | None = None) -> Ridge:
        r"""Fit the ridge on the centred features, with an unpenalised intercept.

        .. math:: \min_{W, b} \|F W + 1 b^\top - T\|_F^2 + \lambda \|W\|_F^2

        Parameters
        ----------
        lam : float, optional
            \lambda, relative to the mean squared norm of a centred feature column. By default
            chosen by generalised cross-validation.
        """
        n = self.n_rows.clamp_min(1)
        mean = self.features / n
        offset = self.targets / n
        gram = self.gram - n * torch.outer(mean, mean)
        cross = self.cross - n * torch.outer(mean, offset)
        values, V = torch.linalg.eigh(gram)
        values = values.clamp_min(0)
        scale = values.mean().clamp_min(1e-12)
        rotated = V.T @ cross
        if lam is None:
            total = self.square - n * offset.square().sum()
            ridge = scale * _choose(values / scale, rotated.square().sum(dim=1) / scale, total, n)
        else:
            ridge = scale * lam
        shrunk = 1 / (values + ridge)
        solution = Ridge(
            mean=mean,
            weights=V @ (shrunk[:, None] * rotated),
            offset=offset,
            inverse=(V * shrunk) @ V.T,
            n_rows=n,
        )
        return Ridge(*(value.float() for value in solution))


def _choose(values: Tensor, energy: Tensor, total: Tensor, n: Tensor) -> Tensor:
    """Return the weight of the grid that minimises RSS / (n - degrees of freedom)^2.

    RSS = total - sum_k energy_k (v_k + 2t)/(v_k + t)^2 for eigenvalues v and a weight t.
    """
    t = _GRID.to(values.device)[:, None]
    explained = (energy * (values + 2 * t) / (values + t) ** 2).sum(dim=1)
    freedom = 1 + (values / (values + t)).sum(dim=1)
    residual = (total - explained).clamp_min(1e-12)
    error = residual / (n - freedom).clamp_min(1e-3 * float(n)) ** 2
    return t[error.argmin(), 0]
