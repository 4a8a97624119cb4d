"""Noise models, posteriors of candidates, calibration, informativeness and thresholds."""

from schirn.noise.calibration import Calibration, calibrate, posterior
from schirn.noise.model import (
    NoiseModel,
    candidate_posterior,
    cell_posterior,
    noise_from_sums,
)
from schirn.noise.thresholds import LabelThreshold, label_threshold

__all__ = [
    "Calibration",
    "LabelThreshold",
    "NoiseModel",
    "calibrate",
    "candidate_posterior",
    "cell_posterior",
    "label_threshold",
    "noise_from_sums",
    "posterior",
]
