"""Rank suspicious tags, ask about some, act on the answers; train on the tags that are left."""

from schirn.cleaning._arguments import ANSWER_WORDS as ANSWER_WORDS
from schirn.cleaning._arguments import SEPARATORS as SEPARATORS
from schirn.cleaning._arguments import other_separator as other_separator
from schirn.cleaning._departed import Departed
from schirn.cleaning._draws import DrawLedger
from schirn.cleaning._model_rankers import FoldRanker, SieveRanker
from schirn.cleaning._opinions import Voice, parse_opinion
from schirn.cleaning._proposals import propose_vocabulary
from schirn.cleaning._ranked import MissingTags, RankedTags
from schirn.cleaning._rounds import Answers, Round, Sample
from schirn.cleaning._spelling import SAME_NAME as SAME_NAME
from schirn.cleaning._spelling import alike_pairs as alike_pairs
from schirn.cleaning._storage import Storage
from schirn.cleaning._text_ranker import TextRanker
from schirn.cleaning._trade_off import TradeOff
from schirn.cleaning.centroid_ranker import CentroidRanker
from schirn.cleaning.certificate import Certificate
from schirn.cleaning.changes import Change, ChangeList
from schirn.cleaning.duplicates import (
    DifferingTag,
    DuplicateGroup,
    Duplicates,
    find_duplicates,
)
from schirn.cleaning.find import find_noisy_labels
from schirn.cleaning.noisy_labels import NoisyLabels
from schirn.cleaning.policy import Policy
from schirn.cleaning.questions import Questions
from schirn.cleaning.ranker import (
    Annotator,
    Evidence,
    Ranker,
    RankingTask,
    UnlistedCells,
)
from schirn.cleaning.relation_ranker import RelationRanker
from schirn.cleaning.swaps import LabelSwap, Swaps
from schirn.cleaning.vocabulary import (
    AppliedVocabulary,
    Vocabulary,
    VocabularyChange,
    VocabularyLine,
)
from schirn.cleaning.why import Explanation, Neighbour, Reasons, Word
from schirn.labels.votes import Votes, votes_to_candidates

__all__ = [
    "Annotator",
    "Answers",
    "AppliedVocabulary",
    "CentroidRanker",
    "Certificate",
    "Change",
    "ChangeList",
    "Departed",
    "DifferingTag",
    "DrawLedger",
    "DuplicateGroup",
    "Duplicates",
    "Evidence",
    "Explanation",
    "FoldRanker",
    "LabelSwap",
    "MissingTags",
    "Neighbour",
    "NoisyLabels",
    "Policy",
    "Questions",
    "RankedTags",
    "Ranker",
    "RankingTask",
    "Reasons",
    "RelationRanker",
    "Round",
    "Sample",
    "SieveRanker",
    "Storage",
    "Swaps",
    "TextRanker",
    "TradeOff",
    "UnlistedCells",
    "Vocabulary",
    "VocabularyChange",
    "VocabularyLine",
    "Voice",
    "Votes",
    "Word",
    "find_duplicates",
    "find_noisy_labels",
    "parse_opinion",
    "propose_vocabulary",
    "votes_to_candidates",
]
