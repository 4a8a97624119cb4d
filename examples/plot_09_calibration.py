"""Probabilities without true labels
====================================

`predict_proba` is calibrated on candidates alone. Are 80 % of the labels with probability 0.8
true? For comparison, logistic regression that takes the candidates as true: it predicts how likely
a label is to be *listed*.
"""

import os

import matplotlib.pyplot as plt
from sklearn.calibration import calibration_curve
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.multiclass import OneVsRestClassifier

from schirn import CandidateRidge, Schirn, Sieve
from schirn.datasets import make_partial_multilabel

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
n = 300 if quick else 1500
data = make_partial_multilabel(
    n_samples=2 * n, n_features=30, n_labels=12, cardinality=2.5, r=3, random_state=0
)
models = {
    "Sieve": Sieve(),
    "Schirn": Schirn(lam=1.0, fit_intercept=True),
    "CandidateRidge": CandidateRidge(fit_intercept=True),
    "logistic regression on candidates": OneVsRestClassifier(LogisticRegression()),
}

figure, axes = plt.subplots(figsize=(6, 5))
axes.plot([0, 1], [0, 1], color="#8a8fa3", linewidth=1, linestyle=":", label="perfect")
truth = data.y_true[n:].ravel()
for (name, model), marker in zip(models.items(), "os^d", strict=True):
    model.fit(data.X[:n], data.candidates[:n])
    probability = model.predict_proba(data.X[n:]).ravel()
    observed, predicted = calibration_curve(truth, probability, n_bins=10, strategy="quantile")
    axes.plot(predicted, observed, marker=marker, label=name)
    brier = brier_score_loss(truth, probability)
    print(f"{name:<34} Brier score {brier:.3f}, mean {probability.mean():.3f}")
print(f"share of true labels {truth.mean():.3f}")
axes.set(xlabel="predicted probability", ylabel="share of true labels", aspect="equal")
axes.legend(loc="upper left")
