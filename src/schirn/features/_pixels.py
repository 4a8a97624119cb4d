"""Features of pictures without a trained network: colours, their positions, and edges."""

from typing import Any

import numpy as np

from schirn._input import Array

_SIDE = 64
_CELLS = 4
_LEVELS = 4
_ORIENTATIONS = 8
N_FEATURES = _LEVELS**3 + 3 * _CELLS**2 + _ORIENTATIONS * _CELLS**2
# Change this whenever the features change, so that a model is never used with different features.
FINGERPRINT = "pixels 1"


def describe(picture: Any) -> Array:
    """Return the features of a Pillow image in RGB, resized to 64 x 64 pixels.

    - The share of each of 64 colours (4 levels of red, green and blue), as square roots, so that
      inner products compare the histograms as distributions.
    - The mean colour of each cell of a 4 x 4 grid, minus grey.
    - The strength of edges in 8 orientations in each cell; all cells together have norm 1, or
      less if there are hardly any edges.
    """
    pixels = np.asarray(picture.resize((_SIDE, _SIDE)), dtype=np.float32) / 255
    levels = np.minimum((pixels * _LEVELS).astype(int), _LEVELS - 1)
    colours = levels @ np.array([_LEVELS**2, _LEVELS, 1])
    histogram = np.bincount(colours.ravel(), minlength=_LEVELS**3) / _SIDE**2
    step = _SIDE // _CELLS
    means = pixels.reshape(_CELLS, step, _CELLS, step, 3).mean(axis=(1, 3)) - 0.5
    down, right = np.gradient(pixels.mean(axis=2))
    # Vertical and horizontal edges are in the middle of their bins, so noise does not move them.
    angle = np.arctan2(down, right)
    orientation = np.rint(angle / np.pi * _ORIENTATIONS).astype(int) % _ORIENTATIONS
    place = np.arange(_SIDE) // step
    field = _CELLS * place[:, None] + place
    n_edges = _ORIENTATIONS * _CELLS**2
    strength = np.hypot(down, right).ravel()
    edges: Array = np.bincount((field * _ORIENTATIONS + orientation).ravel(), strength, n_edges)
    edges = edges / (np.linalg.norm(edges) + 1)
    return np.concatenate([np.sqrt(histogram), means.ravel() / _CELLS, edges]).astype(np.float32)
