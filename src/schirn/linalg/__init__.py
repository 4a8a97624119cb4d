"""Building blocks of the solvers: row spaces, kernels and proximal steps."""

from schirn.linalg.features import FeatureScale, Kernel, learn_scale, nystroem_map
from schirn.linalg.prox import noise_threshold, shift_singular_values
from schirn.linalg.row_space import RowSpace, row_space

__all__ = [
    "FeatureScale",
    "Kernel",
    "RowSpace",
    "learn_scale",
    "noise_threshold",
    "nystroem_map",
    "row_space",
    "shift_singular_values",
]
