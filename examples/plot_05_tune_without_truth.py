"""Choose a parameter without truth
===================================

`CandidateSearchCV` scores every setting on the *candidates* of held-out rows. If labels are wrong
at random, the setting that ranks unseen candidates best is nearly the one that ranks unseen true
labels best. The figure confirms this.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import CandidateRidge
from schirn.datasets import make_partial_multilabel
from schirn.model_selection import CandidateSearchCV

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
data = make_partial_multilabel(
    n_samples=200 if quick else 600,
    n_features=200,
    n_labels=15,
    cardinality=2.5,
    r=3,
    random_state=0,
)
grid = {"lam": np.logspace(0, 5, 6 if quick else 21).tolist()}
search = CandidateSearchCV(CandidateRidge(), grid).fit(data.X, data.candidates)
print(search.best_params_, "tuned on", search.tuned_on_)

# %%
# For the figure only, score the same folds on the truth. The result is marked as an oracle.

oracle = CandidateSearchCV(CandidateRidge(), grid, oracle=True)
oracle.fit(data.X, data.candidates, y_clean=data.y_true)
print(oracle.best_params_, "tuned on", oracle.tuned_on_)

figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
for panel, result, words, colour in (
    (axes[0], search, "held-out candidates", "#b3261e"),
    (axes[1], oracle, "held-out truth (unknown in practice)", "#0072B2"),
):
    mean = result.cv_results_["mean_test_score"]
    spread = result.cv_results_["std_test_score"] / np.sqrt(result.n_splits_)
    panel.plot(grid["lam"], mean, marker=".", color=colour)
    panel.fill_between(grid["lam"], mean - spread, mean + spread, color=colour, alpha=0.15)
    panel.axvline(result.best_params_["lam"], color=colour, linestyle="--", linewidth=1)
    panel.set(xscale="log", ylabel="average precision", title=words)
axes[1].set_xlabel("ridge weight")

# %%
# The cost of choosing on candidates, in average precision on the truth:

truth = oracle.cv_results_["mean_test_score"]
print(f"{truth.max() - truth[search.best_index_]:.4f}")
