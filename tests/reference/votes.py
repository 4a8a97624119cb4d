"""The model of votes, one cell, one ballot and one annotator at a time."""

import numpy as np


def plain_vote_model(counts, voters, ballots=None):
    """Sensitivity, false rates, frequencies, log-ratios, and those of annotators, if known."""
    n, l = counts.shape
    t = np.clip(counts.sum(axis=0) / max(sum(voters), 1), 1e-3, 0.9)
    ratio = count_ratios(counts, voters, 0.7, np.full(l, 0.05))
    Q, own = sigmoid(np.log(t / (1 - t)) + ratio), ()
    for _ in range(200):
        hits = sum(Q[i, j] * counts[i, j] for i in range(n) for j in range(l))
        s = hits / max(sum(Q[i, j] * voters[i] for i in range(n) for j in range(l)), 1e-9)
        s = min(max(s, 0.05), 0.99)
        wrong = [sum((1 - Q[i, j]) * counts[i, j] for i in range(n)) for j in range(l)]
        chances = [sum((1 - Q[i, j]) * voters[i] for i in range(n)) for j in range(l)]
        mean = sum(wrong) / max(sum(chances), 1e-9)
        f = np.array([(wrong[j] + 20 * mean) / (chances[j] + 20) for j in range(l)])
        f = np.clip(f, 1e-5, 0.9)
        t = np.clip(Q.mean(axis=0), 1e-4, 0.99)
        if ballots is None:
            ratio = count_ratios(counts, voters, s, f)
        else:
            own = annotators(ballots, Q, s, f)
            ratio = ballot_ratios(ballots, own, f, n)
        before, Q = Q, sigmoid(np.log(t / (1 - t)) + ratio)
        if np.abs(Q - before).max() < 1e-6:
            break
    return s, f, t, ratio, *own


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def log_ratio(is_vote, s, f):
    return np.log(s / f) if is_vote else np.log((1 - s) / (1 - f))


def count_ratios(counts, voters, s, f):
    n, l = counts.shape
    return np.array(
        [
            [
                counts[i, j] * log_ratio(True, s, f[j])
                + (voters[i] - counts[i, j]) * log_ratio(False, s, f[j])
                for j in range(l)
            ]
            for i in range(n)
        ]
    )


def annotators(ballots, Q, s, f):
    """Each with ten votes of an average annotator added to their own."""
    chosen, size = ballots.chosen.toarray(), max(ballots.annotator) + 1
    hits, true, wrong, expected = np.zeros((4, size))
    for vote, i, who in zip(chosen, ballots.row, ballots.annotator, strict=True):
        hits[who] += vote @ Q[i]
        true[who] += Q[i].sum()
        wrong[who] += vote @ (1 - Q[i])
        expected[who] += f @ (1 - Q[i])
    sensitivity = np.clip((hits + 10 * s) / (true + 10), 0.02, 0.98)
    return sensitivity, (wrong + 10) / (expected + 10)


def ballot_ratios(ballots, own, f, n):
    ratios = np.zeros((n, len(f)))
    for vote, i, who in zip(ballots.chosen.toarray(), ballots.row, ballots.annotator, strict=True):
        for j, rate in enumerate(np.clip(own[1][who] * f, 1e-5, 0.9)):
            ratios[i, j] += log_ratio(vote[j] > 0, own[0][who], rate)
    return ratios
