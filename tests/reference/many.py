"""`CentroidRanker` cell by cell, from its formulas: dense arrays, plain loops."""

from math import exp, log2

import numpy as np

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


def nearness(doublings, others, width=1.5):
    """Weight that a label has for one that is this many doublings more frequent or rarer."""
    return exp(-(((doublings - others) / width) ** 2) / 2)


def wrong_shares(scores, judged, sampled):
    """Share of wrong tags of labels as frequent as each label, and of each label itself."""
    l = judged.shape[1]
    number, n_others, below = judged.sum(axis=0), np.zeros(l), np.zeros(l)
    for j in range(l):
        others = [scores[cell] for cell in sampled if cell[1] == j]
        n_others[j] = len(others)
        for i in np.flatnonzero(judged[:, j]):
            median = np.median(others)
            below[j] += (scores[i, j] < median) + 0.5 * (scores[i, j] == median)
    doublings = [log2(max(k, 1)) for k in number]
    typical, coin, chance = np.zeros(l), np.zeros(l), np.zeros(l)
    excess, total = 0.0, 0.0
    for j in range(l):
        weights = [nearness(doublings[j], d) for d in doublings]
        typical[j] = min(2 * np.dot(weights, below) / np.dot(weights, number), 1)
        m = typical[j] / 2
        coin[j] = max(m * (1 - m), 1e-9)
        chance[j] = coin[j] / max(number[j], 1) + m**2 / (n_others[j] + 2)
        if number[j] > 1:
            excess += number[j] * ((below[j] / number[j] - m) ** 2 - chance[j])
            total += (number[j] - 1) * coin[j]
    between = min(max(excess / max(total, 1e-9), 1e-4), 1.0)
    own = typical.copy()
    for j in range(l):
        if number[j]:
            trust = between * coin[j] / (between * coin[j] + chance[j])
            own[j] = (1 - trust) * typical[j] + trust * 2 * below[j] / number[j]
    return np.clip(typical, 0.01, 0.99), np.clip(own, 0.01, 0.99)


def rising(values, weights):
    """Nearest rising sequence: neighbours in the wrong order share their mean."""
    pools = []
    for value, weight in zip(values, weights, strict=True):
        pools.append((value, weight, 1))
        while len(pools) > 1 and pools[-2][0] >= pools[-1][0]:
            (a, v, m), (b, w, k) = pools[-2:]
            pools[-2:] = [((a * v + b * w) / (v + w), v + w, m + k)]
    return np.repeat([value for value, _, _ in pools], [k for _, _, k in pools])


def score_ratios(scores, judged, sampled, n_bins=256):
    """Centres of scores, and for each label the ratio of listed to unlisted cells with them."""
    tags, number = list(zip(*np.nonzero(judged), strict=True)), judged.sum(axis=0)
    n_others = [sum(k == j for _, k in sampled) for j in range(judged.shape[1])]
    # Labels whose numbers of tags are a quarter of a doubling apart count as equally frequent.
    quarters = [round(4 * log2(max(k, 1))) for k in number]
    values = [scores[cell] for cell in [*tags, *sampled]]
    edges = np.quantile(values, np.linspace(0, 1, n_bins + 1))
    counts = {q: np.zeros((2, n_bins)) for q in quarters}
    for k, (cells, weights) in enumerate(
        [(tags, np.ones(len(number))), (sampled, number / np.maximum(n_others, 1))]
    ):
        for cell in cells:
            place = sum(scores[cell] > edge for edge in edges[1:-1])
            counts[quarters[cell[1]]][k, place] += weights[cell[1]]
    ratios = {}
    for q in counts:
        near = sum(nearness(q / 4, other / 4) * counts[other] for other in counts)
        total = near.sum(axis=0) + 1e-9 * near.sum()
        share = np.clip(rising(near[0] / total, total), 1e-6, 1 - 1e-6)
        ratios[q] = share / (1 - share)
    return (edges[:-1] + edges[1:]) / 2, [ratios[q] for q in quarters]


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
    typical, shares = wrong_shares(scores, judged, sampled)
    centres, ratios = score_ratios(scores, judged, sampled)
    listed = Y.sum(axis=0)
    wrong = shares * listed
    rates = np.clip(wrong / np.maximum(n - listed + wrong, 1), 1e-9, 0.99)
    rate = wrong.sum() / (n * l - Y.sum() + wrong.sum())
    P = np.full((n, l), 0.5)
    for i, j in zip(*np.nonzero(Y), strict=True):
        h = 1.0
        if judged[i, j]:
            ratio = np.interp(scores[i, j], centres, ratios[j])
            h = min(max((ratio - typical[j]) / (1 - typical[j]), 0.01), 100.0)
        odds = h * (1 - shares[j]) / shares[j] * rates[j]
        P[i, j] = odds / (1 + odds)
    model = NoiseModel(rate, np.zeros(l + 1), np.log(rates / rate))
    for _ in range(rounds):
        once = candidate_posterior(P, Y, model)
        model = model._replace(tilt=count_tilt(once.noise_counts, once.true_counts, rate))
    return np.where(judged, candidate_posterior(P, Y, model).Q, 0.5)
