"""The rank term of Schirn
==========================

`Schirn` raises the singular values of its predictions ("high"), while earlier methods shrink them
("low"). The left figure shows that the spectra differ as intended. The right one shows how much
this matters for the quality on these data, with plain ridge regression for comparison.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import CandidateRidge, Schirn
from schirn.datasets import make_partial_multilabel
from schirn.metrics import average_precision

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
n = 300 if quick else 1000
data = make_partial_multilabel(
    n_samples=2 * n, n_features=40, n_labels=25, cardinality=3, r=4, random_state=0
)
X, candidates = data.X[:n], data.candidates[:n]

betas = (0.0, 0.1, 1.0) if quick else (0.0, 0.01, 0.1, 1.0, 3.0, 10.0, 30.0)
figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8))
for term, marker in (("high", "o"), ("none", "s"), ("low", "^")):
    model = Schirn(lam=1.0, beta=1.0, rank_term=term, fit_intercept=True).fit(X, candidates)
    values = np.linalg.svd(model.decision_function(X), compute_uv=False)
    left.plot(np.arange(1, len(values) + 1), values, marker=marker, markersize=4, label=term)
    quality = []
    for beta in betas:
        model = Schirn(lam=1.0, beta=beta, rank_term=term, fit_intercept=True).fit(X, candidates)
        quality.append(average_precision(data.y_true[n:], model.decision_function(data.X[n:])))
    right.plot(np.maximum(betas, 3e-3), quality, marker=marker, markersize=4)
    print(f"{term:<5} average precision from {min(quality):.3f} to {max(quality):.3f}")
ridge = CandidateRidge(lam=1.0, fit_intercept=True).fit(X, candidates)
reference = average_precision(data.y_true[n:], ridge.decision_function(data.X[n:]))
right.axhline(reference, color="#8a8fa3", linestyle="--", linewidth=1)
right.annotate("CandidateRidge", (3e-3, reference), va="bottom", fontsize=9)
left.set(xlabel="index", ylabel="singular value", title="predictions, beta = 1", yscale="log")
left.legend(title="rank term")
right.set(
    xlabel="beta (leftmost: 0)", ylabel="average precision", title="unseen rows", xscale="log"
)
