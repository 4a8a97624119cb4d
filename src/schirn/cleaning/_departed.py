"""Tags that were removed and have left the table since.

They are evidence, but there is nothing to ask or to change. If they were forgotten, only answers
"right" would remain of the most suspicious tags, and the answers would allow no more removals.
"""

from dataclasses import dataclass, field

import numpy as np

from schirn._input import Array


@dataclass(frozen=True, eq=False)
class Departed:
    """Tags that were removed and have left the table since, as parallel arrays.

    Attributes
    ----------
    row, column : (k,) int arrays
        Row and label of each tag.
    confidence : (k,) float array
        Probability that the tag was correct, according to the ranker.
    judged : (k,) bool array
        False for tags that are too rare to judge.
    answer : (k,) float array
        1 for "right", 0 for "wrong", 0.5 for "unsure", NaN without an answer.
    """

    row: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    column: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    confidence: Array = field(default_factory=lambda: np.zeros(0))
    judged: Array = field(default_factory=lambda: np.zeros(0, dtype=bool))
    answer: Array = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.row)

    @property
    def n_answers(self) -> int:
        """Number of tags answered "right" or "wrong"."""
        return int(np.isin(self.answer, (0, 1)).sum())
