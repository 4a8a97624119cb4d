"""Caution as its page says, one label, one rate and one pair of rows at a time."""

import numpy as np
from scipy.special import expit
from scipy.stats import beta


def plain_caution(log_odds, Y, Q, rate):
    """Factor of each label, and the separation of all labels."""
    n, l = Y.shape
    known = [j for j in range(l) if 5 <= Y[:, j].sum() <= n - 5]
    separation, halves = plain_separation(log_odds, Y, Q, known)
    p = np.clip(expit(log_odds[:, known]), 1e-4, 1 - 1e-4)
    listed = rate + (1 - rate) * p
    pooled = least_odds([listed.mean()], [listed.var()], rate)
    single = least_odds(listed.mean(axis=0), listed.var(axis=0), rate)
    floor = np.mean(
        [(one + 3 * all_labels) / 4 for one, all_labels in zip(single, pooled, strict=True)]
    )
    belief = floor * plain_independence(Y * (1 - Q)) * separation
    return np.array([max(belief * halves.get(j, 1.0), 0.02) for j in range(l)]), separation


def least_odds(means, variances, rate):
    """Odds of the smallest of 101 rates that is enough, over those of `rate`, per quantile."""
    ratios = []
    for quantile in (0.05, 0.1, 0.2):
        for r in np.linspace(0, rate, 101):
            lows, weights = [], []
            for mean, variance in zip(means, variances, strict=True):
                mu = min(max((mean - r) / (1 - r), 1e-6), 1 - 1e-6)
                D = min(max(variance / (1 - r) ** 2 / (mu * (1 - mu)), 1e-6), 0.9999)
                nu = 1 / D - 1
                lows.append(beta.ppf(quantile, mu * nu, (1 - mu) * nu))
                weights.append(1 - mu)
            if r + (1 - r) * np.average(lows, weights=weights) >= 0.999 * rate:
                break
        ratios.append(r / (1 - r) / (rate / (1 - rate)))
    return ratios


def plain_separation(log_odds, Y, Q, known):
    def belief(auc, wrong_share):
        implied = (auc - wrong_share / 2) / max(1 - wrong_share, 1e-3)
        return min(max((implied - 0.7) / 0.15, 0), 1)

    aucs, sizes, halves = [], [], {}
    for j in known:
        listed, others = log_odds[Y[:, j] == 1, j], log_odds[Y[:, j] == 0, j]
        wins = [(a > b) + (a == b) / 2 for a in listed for b in others]
        auc, size = np.mean(wins), len(listed)
        error = np.sqrt((1 / size + 1 / len(others)) / 12)
        wrong_share = np.mean(1 - Q[Y[:, j] == 1, j])
        halves[j] = (1 + belief(auc + 3 * error, wrong_share)) / 2
        aucs.append(auc)
        sizes.append(size)
    return belief(np.average(aucs, weights=sizes), np.mean(1 - Q[Y == 1])), halves


def plain_independence(wrong):
    """Covariances of all pairs of labels over the products of their means."""
    l = wrong.shape[1]
    pairs = [(i, j) for i in range(l) for j in range(l) if i != j]
    C, means = np.cov(wrong.T, bias=True), wrong.mean(axis=0)
    product = sum(means[i] * means[j] for i, j in pairs)
    excess = sum(C[i, j] for i, j in pairs) / product if product > 0 else 0.0
    return 1 / (1 + 4 * max(0.0, excess))
