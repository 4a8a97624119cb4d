"""Array functions that the solvers are built from: row spaces, kernels, proximal steps, graphs."""

from schirn.linalg.features import FeatureScale, learn_scale
from schirn.linalg.graph import (
    nearest_neighbours,
    nonnegative_least_squares,
    propagate_labels,
    reconstruction_weights,
)
from schirn.linalg.kernels import Kernel, KernelSpace, kernel_space, median_width, nystroem_map
from schirn.linalg.prox import (
    noise_threshold,
    shift_singular_values,
    singular_value_threshold,
    soft_threshold,
)
from schirn.linalg.row_space import RowSpace, row_space

__all__ = [
    "FeatureScale",
    "Kernel",
    "KernelSpace",
    "RowSpace",
    "kernel_space",
    "learn_scale",
    "median_width",
    "nearest_neighbours",
    "noise_threshold",
    "nonnegative_least_squares",
    "nystroem_map",
    "propagate_labels",
    "reconstruction_weights",
    "row_space",
    "shift_singular_values",
    "singular_value_threshold",
    "soft_threshold",
]
