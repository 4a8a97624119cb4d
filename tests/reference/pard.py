"""PARD as written: dense scaled features, one array per layer, textbook Adam."""

import numpy as np

EPS = 1e-8


def sigmoid(f):
    return 1 / (1 + np.exp(-f))


def forward(X, W1, b1, W2, b2):
    return np.maximum(X @ W1 + b1, 0) @ W2 + b2


def cross_entropy(X, q, *network):
    p = sigmoid(forward(X, *network))
    return -np.sum(q * np.log(p) + (1 - q) * np.log(1 - p)) / len(X)


def gradient(X, q, W1, b1, W2, b2):
    hidden = np.maximum(X @ W1 + b1, 0)
    G = (sigmoid(hidden @ W2 + b2) - q) / len(X)
    H = (G @ W2.T) * (hidden > 0)
    return [X.T @ H, H.sum(axis=0), hidden.T @ G, G.sum(axis=0)]


def kl(q, p):
    def term(a, b):
        return np.where(a > 0, a * np.log(np.maximum(a, 1e-300) / b), 0)

    return term(q, p) + term(1 - q, 1 - p)


def bound(p, S, q, pi, rho, beta_y, beta_0):
    listed = (1 - q) * (S * np.log(rho) + (1 - S) * np.log(1 - rho))
    return np.sum(listed - beta_y * kl(q, p) - beta_0 * kl(q, pi)) / len(S)


def posterior(p, S, pi, rho, beta_y, beta_0):
    evidence = beta_y * np.log(p / (1 - p)) + beta_0 * np.log(pi / (1 - pi)) - np.log(rho)
    return S * sigmoid(evidence / (beta_y + beta_0))


def plain_pard(
    X,
    S,
    beta_y=1.0,
    beta_0=0.1,
    hidden=16,
    epochs=12,
    warm=5,
    batch=32,
    lr=1e-3,
    decay=1e-4,
    seed=0,
):
    span = X.max(axis=0) - X.min(axis=0)
    X = np.where(span > 0, (X - X.min(axis=0)) / np.where(span > 0, span, 1), 0)
    n, d = X.shape
    l = S.shape[1]
    rng = np.random.default_rng(seed)
    W1 = rng.normal(size=(d, hidden)) * np.sqrt(2 / d)
    W2 = rng.normal(size=(hidden, l)) * np.sqrt(2 / hidden)
    network = [W1, np.zeros(hidden), W2, np.zeros(l)]
    m, v = [np.zeros_like(w) for w in network], [np.zeros_like(w) for w in network]
    pi, rho = np.clip(S.mean(axis=0) / 2, 1e-3, 0.5), np.clip(S.mean(axis=0) / 2, 1e-3, 0.95)
    t, bounds = 0, []
    for epoch in range(epochs):
        q = S
        if epoch >= warm:
            q = posterior(sigmoid(forward(X, *network)), S, pi, rho, beta_y, beta_0)
            rho = np.clip(np.sum(S * (1 - q), axis=0) / np.sum(1 - q, axis=0), 1e-3, 0.95)
        order = rng.permutation(n)
        for i in range(0, n, batch):
            rows, t = order[i : i + batch], t + 1
            for k, g in enumerate(gradient(X[rows], q[rows], *network)):
                g = g + decay * network[k]
                m[k] = 0.9 * m[k] + 0.1 * g
                v[k] = 0.999 * v[k] + 0.001 * g**2
                step = (m[k] / (1 - 0.9**t)) / (np.sqrt(v[k] / (1 - 0.999**t)) + EPS)
                network[k] = network[k] - lr * step
        p = sigmoid(forward(X, *network))
        best = posterior(p, S, pi, rho, beta_y, beta_0)
        bounds.append(bound(p, S, best, pi, rho, beta_y, beta_0))
    return forward(X, *network), best, rho, np.array(bounds)


def network(layers, x):
    for k in range(0, len(layers), 2):
        x = (np.maximum(x, 0) if k else x) @ layers[k] + layers[k + 1]
    return x


def feature_bound(X, q, encoder, decoder, sigma, noise):
    """Per row: -||x - dec(q, z)||^2 / (2 sigma^2) - KL(N(m, v) || N(0, I))."""
    total = 0.0
    for x, y, e in zip(X, q, noise, strict=True):
        out = network(encoder, np.concatenate([x, y])[None])[0]
        mean, v = out[: len(e)], np.exp(np.clip(out[len(e) :], -10, 10))
        z = mean + np.sqrt(v) * e
        left = x - network(decoder, np.concatenate([y, z])[None])[0]
        total -= left @ left / (2 * sigma**2) + np.sum(mean**2 + v - 1 - np.log(v)) / 2
    return total / len(X)
