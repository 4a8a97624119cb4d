"""Partial multi-label learning in PyTorch: losses, a head and an estimator.

Requires the extra `deep`: ``pip install "schirn[deep]"``.
"""
# ruff: noqa: E402

from schirn._optional import optional
from schirn._plugins import moved_names

# Before the modules below import it: a missing PyTorch raises MissingExtraError.
optional("torch", "deep", "schirn.deep")

from schirn.deep.confidences import Confidences
from schirn.deep.deep_sieve import DeepSieve
from schirn.deep.head import SieveHead
from schirn.deep.losses import PartialMultiLabelLoss, candidate_nll
from schirn.deep.posterior import NoiseLaw, bayes, row_posterior
from schirn.deep.rank import rank_loss

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

__getattr__ = moved_names(__name__)
