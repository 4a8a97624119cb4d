"""Partial multi-label learning in PyTorch: losses, a head and an estimator.

Requires the extra `deep`: ``pip install "schirn[deep]"``.
"""
# ruff: noqa: E402

from schirn._optional import optional

# Before the modules below import it: a missing PyTorch raises MissingExtraError.
optional("torch", "deep", "schirn.deep")

from schirn.deep._confidences import Confidences
from schirn.deep._deep_sieve import DeepSieve
from schirn.deep._head import SieveHead
from schirn.deep._posterior import NoiseLaw, bayes, row_posterior
from schirn.deep._rank import rank_loss
from schirn.deep.losses import PartialMultiLabelLoss, candidate_nll

__all__ = [
    "Confidences",
    "DeepSieve",
    "NoiseLaw",
    "PartialMultiLabelLoss",
    "SieveHead",
    "bayes",
    "candidate_nll",
    "rank_loss",
    "row_posterior",
]
