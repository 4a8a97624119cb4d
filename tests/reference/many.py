"""`CentroidRanker` cell by cell, from its formulas: dense arrays, plain loops."""

import numpy as np
from sklearn.isotonic import IsotonicRegression

from schirn.noise.model import NoiseModel, candidate_posterior, count_tilt


def centroid_scores(X, Y, X_test):
    """(n, l): cosine of a row and the mean of its label, without the mean of all rows."""
    length = [max(np.sqrt((x**2).sum()), 1e-30) for x in X]
    U = np.array([x / s for x, s in zip(X, length, strict=True)])
    g = U.mean(axis=0)
    scores = np.zeros((len(X_test), Y.shape[1]))
    for j in range(Y.shape[1]):
        if not Y[:, j].any():
            continue
        m = U[Y[:, j] > 0].mean(axis=0)
        if ((m - g) ** 2).sum() <= 1e-9 * ((m**2).sum() + (g**2).sum()):
            continue
        for i, x in enumerate(X_test):
            x = x / max(np.sqrt((x**2).sum()), 1e-30)
            scores[i, j] = x @ (m - g) / np.sqrt(((m - g) ** 2).sum())
    return scores


def wrong_shares(scores, judged, sampled):
    """Group and share of each label, and share of each group, from a median per label."""
    l = judged.shape[1]
    number = judged.sum(axis=0)
    n_others, below = np.zeros(l), np.zeros(l)
    for j in range(l):
        others = [scores[cell] for cell in sampled if cell[1] == j]
        n_others[j] = len(others)
        if others:
            for i in np.flatnonzero(judged[:, j]):
                median = np.median(others)
                below[j] += (scores[i, j] < median) + 0.5 * (scores[i, j] == median)
    share = below / np.maximum(number, 1)
    # Doublings of the number of tags, joined until a group has 500.
    doubling = [int(np.log2(min(max(k, 1), 256))) for k in number]
    group_of, k, total = {}, 0, 0
    for d in range(max(doubling) + 1):
        if total >= 500:
            k, total = k + 1, 0
        group_of[d] = k
        total += sum(number[j] for j in range(l) if doubling[j] == d)
    if total < 500:
        group_of = {d: max(k - 1, 0) if g == k else g for d, g in group_of.items()}
    group = np.array([group_of[d] for d in doubling])
    n = np.array([max(number[group == g].sum(), 1) for g in range(group.max() + 1)])
    mean = np.array([(number * share)[group == g].sum() / n[g] for g in range(len(n))])
    between, total = 0.0, 0.0
    coin, chance = np.zeros(l), np.zeros(l)
    for j in range(l):
        m = mean[group[j]]
        coin[j] = max(m * (1 - m), 1e-9)
        chance[j] = coin[j] / max(number[j], 1) + m**2 / (n_others[j] + 2)
        if number[j] > 1:
            left = 1 - number[j] / n[group[j]]
            between += number[j] * ((share[j] - m) ** 2 - chance[j] * left)
            total += (number[j] - 1) * coin[j]
    between = min(max(between / max(total, 1e-9), 1e-4), 1.0)
    each = np.zeros(l)
    for j in range(l):
        m, own = mean[group[j]], between * coin[j]
        each[j] = 2 * (m + own / (own + chance[j]) * (share[j] - m) if number[j] else m)
    return group, np.clip(2 * mean, 0.01, 0.99), np.clip(each, 0.01, 0.99)


def confidences(scores, Y, judged, sampled, rounds=6):
    """(n, l) posterior of the tags, 0.5 for those that are not judged.

    Parameters
    ----------
    scores : (n, l) array
        Held-out scores.
    Y, judged : (n, l) arrays
        Tags, and which of them are judged.
    sampled : list of (row, label)
        Cells that are not listed.
    """
    n, l = Y.shape
    group, groups, shares = wrong_shares(scores, judged, sampled)
    tags = list(zip(*np.nonzero(judged), strict=True))
    number = [sum(k == j for _, k in sampled) for j in range(l)]
    isotonic = []
    for k in range(len(groups)):
        own = [cell for cell in tags if group[cell[1]] == k]
        others = [cell for cell in sampled if group[cell[1]] == k]
        weight = [1.0] * len(own) + [judged[:, j].sum() / number[j] for _, j in others]
        isotonic.append(
            IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
                [scores[cell] for cell in [*own, *others]],
                [1.0] * len(own) + [0.0] * len(others),
                sample_weight=np.maximum(weight, 1e-9),
            )
        )
    listed = Y.sum(axis=0)
    wrong = shares * listed
    rates = np.clip(wrong / np.maximum(n - listed + wrong, 1), 1e-9, 0.99)
    rate = wrong.sum() / (n * l - Y.sum() + wrong.sum())
    P = np.full((n, l), 0.5)
    for i, j in zip(*np.nonzero(Y), strict=True):
        h = 1.0
        if judged[i, j]:
            p = isotonic[group[j]].predict([scores[i, j]])[0]
            share = groups[group[j]]
            h = min(max((p / (1 - p) - share) / (1 - share), 1e-3), 1e3)
        odds = h * (1 - shares[j]) / shares[j] * rates[j]
        P[i, j] = odds / (1 + odds)
    model = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate))
    for _ in range(rounds):
        once = candidate_posterior(P, Y, model)
        model = model._replace(tilt=count_tilt(once.noise_counts, once.true_counts, rate))
    return np.where(judged, candidate_posterior(P, Y, model).Q, 0.5)
