"""More and more wrong labels
=============================

Average precision on unseen rows as the number of wrong labels per row grows. A comparison needs two
references: ridge regression that treats every candidate as true, and the same on the truth. All
methods except the oracle are trained and tuned on candidates only.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

from schirn import CandidateRidge, OracleRidge, Schirn, Sieve
from schirn.datasets import add_noise, load_digits_attributes
from schirn.metrics import average_precision
from schirn.model_selection import CandidateSearchCV

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
levels = (1, 3) if quick else (1, 2, 3, 4, 5)
digits = load_digits_attributes()
X = digits.X / 16
train, test = train_test_split(
    np.arange(300 if quick else digits.n_samples), test_size=0.3, random_state=0
)

LAMS = {"lam": [0.1, 1.0, 10.0, 100.0]}
METHODS = {
    "Sieve": Sieve(),
    "Schirn": CandidateSearchCV(Schirn(fit_intercept=True), {**LAMS, "alpha": [0.0, 0.2]}, cv=3),
    "CandidateRidge": CandidateSearchCV(CandidateRidge(fit_intercept=True), LAMS, cv=3),
}
scores = {name: [] for name in [*METHODS, "OracleRidge"]}
for r in levels:
    candidates = add_noise(digits.y_true, r, random_state=r)
    for name, model in METHODS.items():
        unseen = model.fit(X[train], candidates[train]).decision_function(X[test])
        scores[name].append(average_precision(digits.y_true[test], unseen))
    oracle = OracleRidge(lam=1.0, fit_intercept=True)
    oracle.fit(X[train], candidates[train], y_clean=digits.y_true[train])
    unseen = oracle.decision_function(X[test])
    scores["OracleRidge"].append(average_precision(digits.y_true[test], unseen))

figure, axes = plt.subplots(figsize=(7, 4))
for (name, values), marker in zip(scores.items(), "os^d", strict=True):
    style = "--" if "Ridge" in name else "-"
    axes.plot(levels, values, style, marker=marker, label=name)
axes.set(xlabel="wrong labels per row", ylabel="average precision on unseen rows", xticks=levels)
axes.legend()

# %%
# Schirn and the ridges are linear in the pixels; Sieve has its own kernel, which explains part of
# its lead. Use ``make_pipeline(Nystroem(n_components=300), Schirn())`` to give the others one.
for name, values in scores.items():
    print(f"{name:<15}", *(f"{value:.3f}" for value in values))
