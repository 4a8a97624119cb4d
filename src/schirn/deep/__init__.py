"""Partial multi-label learning in PyTorch: losses, a head and an estimator.

Requires the extra `deep`: ``pip install "schirn[deep]"``.
"""
# ruff: noqa: E402

from schirn._optional import optional

# Before the modules below import it: a missing PyTorch raises MissingExtraError.
optional("torch", "deep", "schirn.deep")

from schirn.deep.confidences import Confidences
from schirn.deep.deep_sieve import DeepSieve
from schirn.deep.head import SieveHead
from schirn.deep.losses import (
    GeneralizedCrossEntropy,
    PartialMultiLabelLoss,
    candidate_nll,
)
from schirn.deep.missing import ROLE, SPLC, AsymmetricLoss, LargeLoss
from schirn.deep.posterior import NoiseLaw, bayes, row_posterior
from schirn.deep.rank import rank_loss

__all__ = [
    "ROLE",
    "SPLC",
    "AsymmetricLoss",
    "Confidences",
    "DeepSieve",
    "GeneralizedCrossEntropy",
    "LargeLoss",
    "NoiseLaw",
    "PartialMultiLabelLoss",
    "SieveHead",
    "bayes",
    "candidate_nll",
    "rank_loss",
    "row_posterior",
]
