"""Plain transcription of the model of answers along a ranking, one point of the grid at a time."""

import math

from scipy.stats import norm

SLOPES = [0.15 * (12 / 0.15) ** (i / 11) for i in range(12)]
OFFSETS = [-20 + 40 * i / 60 for i in range(61)]
FLOORS = [0, 0.03, 0.07, 0.12, 0.2, 0.3, 0.45]


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def posterior(score, is_hit):
    """Weight of each (slope, offset, floor)."""
    log_weights = {}
    for a in SLOPES:
        for b in OFFSETS:
            for g in FLOORS:
                value = -0.5 * math.log(a) ** 2 - 0.5 * (b / 6) ** 2
                for s, hit in zip(score, is_hit, strict=True):
                    p = min(max(g + (1 - g) * sigmoid(b + a * s), 1e-9), 1 - 1e-9)
                    value += math.log(1 - p) if hit else math.log(p)
                log_weights[a, b, g] = value
    top = max(log_weights.values())
    total = sum(math.exp(value - top) for value in log_weights.values())
    return {point: math.exp(value - top) / total for point, value in log_weights.items()}


def hit_probability(weights, score):
    """Probability that a tag with this score is a hit."""
    return sum(w * (1 - g) * (1 - sigmoid(b + a * score)) for (a, b, g), w in weights.items())


def limit(weights, scores, target):
    """Longest prefix with an expected share at the target, and seldom more than 0.1 below."""
    best, hits = 0, 0.0
    near = probabilities_of_shares(weights, scores, target - 0.1)
    for k, s in enumerate(scores, 1):
        hits += hit_probability(weights, s)
        if hits >= target * k and near[k - 1] >= 0.9:
            best = k
    return best


def sure_limit(weights, scores, target, probability):
    """Longest prefix whose share of hits reaches the target with this probability."""
    sure = probabilities_of_shares(weights, scores, target)
    return max((k + 1 for k, p in enumerate(sure) if p >= probability), default=0)


def probabilities_of_shares(weights, scores, least):
    """Probability of every prefix that its share of hits is at least this large."""
    sure = [0.0] * len(scores)
    for (a, b, g), w in weights.items():
        hits = 0.0
        for k, s in enumerate(scores):
            hits += (1 - g) * (1 - sigmoid(b + a * s))
            sure[k] += w * (hits >= least * (k + 1))
    return sure


def share_interval(weights, scores):
    """Mean and 90% interval of the share of hits among some tags."""
    shares = sorted(
        (sum((1 - g) * (1 - sigmoid(b + a * s)) for s in scores) / len(scores), w)
        for (a, b, g), w in weights.items()
    )
    below, low, high = 0.0, None, None
    for share, w in shares:
        below += w
        low = share if low is None and below >= 0.05 else low
        high = share if high is None and below >= 0.95 else high
    return sum(share * w for share, w in shares), low, high


def normal_score(rank, size):
    return norm.ppf((rank + 0.5) / size)


class EProcess:
    """E-value of one target, one answer at a time."""

    def __init__(self, n_tags, target):
        self.n_tags, self.most = n_tags, n_tags * (1 - target)
        self.shares = [(1 - target) * x for x in (0, 0.1, 0.2, 0.3, 0.45, 0.6, 0.75)]
        self.values, self.asked, self.misses, self.largest = [1.0] * 7, 0, 0, 1.0

    def add(self, is_miss):
        m = (self.most - self.misses) / (self.n_tags - self.asked)
        m = min(max(m, 1e-9), 1 - 1e-9)
        for k, share in enumerate(self.shares):
            r = min(share, 0.999 * m)
            self.values[k] *= max(r, 1e-12) / m if is_miss else (1 - r) / (1 - m)
        self.asked, self.misses = self.asked + 1, self.misses + is_miss
        self.largest = max(self.largest, self.value)

    @property
    def value(self):
        return sum(self.values) / len(self.values)
