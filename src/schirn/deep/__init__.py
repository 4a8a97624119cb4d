"""Partial multi-label learning inside PyTorch: losses, heads and an estimator.

It needs the extra `deep`: ``pip install "schirn[deep]"``.
"""

from schirn.deep import _torch  # noqa: F401  (first: says in one sentence if PyTorch is missing)
from schirn.deep.baselines import GeneralizedCrossEntropy, PARDLoss
from schirn.deep.confidences import Confidences
from schirn.deep.deep_sieve import DeepSieve
from schirn.deep.head import SchirnHead, SieveHead
from schirn.deep.losses import PartialMultiLabelLoss, candidate_nll
from schirn.deep.posterior import NoiseLaw, bayes, row_posterior
from schirn.deep.rank import rank_loss

__all__ = [
    "Confidences",
    "DeepSieve",
    "GeneralizedCrossEntropy",
    "NoiseLaw",
    "PARDLoss",
    "PartialMultiLabelLoss",
    "SchirnHead",
    "SieveHead",
    "bayes",
    "candidate_nll",
    "rank_loss",
    "row_posterior",
]
