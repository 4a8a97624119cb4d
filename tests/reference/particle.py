"""PARTICLE as written: one loop per row, per pair and per vote."""

import numpy as np
from scipy.optimize import nnls
from sklearn.svm import SVC


def plain_neighbours(X, i, k, include_self):
    distance = np.sqrt(((X - X[i]) ** 2).sum(axis=1))
    order = [a for a in np.argsort(distance, kind="stable") if include_self or a != i][:k]
    return order, distance[order]


def plain_confidences(X, Y, k=10, alpha=0.95, include_self=False, rounds=1000, tol=1e-5):
    n = len(X)
    T = np.zeros((n, n))
    for i in range(n):
        near, _ = plain_neighbours(X, i, k, include_self)
        w = nnls(X[near].T, X[i])[0]
        T[i, near] = w / w.sum() if w.sum() > 0 else 0
    P = Y.astype(float)
    steps = 0
    for _ in range(rounds):
        old, steps = P, steps + 1
        P = (alpha * T @ P + (1 - alpha) * Y) * Y
        P = P / np.maximum(P.sum(axis=1, keepdims=True), 1e-300)
        if np.linalg.norm(P - old, 2) < tol:
            break
    P = P * (Y.sum(axis=0) / np.maximum(P.sum(axis=0), 1e-300))
    return np.array([unit(row) for row in P]), steps


def unit(row):
    if row.max() == row.min():
        return np.ones_like(row) if row.max() > 0 else np.zeros_like(row)
    return (row - row.min()) / (row.max() - row.min())


def plain_credible(X, Y, F, k=10, thr=0.9):
    credible = np.zeros(Y.shape, dtype=bool)
    for i in range(len(X)):
        near, distance = plain_neighbours(X, i, k, False)
        vote = sum((1 - d / distance.sum()) * F[a] for a, d in zip(near, distance, strict=True))
        marked = unit(vote) >= thr
        both = marked & (Y[i] == 1)
        credible[i] = both if both.any() else marked
    return credible


def plain_pair(credible, Y, j, k):
    """Positive and negative rows of a pair; k = l is the virtual label."""
    positive, negative = [], []
    for i in range(len(Y)):
        if k == Y.shape[1]:
            if credible[i, j]:
                positive.append(i)
            elif not Y[i, j]:
                negative.append(i)
        elif credible[i, j] and not Y[i, k]:
            positive.append(i)
        elif credible[i, k] and not Y[i, j]:
            negative.append(i)
    return positive, negative


def plain_votes(X, Y, credible, new, weighted, tol=1e-3):
    """Votes for the labels and, last, for the virtual one."""
    l = Y.shape[1]
    votes = np.zeros((len(new), l + 1))
    for j in range(l):
        for k in range(j + 1, l + 1 if weighted else l):
            positive, negative = plain_pair(credible, Y, j, k)
            if not positive or not negative:
                if not weighted and positive:
                    votes[:, j] += 1
                if not weighted and negative:
                    votes[:, k] += 1
                continue
            rows = positive + negative
            target = np.array([1] * len(positive) + [0] * len(negative))
            machine = SVC(kernel="linear", C=1.0, tol=tol).fit(X[rows], target)
            a = machine.score(X[rows], target) if weighted else 1.0
            for i, winner in enumerate(machine.predict(new)):
                votes[i, j if winner == 1 else k] += a
    return votes


def plain_odds(train_votes, credible, Y, votes, s=1.0):
    n, l = Y.shape
    odds = np.zeros(votes.shape)
    for j in range(l):
        prior = (s + credible[:, j].sum()) / (2 * s + n)
        h, g = np.zeros(l), np.zeros(l)
        for i in range(n):
            c = int(train_votes[i, j])
            if credible[i, j]:
                h[c] += 1
            elif not Y[i, j]:
                g[c] += 1
        for i in range(len(votes)):
            c = int(votes[i, j])
            true = (s + h[c]) / (s * l + h.sum())
            false = (s + g[c]) / (s * l + g.sum())
            odds[i, j] = prior * true / ((1 - prior) * false)
    return odds
