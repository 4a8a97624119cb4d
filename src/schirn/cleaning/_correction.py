"""Learn a better ranking from answers: which tags are wrong more often than the ranker thinks.

Logistic regression of the answers on features x of each tag (the normal score of its rank, the
frequency of its label, the number of tags in its row) with an offset u for each label:

    minimise  Σ log(1 + exp(η)) - y η  +  5 |θ - θ0|²  +  3/2 |u|²  +  b²/20,    η = b + x θ + u

where θ0 keeps the ranking unchanged, with the weights that voices (`_opinions`) have without
answers. The scores are a weighted mean of these η and of the η fitted to the ranking alone. The
weights are the likelihoods of the answers, each predicted from the others, because few answers are
mostly noise.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtri

from schirn._input import Array
from schirn.cleaning.posterior import normal_scores

_RIDGE = 10.0
_OFFSET_RIDGE = 3.0
_CONSTANT_RIDGE = 0.1
# Strong, so that a voice with random opinions gains no weight by chance.
_VOICE_RIDGE = 40.0
_STEPS = 50
# Number of tags among which an answered tag is ranked without its answer.
_SAMPLE = 2000


def describe_tags(score: Array, row: Array, column: Array, voices: Array | None = None) -> Array:
    """Return features (m, 3 + v) of tags: score, voices, log frequency, log size of the row.

    All columns but the voices are standardised here.

    Parameters
    ----------
    score : (m,) float array
        Score of each tag, higher for tags that are more likely right.
    row, column : (m,) int arrays
        Row and label of each tag.
    voices : (m, v) float array, optional
        Standardised log-odds of each voice (source of opinions); 0 without an opinion.

    Returns
    -------
    float array
    """
    sizes = [np.log(np.bincount(values)[values]) for values in (column, row)]
    X = np.stack([score, *sizes], axis=1)
    spread = X.std(axis=0)
    X = (X - X.mean(axis=0)) / np.where(spread > 1e-12, spread, 1)
    voices = np.zeros((len(X), 0)) if voices is None else voices
    return np.column_stack([X[:, :1], voices, X[:, 1:]])


def corrected_normal_scores(
    X: Array, column: Array, index: Array, right: Array, voice_weights: Array | None = None
) -> Array:
    """Rank all tags by the answers and return normal scores, higher if more likely right.

    An answered tag gets its rank in the ranking by all other answers, because its own answer would
    make the ranking look better than it is. Both that tag and the tags it is compared with are
    scored without its answer. Otherwise the ranking would look worse than it is: every score falls
    a little without an answer "right", and rises without an answer "wrong".

    Parameters
    ----------
    X : (m, 3 + v) float array
        Features from `describe_tags`.
    column : (m,) int array
        Label of each tag.
    index : (k,) int array
        Answered tags, at least one.
    right : (k,) bool array
        True for tags answered "right".
    voice_weights : (v,) float array, optional
        Weights of the voices without answers, to which the fitted weights are shrunk.

    Returns
    -------
    (m,) float array
    """
    y = right.astype(float)
    design = np.column_stack([np.ones(len(X)), X])
    weights = np.zeros(0) if voice_weights is None else voice_weights
    mean = np.r_[0, 1, weights, 0, 0]
    n_voices = len(weights)
    ridge = np.r_[_CONSTANT_RIDGE, _RIDGE, [_VOICE_RIDGE] * n_voices, _RIDGE, _RIDGE]
    n_plain = 2 + n_voices
    corrected = _fit(design, column, index, y, _OFFSET_RIDGE, mean, ridge)
    # The ranking alone: no frequencies or sizes, and a single label whose offset the ridge holds
    # at 0.
    no_names = np.zeros_like(column)
    plain = _fit(design[:, :n_plain], no_names, index, y, 1e9, mean[:n_plain], ridge[:n_plain])
    weight = expit(corrected.log_likelihood - plain.log_likelihood)
    score = weight * corrected.score + (1 - weight) * plain.score
    # Each answered tag takes its rank among a sample of tags that are also scored without its
    # answer. Only the corrected scores change; the scores of the ranking alone stay the same.
    size = min(len(X), _SAMPLE)
    sample = np.argsort(score)[((np.arange(size) + 0.5) * len(X) / size).astype(int)]
    shift = weight * corrected.residual
    sample_scores = score[sample, None] - corrected.influence(sample, index) * shift
    without_answer = score[index] - corrected.leverage * shift
    lower = (sample_scores < without_answer).sum(axis=0)
    normal = normal_scores(score)
    normal[index] = ndtri((np.minimum(lower, size - 1) + 0.5) / size)
    return normal


@dataclass(frozen=True)
class _Fit:
    """A logistic regression fitted to some answers.

    Attributes
    ----------
    score : (m,) float array
        η of all tags.
    G : (m, d) float array
        Features of all tags, with the offsets eliminated.
    S : (d, d) float array
        Hessian, with the offsets eliminated.
    column, curvature
        Label of each tag, and second derivative with respect to the offset of each label.
    leverage, residual : (k,) float arrays
        Influence of each answer on its own tag, and y - p without the answer.
    log_likelihood : float
        Log-likelihood of the answers, each predicted from the others.
    """

    score: Array
    G: Array
    S: Array
    column: Array
    curvature: Array
    leverage: Array
    residual: Array
    log_likelihood: float

    def influence(self, tags: Array, answered: Array) -> Array:
        """Return how much each score (rows) falls without each answer, per unit of residual."""
        is_same_label = self.column[tags, None] == self.column[answered]
        through_weights = self.G[tags] @ np.linalg.solve(self.S, self.G[answered].T)
        return np.asarray(through_weights + is_same_label / self.curvature[self.column[answered]])


def _fit(
    X: Array, column: Array, index: Array, y: Array, offset_ridge: float, mean: Array, ridge: Array
) -> _Fit:
    """Fit a constant, the weights of the ranking and other features, and an offset per label.

    The weights are shrunk towards `mean` with the strengths `ridge`. The Hessian is diagonal except
    for its first rows, so u is eliminated from the Newton steps.
    """
    Z = X[index]
    name = column[index]
    size = int(column.max()) + 1

    def loss(theta: Array, u: Array) -> float:
        eta = Z @ theta + u[name]
        penalty = (ridge * (theta - mean) ** 2).sum() + offset_ridge * (u**2).sum()
        return float((np.logaddexp(0, eta) - y * eta).sum() + penalty / 2)

    theta = mean.copy()
    u = np.zeros(size)
    value = loss(theta, u)
    for _ in range(_STEPS):
        p = expit(Z @ theta + u[name])
        c = p * (1 - p)
        d = np.bincount(name, c, minlength=size) + offset_ridge
        B = np.stack([np.bincount(name, c * z, minlength=size) for z in Z.T])
        S = (Z.T * c) @ Z + np.diag(ridge) - (B / d) @ B.T
        gradient = Z.T @ (p - y) + ridge * (theta - mean)
        gradient_u = np.bincount(name, p - y, minlength=size) + offset_ridge * u
        step = np.linalg.solve(S, gradient - B @ (gradient_u / d))
        step_u = (gradient_u - step @ B) / d
        decrease = float(gradient @ step + gradient_u @ step_u)
        if decrease < 1e-10:
            break
        # Full Newton steps may overshoot at first: halve them until the loss falls enough.
        length = 1.0
        while loss(theta - length * step, u - length * step_u) > value - 1e-4 * length * decrease:
            length /= 2
        theta = theta - length * step
        u = u - length * step_u
        value = loss(theta, u)
    score = X @ theta + u[column]
    G = X - (B / d).T[column]
    leverage = (G[index] * np.linalg.solve(S, G[index].T).T).sum(axis=1) + 1 / d[name]
    # One Newton step without an answer, in closed form; exact for a quadratic loss.
    residual = (y - p) / (1 - leverage * c)
    left_out = score[index] - leverage * residual
    log_likelihood = float((y * left_out - np.logaddexp(0, left_out)).sum())
    return _Fit(score, G, S, column, d, leverage, residual, log_likelihood)
