"""The steps of Sieve on one block of rows (see `schirn.scale.blocks`).

Scores are (experts, l, n). Probabilities and soft labels are kept for the candidates only: the
posterior needs no others, and outside them Q is zero.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from schirn.linalg.arrays import Array, like, namespace, to_numpy
from schirn.noise.model import CellPosterior, NoiseModel, cell_posterior
from schirn.scale.blocks import Block, Cells, Coordinates
from schirn.solvers.sieve_blocks import (
    Part,
    Parts,
    at,
    candidate_matrix,
    expand,
    leverage_factors,
    own_cells,
    projected,
    row_cells,
    take,
    values_of,
)
from schirn.solvers.sieve_pool import combine, soft_logit, stack_sums

# Probabilities handed to Bayes' rule stay this far from 0 and 1, those of known cells less so.
MARGIN = 1e-4
_CERTAIN = 1e-9
RATES = (1e-4, 0.98)


class State(NamedTuple):
    """What a block remembers; every field after the first two has one entry per part."""

    X: Any
    """Features that the parts share, or None; they never change."""
    parts: Parts
    factors: tuple[Any, ...] = ()
    """1/(1 - h) with the leverage h of each row, (experts, n)"""
    p: tuple[Any, ...] = ()
    """Probability of each candidate."""
    q: tuple[Any, ...] = ()
    """Posterior of each candidate."""
    scores: tuple[Any, ...] = ()
    """Leave-one-out scores (experts, l, n); between rounds the log-odds (l, n) of all rows."""
    held: tuple[Any, ...] = ()
    """Scores of the rows held out."""


Sums = tuple[Any, ...]


def hold(block: Block, state: None, X: Any, parts: Parts) -> tuple[State, Sums]:
    """Begin with parts that were made elsewhere."""
    return State(X, parts), (None,)


def count(block: Block, state: State) -> tuple[State, Sums]:
    """Of each part: F'Y, and the candidates of each label."""
    ones, sums = [], []
    for part in state.parts.on(state.X):
        cells = part.candidates.cells
        listed = np.bincount(part.candidates.label, minlength=cells.shape[1]).astype(np.float64)
        ones.append(like(np.ones(len(cells)), values_of(part.rows)))
        sums += [projected(part, ones[-1], listed), listed]
    return state._replace(p=tuple(ones), q=tuple(ones)), tuple(sums)


def held_loss(
    block: Block, state: State, messages: Sequence[Any], score: Callable[..., Any] | None
) -> tuple[State, Sums]:
    """Of each split, for one ridge: loss on the rows held out, and how much it is a sum of."""
    sums: list[float] = []
    for part, message in zip(state.parts.on(state.X)[1:], messages, strict=True):
        held: Any = part.held
        cells = held.candidates.cells
        S = expand(held.rows, message)
        if score is None:
            sums += [_squared_error(S, cells), float(cells.shape[0] * cells.shape[1])]
            continue
        Y = candidate_matrix(cells).toarray()
        listed = Y.sum(axis=1)
        counted = float(((listed > 0) & (listed < Y.shape[1])).sum())
        sums += [-score(Y, to_numpy(S).T) * counted, counted]
    return state, tuple(sums)


def begin(
    block: Block,
    state: State,
    coordinates: Sequence[Coordinates],
    lams: Sequence[float],
    first: int,
    messages: Sequence[Any],
) -> tuple[State, Sums]:
    """Leverages; of each part, sum and number of the first scores outside the candidates."""
    factors, first_scores, sums = [], [], []
    for part, where, message, y in zip(
        state.parts.on(state.X), coordinates, messages, state.q, strict=True
    ):
        factors.append(leverage_factors(part.rows, where, lams))
        cells = part.candidates.cells
        S = _leave_out(expand(part.rows, message), y, cells, factors[-1][first])
        first_scores.append(at(S, cells))
        outside = cells.shape[0] * cells.shape[1] - len(cells)
        sums += [_double_sum(S) - _double_sum(first_scores[-1]), outside]
    return state._replace(factors=tuple(factors), p=tuple(first_scores)), tuple(sums)


def first_chances(block: Block, state: State, rates: Sequence[Any]) -> tuple[State, Sums]:
    """Probabilities from the first scores: what exceeds the rate of false labels."""
    chances = []
    for part, S, rate in zip(state.parts.on(state.X), state.p, rates, strict=True):
        if part.rates is not None:
            rate = np.clip(part.rates, *RATES)[to_numpy(part.candidates.cells.row)]
        values = (to_numpy(S) - rate) / (1 - rate)
        chances.append(like(np.clip(values, MARGIN, 1 - MARGIN), S))
    return state._replace(p=tuple(chances)), (None,)


def soften(block: Block, state: State, noises: Sequence[NoiseModel]) -> tuple[State, Sums]:
    """Posterior of the candidates; of each part F'Q and the sums for the noise model."""
    soft, sums = [], []
    for part, p, noise in zip(state.parts.on(state.X), state.p, noises, strict=True):
        found = _posterior(part, to_numpy(p), noise)
        soft.append(like(_by_label(part, found.q), p))
        total, *counts = _noise_sums(part, found)
        sums += [projected(part, soft[-1], total), total, *counts]
    return state._replace(q=tuple(soft)), tuple(sums)


def soften_known(block: Block, state: State, noise: NoiseModel) -> tuple[State, Sums]:
    """As `soften` for all rows, where something is known about some candidates.

    The sums for the noise model are those of the rows where something is not known, followed by
    their number and their candidates.
    """
    (part,), (p,) = state.parts.on(state.X), state.p
    q = _known_posterior(part, p, noise)
    row, l = to_numpy(part.candidates.cells.row), part.candidates.cells.shape[1]
    open_rows = np.unique(row[part.known == 0])
    rest = part._replace(
        candidates=row_cells(candidate_matrix(part.candidates.cells)[open_rows]),
        rates=None if part.rates is None else part.rates[open_rows],
    )
    inside = np.isin(row, open_rows)
    found = _posterior(rest, _certain(part, p)[inside], noise)
    soft, total = like(q, p), np.bincount(to_numpy(part.candidates.cells.label), q, minlength=l)
    listed = np.bincount(rest.candidates.label, minlength=l).astype(np.float64)
    sums = (projected(part, soft, total), *_noise_sums(rest, found), len(open_rows), listed)
    return state._replace(q=(soft,)), sums


def score(
    block: Block, state: State, messages: Sequence[Any], leader: int, correlated: bool
) -> tuple[State, Sums]:
    """Leave-one-out scores of the ridges; of each part the sums for label correlations."""
    scores, held = [], []
    sums: list[Any] = []
    for part, factors, q, message in zip(
        state.parts.on(state.X), state.factors, state.q, messages, strict=True
    ):
        S = _experts(expand(part.rows, message), len(factors))
        for k in range(len(factors)):
            _leave_out(S[k], q, part.candidates.cells, factors[k])
        scores.append(S)
        rest = part.held
        held.append(None if rest is None else _experts(expand(rest.rows, message), len(factors)))
        sums += stack_sums(S[leader], q, part.candidates.cells) if correlated else [None] * 3
    return state._replace(scores=tuple(scores), held=tuple(held)), tuple(sums)


def pool_cells(
    block: Block,
    state: State,
    weights: np.ndarray,
    priors: Sequence[np.ndarray],
    stacks: Sequence[Any],
    leader: int,
    noises: Sequence[NoiseModel],
    picks: Sequence[tuple[np.ndarray, np.ndarray]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Expert log-odds and posterior of some cells of the rows held out of each split.

    Parameters
    ----------
    picks : per split the rows of these cells, rising, as places among all rows, and the labels
    """
    found = []
    for part, S, prior, stack, noise, (rows, labels) in zip(
        state.parts.on(state.X)[1:],
        state.held[1:],
        priors[1:],
        stacks[1:],
        noises[1:],
        picks,
        strict=True,
    ):
        cells = part.held.candidates.cells
        experts = [*S] if stack is None else [*S, stack.stack.fitted(S[leader])]
        z = combine(weights, [at(E, cells) for E in experts], prior[to_numpy(cells.label)])
        q = _posterior(part.held, to_numpy(_sigmoid(z)), noise).q
        target = np.zeros(cells.shape[0] * cells.shape[1])
        target[to_numpy(cells.flat)] = _by_label(part.held, q)
        place, label = own_cells(part.held_rows, rows, labels)
        flat = label * cells.shape[0] + place
        where = like(flat, cells.flat, "own")
        columns = [soft_logit(to_numpy(take(E, where)).astype(np.float64)) for E in experts]
        Z = np.column_stack([np.ones(len(flat)), *columns, prior[label]])
        found.append((Z, target[flat]))
    return found


def judge(
    block: Block,
    state: State,
    weights: np.ndarray,
    priors: Sequence[np.ndarray],
    stacks: Sequence[Any],
    leader: int,
    left_out: bool = True,
) -> tuple[State, Sums]:
    """New log-odds and probabilities; the cross-entropy of the soft labels of all rows.

    Parameters
    ----------
    left_out : whether the label correlations were fitted to these rows and soft labels
    """
    chances, log_odds, loss = [], [], 0.0
    for k, (part, S, q, prior, stack) in enumerate(
        zip(state.parts.on(state.X), state.scores, state.q, priors, stacks, strict=True)
    ):
        cells = part.candidates.cells
        experts = [*S]
        if stack is not None and left_out:
            fitted, factors = stack.leave_one_out(S[leader])
            experts.append(_leave_out(fitted, q, cells, factors))
        elif stack is not None:
            experts.append(stack.stack.fitted(S[leader]))
        z = combine(weights, experts, prior[:, None])
        chances.append(_sigmoid(at(z, cells)))
        log_odds.append(z if k == 0 else None)
        if k == 0:
            loss = _cross_entropy(z, q, cells)
    nothing = (None,) * len(chances)
    return state._replace(p=tuple(chances), scores=tuple(log_odds), held=nothing), (loss,)


def trust(
    block: Block, state: State, where: Coordinates, lam: float, message: Any
) -> tuple[State, Sums]:
    """One ridge that takes every candidate as true: its log-odds, and the squared error."""
    part, y = state.parts.on(state.X)[0], state.q[0]
    cells = part.candidates.cells
    S = expand(part.rows, message)
    loss = _squared_error(S, cells)
    factors = leverage_factors(part.rows, where, [lam])
    z = soft_logit(_leave_out(S, y, cells, factors[0]))
    return state._replace(factors=(factors,), p=(y,), q=(y,), scores=(z,)), (loss,)


def first_state(block: Block, state: State) -> tuple[State, Sums]:
    """The state without inner splits."""
    X, parts, *rest = state
    first = parts._replace(parts=parts.parts[:1])
    return State(X, first, *(field[:1] for field in rest)), (None,)


def soft_labels_of(block: Block, state: State, noise: NoiseModel) -> sp.csr_array:
    """Posterior (n, l) of the candidates, rows in the order of the block."""
    part = state.parts.on(state.X)[0]
    if part.known is None:
        q = _posterior(part, to_numpy(state.p[0]), noise).q
    else:
        q = _known_posterior(part, state.p[0], noise)[part.candidates.order]
    places = (q, part.candidates.label, part.candidates.indptr)
    return sp.csr_array(places, shape=part.candidates.cells.shape)[np.argsort(state.parts.order)]


def log_odds_of(block: Block, state: State) -> np.ndarray:
    """Log-odds (n, l) of all labels, rows in the order of the block."""
    z = to_numpy(state.scores[0])
    out = np.empty(z.T.shape, dtype=z.dtype)
    out[state.parts.order] = z.T
    return out


def rates_of(block: Block, state: State) -> np.ndarray:
    """Known rates of all rows, in the order of the block."""
    rates: Any = state.parts.on(state.X)[0].rates
    out = np.empty(len(state.parts.order))
    out[state.parts.order] = np.clip(rates, *RATES)
    return out


def _experts(scores: Array, n_experts: int) -> Array:
    """(experts l, n) as (experts, l, n)."""
    shape = (n_experts, scores.shape[0] // n_experts, scores.shape[1])
    return namespace(scores).reshape(scores, shape)


def _leave_out(S: Array, q: Array, cells: Cells, factors: Array) -> Array:
    """Q - (Q - S) factors for fitted scores S (l, n), written into S."""
    S *= factors
    flat = namespace(S).reshape(S, (-1,))
    flat[cells.flat] += q * (1 - factors[cells.row])
    return S


def _posterior(part: Part, p: np.ndarray, noise: NoiseModel) -> CellPosterior:
    """Posterior, row after row, of the probabilities p, label after label."""
    _, order, indptr, label = part.candidates
    if part.rates is not None:
        noise = noise._replace(rate=np.clip(part.rates, *RATES))
    return cell_posterior(p[order], indptr, label, part.candidates.cells.shape[1], noise)


def _by_label(part: Part, values: np.ndarray) -> np.ndarray:
    """Values given row after row, label after label."""
    out = np.empty_like(values)
    out[part.candidates.order] = values
    return out


def _noise_sums(part: Part, found: CellPosterior) -> list[np.ndarray]:
    """Soft labels of each label, and the two histograms with room for all counts."""
    l = part.candidates.cells.shape[1]
    total = np.bincount(part.candidates.label, found.q, minlength=l)
    true = np.pad(found.true_counts, (0, l + 1 - len(found.true_counts)))
    return [total, found.noise_counts, true]


def _certain(part: Part, p: Array) -> np.ndarray:
    """Probabilities of the candidates, with those that are known."""
    known, chances = part.known, to_numpy(p).astype(np.float64)
    assert known is not None
    return np.where(known > 0, 1 - _CERTAIN, np.where(known < 0, _CERTAIN, chances))


def _known_posterior(part: Part, p: Array, noise: NoiseModel) -> np.ndarray:
    """Posterior label after label; what is known is as told."""
    known = part.known
    assert known is not None
    q = _by_label(part, _posterior(part, _certain(part, p), noise).q)
    return np.where(known > 0, 1.0, np.where(known < 0, 0.0, q))


def _sigmoid(z: Array) -> Array:
    """Probabilities of log-odds, kept off 0 and 1."""
    xp = namespace(z)
    return xp.clip(1 / (1 + xp.exp(-xp.clip(z, -30, 30))), MARGIN, 1 - MARGIN)


def _cross_entropy(z: Array, q: Array, cells: Cells) -> float:
    """Sum of -Q log P - (1 - Q) log(1 - P) over all cells, for the probabilities P of z."""
    xp = namespace(z)
    most = float(np.log1p(-MARGIN) - np.log(MARGIN))
    z = xp.clip(z, -most, most)
    # log(1 + exp(z)), and for the candidates minus q z.
    total = _double_sum(xp.log(1 + xp.exp(-abs(z)))) + _double_sum(xp.clip(z, 0, None))
    return total - _double_sum(q * at(z, cells))


def _squared_error(S: Array, cells: Cells) -> float:
    """||S - Y||_F^2 for scores S (l, n)."""
    return _double_sum(S * S) - 2 * _double_sum(at(S, cells)) + len(cells)


def _double_sum(values: Array) -> float:
    xp = namespace(values)
    return float(xp.sum(values, dtype=xp.float64))
