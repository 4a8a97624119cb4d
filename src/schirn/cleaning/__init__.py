"""Find wrong tags, and train on the tags that are left."""

from schirn.cleaning.audit import Audit, AuditSample, Certificate
from schirn.cleaning.changes import Change, ChangeList
from schirn.cleaning.clean_then_fit import CleanThenFit
from schirn.cleaning.find import find_noisy_labels
from schirn.cleaning.found import Annotator, LabelSummary, MissingTags, NoisyLabels
from schirn.cleaning.threshold_curve import ThresholdCurve, ThresholdPoint
from schirn.cleaning.trust import LabelTrust, Trust, TrustPoint
from schirn.cleaning.why import Explanation, Neighbour, OtherTag, Reasons, Word
from schirn.labels.votes import Votes, votes_to_candidates

__all__ = [
    "Annotator",
    "Audit",
    "AuditSample",
    "Certificate",
    "Change",
    "ChangeList",
    "CleanThenFit",
    "Explanation",
    "LabelSummary",
    "LabelTrust",
    "MissingTags",
    "Neighbour",
    "NoisyLabels",
    "OtherTag",
    "Reasons",
    "ThresholdCurve",
    "ThresholdPoint",
    "Trust",
    "TrustPoint",
    "Votes",
    "Word",
    "find_noisy_labels",
    "votes_to_candidates",
]
