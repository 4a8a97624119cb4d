"""`find_noisy_labels_sparse` cell by cell, from its formulas: dense arrays, plain loops."""

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


def shares_of(scores, Y, judged, sampled):
    """Share of wrong tags of all labels and of each."""
    n, l = Y.shape
    below = np.zeros(l)
    for j in range(l):
        values = [scores[i, k] for i, k in sampled if k == j]
        for i in range(n):
            if judged[i, j]:
                middle = np.median(values)
                below[j] += 1.0 if scores[i, j] < middle else 0.5 * (scores[i, j] == middle)
    count = judged.sum(axis=0)
    mean = below.sum() / count.sum()
    coin = mean * (1 - mean)
    several = [j for j in range(l) if count[j] > 1]
    between = sum(((below[j] - mean * count[j]) ** 2 - count[j] * coin) / count[j] for j in several)
    between /= sum(count[j] - 1 for j in several) * coin
    pull = 1 / min(max(between, 1e-4), 1.0) - 1
    shares = np.full(l, 2 * mean)
    for j in range(l):
        if count[j]:
            shares[j] = 2 * (below[j] + pull * mean) / (count[j] + pull)
    return min(max(2 * mean, 0.01), 0.99), np.clip(shares, 0.01, 0.99)


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
    share, shares = shares_of(scores, Y, judged, sampled)
    tags = list(zip(*np.nonzero(judged), strict=True))
    number = [sum(k == j for _, k in sampled) for j in range(l)]
    weight = [1.0] * len(tags) + [judged[:, j].sum() / number[j] for _, j in sampled]
    iso = IsotonicRegression(y_min=1e-6, y_max=1 - 1e-6, out_of_bounds="clip").fit(
        [scores[cell] for cell in [*tags, *sampled]],
        [1.0] * len(tags) + [0.0] * len(sampled),
        sample_weight=np.maximum(weight, 1e-9),
    )
    listed = Y.sum(axis=0)
    wrong = shares * listed
    rates = np.clip(wrong / np.maximum(n - listed + wrong, 1), 1e-9, 0.99)
    rate = wrong.sum() / (n * l - Y.sum() + wrong.sum())
    P = np.full((n, l), 0.5)
    for i, j in zip(*np.nonzero(Y), strict=True):
        h = 1.0
        if judged[i, j]:
            p = iso.predict([scores[i, j]])[0]
            h = min(max((p / (1 - p) - share) / (1 - share), 1e-3), 1e3)
        odds = h * (1 - shares[j]) / shares[j] * rates[j]
        P[i, j] = odds / (1 + odds)
    model = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate))
    for _ in range(rounds):
        found = candidate_posterior(P, Y, model)
        model = model._replace(tilt=count_tilt(found.noise_counts, found.true_counts, rate))
    return np.where(judged, candidate_posterior(P, Y, model).Q, 0.5)
