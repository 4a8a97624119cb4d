"""Convert votes of several workers to candidates with a prior confidence."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn._input import Array, is_missing
from schirn.exceptions import InputError
from schirn.labels.known import read_cells
from schirn.labels.tags import Tags


class Ballots(NamedTuple):
    """One ballot per row and annotator, with the labels chosen.

    Attributes
    ----------
    row, annotator : int arrays of shape (m,)
    chosen : CSR array of shape (m, l)
        1 for chosen labels.
    """

    row: Array
    annotator: Array
    chosen: sp.csr_array


class Votes(NamedTuple):
    """Candidates that result from votes.

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
    voters : int array of shape (n,)
        Number of workers who saw each item.
    workers : list
        Worker for each index in `ballots.annotator`.
    ballots : Ballots
    """

    candidates: Array
    counts: Array
    prior: Array
    items: list[Any]
    label_names: list[str]
    voters: Array
    workers: list[Any]
    ballots: Ballots


def votes_to_candidates(
    items: Iterable[Hashable],
    workers: Iterable[Hashable],
    tags: Iterable[Any],
    *,
    order: Sequence[Hashable] | None = None,
) -> Votes:
    """Convert a table of (item, worker, tag) to candidate tags with a prior confidence.

    Parameters
    ----------
    items, workers, tags : iterables of the same length
        One vote per position; a repeated vote counts once. A missing tag means that the worker saw
        the item but gave it no tag.
    order : sequence, optional
        Items in the order of the rows of X; by default, the order of their first votes.

    Returns
    -------
    Votes
        Pass its `candidates`, and the object itself as `votes`, to `find_noisy_labels` or
        `Sieve.fit`. Methods that take no votes can use `prior`, which is (v + 1) / (w + 2) for a
        tag with v votes from w workers who saw the item.

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
    items = list(items)
    workers = list(workers)
    tags = list(tags)
    if not len(items) == len(workers) == len(tags):
        sizes = f"{len(items)}, {len(workers)}, {len(tags)}"
        raise InputError(f"items, workers and tags must have the same length, not {sizes}")
    known = list(dict.fromkeys(items)) if order is None else list(order)
    row = {item: i for i, item in enumerate(known)}
    if len(row) != len(known):
        raise InputError("order names an item twice; give each item once")
    unknown = next((item for item in items if item not in row), None)
    if unknown is not None:
        raise InputError(f"the item {unknown!r} has votes but is missing from order")
    texts = [None if is_missing(tag) else str(tag) for tag in tags]
    names = sorted({tag for tag in texts if tag is not None})
    column = {name: j for j, name in enumerate(names)}
    who = list(dict.fromkeys(workers))
    number = {worker: k for k, worker in enumerate(who)}
    # One ballot per item and worker, in the order of the table; a repeated vote counts once.
    ballot = {pair: k for k, pair in enumerate(dict.fromkeys(zip(items, workers, strict=True)))}
    votes = {
        (ballot[item, worker], column[tag])
        for item, worker, tag in zip(items, workers, texts, strict=True)
        if tag is not None
    }
    voted, label = np.array(sorted(votes), dtype=np.int64).reshape(-1, 2).T
    shape = len(ballot), len(names)
    chosen = sp.csr_array((np.ones(len(voted)), (voted, label)), shape=shape)
    rows = np.array([row[item] for item, _ in ballot], dtype=np.int64)
    ballots = Ballots(rows, np.array([number[w] for _, w in ballot], dtype=np.int64), chosen)
    voters = np.bincount(rows, minlength=len(known))
    counts = np.zeros((len(known), len(names)), dtype=np.int64)
    np.add.at(counts, (rows[voted], label), 1)
    candidates = counts > 0
    prior = np.where(candidates, (counts + 1) / (voters[:, None] + 2), 0.0)
    return Votes(candidates.astype(np.uint8), counts, prior, known, names, voters, who, ballots)


def read_votes(votes: Any, Y: Array, names: Sequence[str]) -> tuple[Array, Array, Ballots | None]:
    """Return counts (n, l), voters (n,) and ballots for candidates Y, given the `votes` of a user.

    Parameters
    ----------
    votes : Votes, or (counts, voters)
        Result of `votes_to_candidates`, whose labels are matched by name; or the number of votes
        for each label, (n, l), and the number of voters, one for all rows or one per row.
    """
    ballots = None
    if isinstance(votes, Votes):
        column = {name: j for j, name in enumerate(votes.label_names)}
        unknown = next((name for name in names if name not in column), None)
        if unknown is not None:
            raise InputError(f"votes has no label {unknown!r}", parameter="votes")
        order = [column[name] for name in names]
        counts = votes.counts[:, order]
        voters = votes.voters
        ballots = votes.ballots._replace(chosen=sp.csr_array(votes.ballots.chosen[:, order]))
    elif isinstance(votes, tuple) and len(votes) == 2:
        try:
            counts, voters = (np.asarray(values, dtype=np.float64) for values in votes)
        except (TypeError, ValueError):
            raise InputError("votes must hold numbers", parameter="votes") from None
    else:
        raise InputError(
            f"votes must be what votes_to_candidates returns, or a pair (counts, voters), not "
            f"{type(votes).__name__}",
            parameter="votes",
        )
    if counts.shape != Y.shape or voters.shape not in ((), (len(Y),)):
        raise InputError(
            f"votes must hold counts of shape {Y.shape} and one number of voters per row, not "
            f"{counts.shape} and {voters.shape}",
            parameter="votes",
        )
    voters = np.broadcast_to(voters, len(Y))
    bad = ~((counts >= 0) & (counts <= voters[:, None]))
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise InputError(
            f"row {i}, label {names[j]!r} has {counts[i, j]:g} votes of {voters[i]:g} voters",
            parameter="votes",
        )
    return counts, voters, ballots


def votes_for_columns(votes: Any, tags: Tags, columns: Array) -> Any:
    """Return the votes for some columns of the tags; `Votes` are matched by name."""
    if isinstance(votes, Votes) or not (isinstance(votes, tuple) and len(votes) == 2):
        return votes
    counts = read_cells(votes[0], tags.names, "votes")
    if counts.shape != tags.shape:
        raise InputError(
            f"votes has counts of shape {counts.shape}, but the tags have {tags.shape}",
            parameter="votes",
        )
    return counts[:, columns], votes[1]
