"""Sieve as docs/math/sieve.md states it: dense matrices, hat matrices and loops over rows.

It covers the exact kernel with estimated noise, whatever the features say, and expects so few rows
that all three splits are used and the pool sees every held-out cell.
"""

from math import comb

import numpy as np
from scipy.special import expit, logit


def scaled(X, kind):
    """Features divided by their spread, or log(1 + x) idf with rows of length 1."""
    if kind == "spread":
        return (X - X.mean(axis=0)) / (X.std(axis=0) * np.sqrt(X.shape[1]))
    idf = np.log((1 + len(X)) / (1 + (X != 0).sum(axis=0))) + 1
    Z = np.sign(X) * np.log1p(np.abs(X)) * idf
    lengths = np.linalg.norm(Z, axis=1, keepdims=True)
    return Z / np.where(lengths > 0, lengths, 1)


def kernel_matrix(Z, kernel):
    """Inner products, or a Gaussian whose width is the median squared distance."""
    if kernel == "linear":
        return Z @ Z.T
    D = ((Z[:, None] - Z[None]) ** 2).sum(axis=2)
    return np.exp(-D / np.median(D[np.triu_indices(len(Z), 1)]))


class Ridges:
    """Kernel ridges with an intercept on some rows, for any weight."""

    def __init__(self, K, train, held):
        n = len(train)
        C = np.eye(n) - 1 / n
        self.K, self.n = C @ K[np.ix_(train, train)] @ C, n
        others = K[np.ix_(held, train)]
        self.K_held = (others - K[np.ix_(train, train)].mean(axis=0)) @ C

    def scores(self, Q, lam):
        """Leave-one-out scores of the rows, and scores of the rows held out."""
        inverse = np.linalg.inv(self.K + lam * np.eye(self.n))
        H = 1 / self.n + self.K @ inverse
        held = Q.mean(axis=0) + self.K_held @ inverse @ (Q - Q.mean(axis=0))
        return leave_one_out(Q, H @ Q, np.diag(H)), held


def ridge_weights(K, Y, kernel, rng, wide=False):
    """The best weight for the candidates of a sample of rows left out, a quarter and a 20th."""
    n = len(K)
    variance = np.trace(K) / n - K.mean()
    rows = rng.choice(n, min(n, 600), replace=False)
    sample, lowest = Ridges(K, rows, rows[:0]), {"rbf": -3, "linear": -9}[kernel]
    grid = variance * 10.0 ** np.arange(lowest, 3.01, 0.5)
    scores = [sample.scores(Y[rows], t)[0] for t in grid]
    errors = np.array([np.mean((S - Y[rows]) ** 2) for S in scores])
    if kernel == "linear" and not wide:
        # Only weights that rank within one standard error of the best one.
        mixed = [i for i in rows if 0 < Y[i].sum() < Y.shape[1]]
        place = {i: k for k, i in enumerate(rows)}
        ranks = np.array([[precision(Y[i], S[place[i]]) for i in mixed] for S in scores])
        behind = ranks[ranks.mean(axis=1).argmax()] - ranks
        far = behind.mean(axis=1) > behind.std(axis=1) / np.sqrt(len(mixed))
        errors[far] = np.inf
    best = grid[np.argmin(errors)]
    best = min(best, 6 * variance) if kernel == "rbf" else best
    return [best / 20, best / 4, best]


def precision(y, s):
    """Average precision of one row."""
    return np.mean([y[s >= s[j]].sum() / (s >= s[j]).sum() for j in np.flatnonzero(y)])


def leave_one_out(Q, fitted, h):
    return Q - (Q - fitted) / (1 - h)[:, None]


def posterior(P, Y, noise):
    """Q, and expected histograms of wrong and of true candidates, one row at a time."""
    rate, tilt, propensity = noise
    n, l = Y.shape
    Q, wrong, true = np.zeros((n, l)), np.zeros(l + 1), np.zeros(l + 1)

    def count_law(m):
        r = np.arange(l - m + 1)
        ways = np.array([comb(l - m, k) for k in r], dtype=float)
        law = ways * rate**r * (1 - rate) ** (l - m - r) * np.exp(tilt[: l - m + 1])
        return law / law.sum() / ways

    laws = [count_law(m) for m in range(l + 1)]
    for i in range(n):
        S = np.flatnonzero(Y[i])
        odds = P[i, S] / (1 - P[i, S]) / np.exp(propensity[S])
        weight = np.array([laws[m][len(S) - m] for m in range(len(S) + 1)])
        number = symmetric_sums(odds) * weight
        for c, j in enumerate(S):
            Q[i, j] = odds[c] * symmetric_sums(np.delete(odds, c)) @ weight[1:] / number.sum()
        true[: len(S) + 1] += number / number.sum()
        wrong[: len(S) + 1] += number[::-1] / number.sum()
    return Q, wrong, true


def symmetric_sums(odds):
    """Elementary symmetric sums of all orders."""
    sums = np.array([1.0])
    for o in odds:
        sums = np.append(sums, 0) + o * np.append(0, sums)
    return sums


def estimate_noise(Y, Q, wrong, true):
    """Rate, tilt and propensities that fit the posterior."""
    n, l = Y.shape
    rate = np.clip((Y * (1 - Q)).sum() / (1 - Q).sum(), 1e-4, 0.98)
    expected = np.zeros(l + 1)
    for m in range(l + 1):
        for r in range(l - m + 1):
            law = comb(l - m, r) * rate**r * (1 - rate) ** (l - m - r)
            expected[r] += true[m] / n * law
    tilt = np.log((wrong + expected + 1e-12) / ((n + 1) * expected + 1e-12))
    # The tilt counts as far as the number of wrong labels varies less than a binomial number.
    r = np.arange(l + 1)
    variance = wrong @ (r - wrong @ r / n) ** 2 / n
    binomial = (l - true @ r / n) * rate * (1 - rate)
    tilt *= np.clip((1 - variance / binomial) / 0.15, 0, 1)
    noise, chance = (Y * (1 - Q)).sum(axis=0), rate * (1 - Q).sum(axis=0)
    excess = ((noise - chance) ** 2 - chance * (1 - rate)).sum() / (chance**2).sum() - 0.05
    propensity = np.zeros(l)
    if excess > 0 and noise.sum() > 0.02 * Y.sum():
        propensity = np.log((noise + 1 / excess) / (chance + 1 / excess))
    return rate, tilt, propensity


def stack(S, Q, S_held):
    """Ridge from the scores of all labels to Q: leave-one-out, and for the rows held out."""
    n, l = S.shape
    D = S - S.mean(axis=0)
    G = D.T @ D
    A = np.linalg.inv(G + (0.3 * np.trace(G) / l + 1e-12) * np.eye(l))
    H = 1 / n + D @ A @ D.T
    W = A @ D.T @ (Q - Q.mean(axis=0))
    held = Q.mean(axis=0) + (S_held - S.mean(axis=0)) @ W
    return leave_one_out(Q, H @ Q, np.minimum(np.diag(H), 1 - 1e-3)), held


def g(s):
    """Log-odds of scores after a smooth clipping to positive numbers."""
    s = np.asarray(s, dtype=np.longdouble)
    soft = [(x + np.sqrt(x * x + 4 * 0.02**2)) / 2 for x in (s, 1 - s)]
    return (np.log(soft[0]) - np.log(soft[1])).astype(float)


def pooled(a, experts, prior):
    return a[0] + sum(w * g(S) for w, S in zip(a[1:-1], experts, strict=True)) + a[-1] * prior


def clipped(z):
    return np.clip(expit(z), 1e-4, 1 - 1e-4)


def sieve(X, Y, *, scale="spread", kernel="rbf", wide=False, max_iter=8, seed=0):
    """Q (n, l), the leave-one-out log-odds of all rows, the noise rate and the ridge weights."""
    Y = Y.astype(float)
    n, l = Y.shape
    K = kernel_matrix(scaled(X, scale), kernel)
    rng = np.random.RandomState(seed)
    lams = ridge_weights(K, Y, kernel, rng, wide)
    held = [np.zeros(0, int), *np.array_split(rng.permutation(n), 3)]
    train = [np.setdiff1d(np.arange(n), rows) for rows in held]
    problems = [Ridges(K, *rows) for rows in zip(train, held, strict=True)]
    Ys, Y_held = [Y[rows] for rows in train], [Y[rows] for rows in held]

    Ps, noises = [], []
    for problem, A in zip(problems, Ys, strict=True):
        S, _ = problem.scores(A, lams[-1])
        rate = np.clip(S[A == 0].mean(), 1e-4, 0.98)
        Ps.append(np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4))
        noises.append((rate, np.zeros(l + 1), np.zeros(l)))

    equal = np.array([0, 1 / 4, 1 / 4, 1 / 4, 1 / 4, 0])
    a = equal
    # The first guess as a result is not written out here.
    state, evidence = None, -np.inf
    for k in range(max_iter):
        leader = int(np.argmax(a[1:4])) if k else 1
        own, out, priors = [], [], []
        for s, problem in enumerate(problems):
            Q, wrong, true = posterior(Ps[s], Ys[s], noises[s])
            noises[s] = estimate_noise(Ys[s], Q, wrong, true)
            pairs = [problem.scores(Q, t) for t in lams]
            pairs.append(stack(pairs[leader][0], Q, pairs[leader][1]))
            own.append([pair[0] for pair in pairs])
            out.append([pair[1] for pair in pairs])
            priors.append(logit(np.clip(Q.mean(axis=0), 1e-4, 1 - 1e-4)))
        for _ in range(2 if k else 0):
            Z, q = [], []
            for s in (1, 2, 3):
                P = clipped(pooled(a, out[s], priors[s]))
                q.append(posterior(P, Y_held[s], noises[s])[0].ravel())
                columns = [np.ones_like(P), *map(g, out[s]), np.tile(priors[s], (len(P), 1))]
                Z.append(np.stack([column.ravel() for column in columns], axis=1))
            a = logistic(np.concatenate(Z), np.concatenate(q), a, equal)
        log_odds = [pooled(a, e, prior) for e, prior in zip(own, priors, strict=True)]
        Ps = [clipped(z) for z in log_odds]
        # A round that lowers the likelihood of held-out cells is not taken, and ends the rounds.
        before = evidence
        held_p = [clipped(pooled(a, out[s], priors[s])) for s in (1, 2, 3)]
        evidence = log_likelihood(held_p, Y_held[1:], noises[1:])
        if evidence < before:
            break
        state = Ps[0], log_odds[0], noises[0]
    P, log_odds, noise = state
    return posterior(P, Y, noise)[0], log_odds, noise[0], lams


def log_likelihood(Ps, Ys, noises):
    """Mean over all cells: a label is listed if it is true, or false and listed at its rate."""
    cells = []
    for P, Y, (rate, _, propensity) in zip(Ps, Ys, noises, strict=True):
        listed = P + (1 - P) * np.clip(rate * np.exp(propensity), 1e-4, 0.98)
        cells.append(np.log(np.where(Y == 1, listed, 1 - listed)).ravel())
    return np.concatenate(cells).mean()


def logistic(Z, q, a, equal):
    """Three Newton steps of at most 2 per weight, pulled towards `equal`."""
    for _ in range(3):
        p = expit(Z @ a)
        hessian = Z.T @ np.diag(p * (1 - p)) @ Z + 10 * np.eye(len(a))
        step = np.linalg.solve(hessian, Z.T @ (q - p) - 10 * (a - equal))
        a = a + step * min(1, 2 / np.abs(step).max())
    return a
