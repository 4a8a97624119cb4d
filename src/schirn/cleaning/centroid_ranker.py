"""Judge tags of very many labels: only listed cells and a sample of the others are scored.

Nothing here has a row for each row of the table and a column for each label. With c tags, l labels
and k sampled cells per label, memory and time grow with c + k l.

1. Cells of one half of the rows are compared with the mean rows of the labels in the other half:
   all listed cells, and for each label some rows that do not list it.
2. A law of the scores (`schirn.cleaning.law`) tells how likely each tag is to be correct.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from schirn._progress import stage, track
from schirn.cleaning.centroids import score_by_centroids
from schirn.cleaning.groups import with_copies
from schirn.cleaning.law import Cells, fit_law, sample_unlisted
from schirn.cleaning.ranker import Evidence, Ranker, RankingTask
from schirn.labels.tags import Tags
from schirn.scale.copies import equal_rows

Array = np.ndarray
CENTROIDS = "label centroids"
"""What results call the ranker."""
# Rows without the label that are scored for each label; labels with more tags have more.
_N_UNLISTED = 20


@dataclass(eq=False)
class CentroidRanker(Ranker):
    """Judge very many labels, without any array of rows x labels.

    `find_noisy_labels` takes it by itself for more than 3,000 labels. With fewer, `Sieve` finds
    more, because it learns how labels occur together. The tags of one half of the rows are judged
    by the mean rows of the labels in the other half. It learns nothing from known tags, and does
    not look for missing ones.

    Examples
    --------
    >>> from schirn import find_noisy_labels
    >>> from schirn.cleaning import CentroidRanker
    >>> from schirn.datasets import make_partial_multilabel
    >>> data = make_partial_multilabel(
    ...     n_samples=400, n_features=30, n_labels=40, cardinality=2, r=2, random_state=0
    ... )
    >>> ranking = find_noisy_labels(data.X, data.candidates, method=CentroidRanker())
    >>> ranking.method, ranking.clean_sparse.shape
    ('label centroids', (400, 40))
    """

    @property
    def name(self) -> str:
        """What results call the ranker."""
        return CENTROIDS

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge each half of the rows by the other."""
        rng, tags = np.random.default_rng(task.random_state), task.tags
        stage("looking for copies")
        groups = with_copies(equal_rows(X), tags, task.groups)
        groups = np.arange(X.shape[0]) if groups is None else groups
        groups = np.unique(groups, return_inverse=True)[1]
        half = (rng.permutation(int(groups.max()) + 1) % 2)[groups]
        # Tags of the training rows for each half, which has the other number.
        listed = [_tags_of(tags, half != side) for side in range(2)]
        counts = np.stack([np.bincount(Y.indices, minlength=len(tags.names)) for Y in listed])

        row, column = sample_unlisted(tags, task.judged_columns, _N_UNLISTED)
        scored = counts[half[row], column] > 0
        row, column = row[scored], column[scored]
        # Without a single cell to compare with, a tag cannot be judged.
        judged = np.bincount(column, minlength=len(tags.names))[tags.column] > 0
        judged &= np.isin(tags.column, task.judged_columns)
        judged &= counts[half[tags.row], tags.column] > 0
        planted = task.planted
        rows, labels = np.c_[(tags.row, tags.column), (row, column), planted]
        scores = np.zeros(len(rows))
        for side in track(range(2), "half"):
            cells = np.flatnonzero(half[rows] == side)
            scores[cells] = score_by_centroids(
                X, listed[side], half != side, rows[cells], labels[cells]
            )
        tag_scores, unlisted, planted_scores = np.split(
            scores, np.cumsum([len(tags.row), len(row)])
        )
        cells = Cells(tags.column[judged], tag_scores[judged], column, unlisted)
        law = fit_law(cells, len(tags.names))
        z = law.log_odds(planted_scores, planted[1])
        z[counts[half[planted[0]], planted[1]] == 0] = np.nan
        return Evidence(law.log_odds(tag_scores, tags.column), judged, z)


def _tags_of(tags: Tags, rows: Array) -> sp.csr_array:
    """The tags of some rows, (n, l)."""
    chosen = rows[tags.row]
    cells = tags.row[chosen], tags.column[chosen]
    return sp.csr_array((np.ones(len(cells[0]), np.uint8), cells), shape=tags.shape)
