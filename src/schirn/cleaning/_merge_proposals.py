"""Tags with the same meaning: similar spellings or synonyms, used on the same kind of rows."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from schirn._input import Array
from schirn.cleaning._relation_proposals import share_interval
from schirn.cleaning._spelling import PLURAL, SAME_NAME, alike_pairs, is_one_name
from schirn.cleaning._tag_use import Centroids, TagUse
from schirn.cleaning.vocabulary import VocabularyLine

# One-sided 90% bounds.
_SIDE = 1.28
# Wider bounds say nothing, and are not shown.
_ANY_LIKENESS = 0.5
# Minimum lower bound of the likeness of two spellings of one name.
_SPELLING_LIKENESS = 0.3
# Minimum lower bound of the likeness of two names that differ in their ending.
_ENDING_LIKENESS = 0.6
# The same bound for a question about them, and minimum number of rows of the rarer one: any two
# tags of one topic may share a row's words.
_ALIKE_STEMS = 0.5
_STEM_ROWS = 2
# Minimum lower bound of the likeness of two synonyms.
_SYNONYM_LIKENESS = 0.75
# Minimum number of rows of each of two synonyms, which no spelling supports.
_SYNONYM_ROWS = 8
# Minimum standard error of one view, so that neither view decides alone.
_LEAST_ERROR = 0.1
# Below this likeness in one view, the other view does not count.
_CONTRADICTS = 0.4
# Number of standard errors added to a likeness before it counts as a contradiction.
_DOUBT = 0.25
# Maximum share of the rarer tag's rows that also have the other tag, for names that differ in their
# ending: tags listed together more often are not alternatives.
_RARELY_TOGETHER = 0.25
# The same share for synonyms.
_SYNONYMS_TOGETHER = 0.1
# Minimum number of rows of the more frequent of two spellings of one name, or of the rarer tag of
# another pair.
_NAME_ROWS = 3
# Confidence in two spellings of one name whose rows do not show two meanings, and otherwise; the
# second is also the least confidence in a plural.
_SURE_NAME = 0.9
_ONE_NAME = 0.2
# Number of standard errors between the likeness of two spellings of one name, or of a name and its
# plural, and a likeness that shows two meanings. Rows of one source, which spells a name its way,
# are more alike than independent rows, so 1.28 as for other bounds would be too few.
_EVIDENT = 3.0
# Minimum lower bound of the share of the rarer name's rows that also have its plural or singular,
# for two tags that are listed together on purpose.
_MOSTLY_TOGETHER = 0.5
# Minimum number of rows of the more frequent tag of another pair.
_ENDING_ROWS = 5
# Number of the largest entries of a mean row used to find neighbours.
_TOP_ENTRIES = 40
# Number of neighbours compared with each tag.
_NEAREST = 8
# Minimum cosine of the largest entries of two neighbours.
_NEAR = 0.15
# Maximum number of tags that share one of the largest entries; features shared by more tags do not
# distinguish them.
_MOST_SHARING = 300


@dataclass(frozen=True, eq=False)
class PairUse:
    """Pairs of tags, and the likeness of their rows.

    Attributes
    ----------
    rare, frequent : int arrays
        The rarer and the more frequent tag of each pair.
    n_common : int array
        Number of rows with both tags.
    spelling : list of str
        Difference of the two spellings, "" for unrelated names.
    likeness, error : float arrays
        Likeness and standard error by the features, or by the other tags if there are none; NaN if
        unknown.
    context, context_error : float arrays
        Likeness and standard error by the other tags.
    """

    rare: Array
    frequent: Array
    n_common: Array
    spelling: list[str]
    likeness: Array
    error: Array
    context: Array
    context_error: Array


def pair_use(use: TagUse, spelled: dict[tuple[int, int], str]) -> PairUse:
    """Return the likeness of the rows of pairs of tags, leaving out hopeless pairs.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.
    spelled : dict from (int, int) to str
        Pairs and the difference of their spellings, "" for unrelated names.

    Returns
    -------
    PairUse
    """
    pairs = np.array(list(spelled), dtype=np.int64).reshape(-1, 2)
    counts = use.counts
    is_swapped = counts[pairs[:, 0]] > counts[pairs[:, 1]]
    rare = np.where(is_swapped, pairs[:, 1], pairs[:, 0])
    frequent = np.where(is_swapped, pairs[:, 0], pairs[:, 1])
    n_common = use.n_common(rare, frequent)
    context = use.contexts.likeness(rare, frequent, n_common)
    likeness = context
    if use.contents is not None:
        likeness = use.contents.likeness(rare, frequent, n_common)
    spelling = np.array(list(spelled.values()), dtype=object)
    # Errors cost the most time, and are not needed for dissimilar pairs.
    is_other = spelling == ""
    is_alike = ~is_other | ((likeness >= _SYNONYM_LIKENESS) & ~(context < _ENDING_LIKENESS))
    rare = rare[is_alike]
    frequent = frequent[is_alike]
    likeness = likeness[is_alike]
    context = context[is_alike]
    context_error = use.contexts.error(rare, frequent)
    error = context_error if use.contents is None else use.contents.error(rare, frequent)
    return PairUse(
        rare,
        frequent,
        n_common[is_alike],
        spelling[is_alike].tolist(),
        likeness,
        error,
        context,
        context_error,
    )


def propose_merges(use: TagUse) -> list[VocabularyLine]:
    """Propose merges of tags with the same meaning.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.

    Returns
    -------
    list of VocabularyLine
        Most confident first; no tag is merged twice, and no target is itself merged.
    """
    spelled = dict(alike_pairs(use.tags.names))
    present = use.counts > 0
    spelled = {pair: why for pair, why in spelled.items() if present[list(pair)].all()}
    if use.contents is not None:
        for view in (use.contents, use.contexts):
            for pair in neighbours(view, _SYNONYM_ROWS):
                spelled.setdefault(pair, "")
    if not spelled:
        return []
    pairs = pair_use(use, spelled)
    confidence = merge_confidence(use, pairs)
    # All spellings of one name go to the most frequent one, before anything else does.
    is_sure_name = _are_one_name(use, pairs) & (confidence > 0.5)
    first = np.where(is_sure_name, use.counts[pairs.frequent], 0)
    # Of equally frequent ones, to the one that is the target of all others.
    target = np.where(is_sure_name, pairs.frequent, -1)
    # Otherwise the nearest spelling comes first.
    is_far = ~np.isin(pairs.spelling, list(SAME_NAME))
    n_rare = use.counts[pairs.rare]
    order = np.lexsort((pairs.rare, -n_rare, is_far, -confidence, -target, -first))
    target_of: dict[int, int] = {}
    lines = []
    for k in order.tolist():
        rare = int(pairs.rare[k])
        frequent = int(pairs.frequent[k])
        is_taken = rare in target_of or frequent in target_of or rare in target_of.values()
        if confidence[k] <= 0 or is_taken:
            continue
        target_of[rare] = frequent
        lines.append(_line(use, pairs, k, float(confidence[k])))
    return sorted(lines, key=lambda line: -line.confidence)


def merge_confidence(use: TagUse, pairs: PairUse) -> Array:
    """Return the confidence that each pair has the same meaning.

    Parameters
    ----------
    use : TagUse
        Use of the tags in the table.
    pairs : PairUse
        The pairs.

    Returns
    -------
    float array
        Above 0.5 for pairs proposed with confidence; 0 for pairs that are not proposed.
    """
    upper, lower, cautious, highest = _combined(pairs)
    common_share = pairs.n_common / np.maximum(use.counts[pairs.rare], 1)
    spelling = np.array(pairs.spelling, dtype=object)
    is_name = np.isin(spelling, list(SAME_NAME))
    is_other = spelling == ""
    min_likeness = np.where(is_name, _SPELLING_LIKENESS, _ENDING_LIKENESS)
    min_likeness = np.where(is_other, _SYNONYM_LIKENESS, min_likeness)
    max_share = np.where(is_name, 0.5, _RARELY_TOGETHER)
    max_share = np.where(is_other, _SYNONYMS_TOGETHER, max_share)
    # A few rows of the other tag are not representative.
    rows = use.counts[pairs.frequent]
    is_known = rows >= np.where(is_name, _NAME_ROWS, _ENDING_ROWS)
    is_known &= is_name | (use.counts[pairs.rare] >= _NAME_ROWS)
    is_sure = (lower >= min_likeness) & (common_share <= max_share) & is_known
    # With one row each, agreement is a coincidence.
    is_likely = (upper >= 0.5) & ~is_other & (rows >= _NAME_ROWS)
    # Many words share a stem by chance, so rows that may be alike are not enough.
    is_used_alike = (cautious >= _ALIKE_STEMS) & (use.counts[pairs.rare] >= _STEM_ROWS)
    is_likely &= (spelling != "ending") | is_used_alike
    sure = 0.5 + 0.5 * np.clip(lower, 0, 1) * rows / (rows + _ENDING_ROWS)
    likely = 0.5 * np.clip(cautious, 0.02, 0.98) * (1.02 - common_share)
    # Differences in case and hyphens do not make another name, unless the rows clearly differ.
    is_unlike = (highest < _SPELLING_LIKENESS) & (use.counts[pairs.rare] >= _NAME_ROWS)
    is_sure_name = _are_one_name(use, pairs) & ~is_unlike
    sure = np.where(is_sure_name, np.maximum(np.where(is_sure, sure, 0), _SURE_NAME), sure)
    is_sure |= is_sure_name
    # One name in two forms is worth a question, whatever its rows say.
    together, _ = share_interval(pairs.n_common, use.counts[pairs.rare])
    is_plural = (spelling == PLURAL) & ~is_unlike & (together < _MOSTLY_TOGETHER)
    is_form = is_name | is_plural
    likely = np.where(is_form, np.maximum(likely, _ONE_NAME), likely)
    return np.where(is_sure, sure, np.where(is_likely | is_form, likely, 0.0))


def _are_one_name(use: TagUse, pairs: PairUse) -> Array:
    """Check whether the names of each pair differ only in case, spaces and hyphens."""
    names = use.tags.names
    cells = zip(pairs.rare.tolist(), pairs.frequent.tolist(), pairs.spelling, strict=True)
    is_one = [bool(why) and is_one_name(names[i], names[j]) for i, j, why in cells]
    return np.array(is_one, dtype=bool)


def _combined(pairs: PairUse) -> tuple[Array, Array, Array, Array]:
    """Return the smaller likeness, a larger one if in doubt, and bounds of the mean of both.

    Two bounds are lower ones: the likeness of a few rows may be far above 1 by chance, so the
    second, cautious bound caps it at 1. The last is an upper bound that the likeness evidently does
    not exceed, 1 if nothing is known.
    """
    context = np.where(np.isfinite(pairs.context), pairs.context, pairs.likeness)
    context_error = np.where(np.isfinite(pairs.context), pairs.context_error, pairs.error)
    # Neither view decides alone, however small its error.
    precision = 1 / np.maximum(pairs.error, _LEAST_ERROR) ** 2
    context_precision = 1 / np.maximum(context_error, _LEAST_ERROR) ** 2
    total = precision + context_precision
    mean = (precision * pairs.likeness + context_precision * context) / total
    margin = _SIDE / np.sqrt(total)
    lower = mean - margin
    highest = np.nan_to_num(mean + _EVIDENT / np.sqrt(total), nan=1.0)
    # A view based on few rows gets a larger error.
    upper = np.minimum(pairs.likeness + _DOUBT * pairs.error, context + _DOUBT * context_error)
    lower = np.where(upper < _CONTRADICTS, 0, lower)
    lower = np.nan_to_num(lower, nan=0.0)
    cautious = np.minimum(lower, 1 - np.nan_to_num(margin))
    return np.nan_to_num(upper, nan=0.0), lower, cautious, highest


def neighbours(means: Centroids, min_rows: int) -> list[tuple[int, int]]:
    """Return pairs of tags of which one is among the nearest of the other by its mean row.

    Parameters
    ----------
    means : Centroids
        Mean rows of all tags.
    min_rows : int
        Minimum number of rows of a tag.

    Returns
    -------
    list of (int, int)
    """
    tags = np.flatnonzero((means.counts >= min_rows) & (means.spread > 0))
    if len(tags) < 2:
        return []
    top = _largest_entries(means, tags)
    pairs: set[tuple[int, int]] = set()
    step = 1_000
    for first in range(0, len(tags), step):
        block = sp.csr_array(top[first : first + step] @ top.T)
        line = np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        values = np.where(line + first == block.indices, -1, block.data)
        order = np.lexsort((-values, line))
        rank = np.arange(len(order)) - block.indptr[:-1][line]
        best = order[(rank < _NEAREST) & (values[order] > _NEAR)]
        sources = tags[line[best] + first]
        nearest = tags[block.indices[best]]
        pairs.update(
            zip(
                np.minimum(sources, nearest).tolist(),
                np.maximum(sources, nearest).tolist(),
                strict=True,
            )
        )
    return sorted(pairs)


def _largest_entries(means: Centroids, tags: Array) -> sp.csr_array:
    """Return the largest entries of the centred mean rows, as rows of unit length."""
    part = means.means[tags]
    center = means.center
    line = np.repeat(np.arange(len(tags)), np.diff(part.indptr))
    values = part.data - center[part.indices]
    order = np.lexsort((-values, line))
    rank = np.arange(len(order)) - part.indptr[:-1][line]
    chosen = order[rank < _TOP_ENTRIES]
    chosen = chosen[values[chosen] > 0]
    column = part.indices[chosen]
    # A feature shared by very many tags does not distinguish them.
    sharing = np.bincount(column, minlength=len(center))
    chosen = chosen[sharing[column] <= _MOST_SHARING]
    data = values[chosen].astype(np.float32)
    shape = (len(tags), len(center))
    top = sp.csr_array((data, (line[chosen], part.indices[chosen])), shape=shape)
    squares = np.asarray(top.multiply(top).sum(axis=1)).ravel()
    scale = 1 / np.sqrt(np.where(squares > 0, squares, 1))
    return sp.csr_array(sp.diags_array(scale.astype(np.float32)) @ top)


def _alike(what: str, likeness: float, error: float) -> str:
    """Return the bounds of the likeness of two tags by one view, in words; "" if it may be any."""
    if not np.isfinite(likeness):
        return ""
    margin = _SIDE * error if np.isfinite(error) else 1.0
    low, high = np.clip((min(likeness, 1) - margin, likeness + margin), 0, 1)
    return f"{what} {low:.1f} to {high:.1f} alike" if high - low < _ANY_LIKENESS else ""


def _line(use: TagUse, pairs: PairUse, k: int, confidence: float) -> VocabularyLine:
    rare = int(pairs.rare[k])
    frequent = int(pairs.frequent[k])
    n_common = int(pairs.n_common[k])
    spelling = pairs.spelling[k] or "other name"
    by = "other tags" if use.contents is None else "texts"
    reasons = [spelling, _alike(by, pairs.likeness[k], pairs.error[k])]
    if use.contents is not None and np.isfinite(pairs.context[k]):
        reasons.append(_alike("other tags", pairs.context[k], pairs.context_error[k]))
    share = n_common / use.counts[rare]
    reasons.append(f"together in {share:.0%} of its rows")
    return VocabularyLine(
        "merge",
        use.tags.names[rare],
        use.tags.names[frequent],
        int(use.counts[rare]),
        int(use.counts[frequent]),
        n_common,
        "; ".join(filter(None, reasons)),
        confidence=round(confidence, 3),
    )
