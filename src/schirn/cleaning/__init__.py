"""Rank suspicious tags, ask about some, act on the answers; train on the tags that are left."""

from schirn.cleaning.centroid_ranker import CentroidRanker
from schirn.cleaning.certificate import Certificate
from schirn.cleaning.decisions import Carried, Decision, Decisions, RowContent
from schirn.cleaning.find import find_noisy_labels
from schirn.cleaning.model_rankers import FoldRanker, SieveRanker
from schirn.cleaning.nightly import TagState, Update, update_tags
from schirn.cleaning.noisy_labels import MissingTags, NoisyLabels
from schirn.cleaning.questions import Questions
from schirn.cleaning.ranker import (
    Annotator,
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
)
from schirn.cleaning.storage import Storage
from schirn.cleaning.swaps import Swaps
from schirn.cleaning.text_ranker import TextRanker
from schirn.cleaning.why import Explanation, Neighbour, Reasons, Word
from schirn.labels.votes import Votes, votes_to_candidates
from schirn.tables.changes import Change, ChangeList
from schirn.tables.checks import Finding, look_at_table
from schirn.tables.expect import Expectations, RunSummary, Violation
from schirn.tables.merges import (
    Merge,
    merge_tags,
    propose_merges,
    read_merges,
    write_merges,
)

__all__ = [
    "Annotator",
    "Carried",
    "CentroidRanker",
    "Certificate",
    "Change",
    "ChangeList",
    "Decision",
    "Decisions",
    "Evidence",
    "Expectations",
    "Explanation",
    "Finding",
    "FoldRanker",
    "Merge",
    "MissingTags",
    "Neighbour",
    "NoisyLabels",
    "Questions",
    "Ranker",
    "RankingTask",
    "Reasons",
    "RowContent",
    "RunSummary",
    "SieveRanker",
    "Storage",
    "Swaps",
    "TagState",
    "TextRanker",
    "UnlistedCells",
    "Update",
    "Violation",
    "Votes",
    "Word",
    "find_noisy_labels",
    "look_at_table",
    "merge_tags",
    "propose_merges",
    "read_merges",
    "update_tags",
    "votes_to_candidates",
    "write_merges",
]
