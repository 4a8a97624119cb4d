"""Votes of several workers, turned into candidates with a prior confidence."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from schirn._input import is_missing
from schirn.exceptions import InputError

Array = np.ndarray


class Votes(NamedTuple):
    """Candidates from votes.

    Attributes
    ----------
    candidates : uint8 array of shape (n, l)
    counts : int array of shape (n, l)
        Number of votes for each tag.
    prior : float array of shape (n, l)
        Prior confidence of each candidate, 0 elsewhere.
    items : list
        The item of each row.
    label_names : list of str
    """

    candidates: Array
    counts: Array
    prior: Array
    items: list[Any]
    label_names: list[str]


def votes_to_candidates(
    items: Iterable[Hashable],
    workers: Iterable[Hashable],
    tags: Iterable[Any],
    *,
    rule: str | int = "any",
    order: Sequence[Hashable] | None = None,
) -> Votes:
    """Turn a table of (item, worker, tag) into candidate tags with a prior confidence.

    Parameters
    ----------
    items, workers, tags : iterables of the same length
        A repeated vote counts once. A missing tag means that the worker saw the item and gave it
        no tag.
    rule : "any" or int
        Votes that make a tag a candidate: one, or at least this many.
    order : sequence, optional
        The items in the order of the rows of X; by default in the order of their first vote.

    Returns
    -------
    Votes
        Pass `candidates` and `prior` to `find_noisy_labels`. The prior of a tag with v votes from
        w workers who saw the item is (v + 1) / (w + 2).

    Examples
    --------
    >>> from schirn.cleaning import votes_to_candidates
    >>> votes = votes_to_candidates(
    ...     ["a", "a", "a", "b"], ["ann", "bob", "bob", "ann"], ["dog", "dog", "cat", "cat"])
    >>> votes.items, votes.label_names, votes.counts.tolist()
    (['a', 'b'], ['cat', 'dog'], [[1, 2], [1, 0]])
    >>> votes.prior.round(2).tolist()
    [[0.5, 0.75], [0.67, 0.0]]
    """
    items, workers, tags = list(items), list(workers), list(tags)
    if not len(items) == len(workers) == len(tags):
        sizes = f"{len(items)}, {len(workers)}, {len(tags)}"
        raise InputError(f"items, workers and tags must have the same length, not {sizes}")
    need = 1 if rule == "any" else rule
    if isinstance(need, bool) or not isinstance(need, int) or need < 1:
        raise InputError(f'rule must be "any" or a whole number of at least 1, not {rule!r}')
    known = list(dict.fromkeys(items)) if order is None else list(order)
    row = {item: i for i, item in enumerate(known)}
    if len(row) != len(known):
        raise InputError("order names an item twice; give each item once")
    unknown = next((item for item in items if item not in row), None)
    if unknown is not None:
        raise InputError(f"the item {unknown!r} has votes but is missing from order")
    given = [None if is_missing(tag) else str(tag) for tag in tags]
    names = sorted({tag for tag in given if tag is not None})
    column = {name: j for j, name in enumerate(names)}
    counts = np.zeros((len(known), len(names)), dtype=np.int64)
    for item, _, tag in set(zip(items, workers, given, strict=True)):
        if tag is not None:
            counts[row[item], column[tag]] += 1
    n_workers = np.zeros(len(known), dtype=np.int64)
    for item, _ in set(zip(items, workers, strict=True)):
        n_workers[row[item]] += 1
    candidates = counts >= need
    prior = np.where(candidates, (counts + 1) / (n_workers[:, None] + 2), 0.0)
    return Votes(candidates.astype(np.uint8), counts, prior, known, names)
