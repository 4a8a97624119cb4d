"""From scores to labels
========================

`decision_function` returns scores, and `predict` turns them into labels by a threshold rule. The
default of `Schirn`, "cardinality", predicts as many labels per row as the model estimates there
are on average. The figure shows precision and recall of several rules on unseen rows.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import f1_score, precision_score, recall_score

from schirn import Schirn
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2).subset(range(rows))
half = rows // 2
X = digits.X / 16
model = Schirn(lam=1.0, fit_intercept=True).fit(X[:half], digits.candidates[:half])
truth, unseen = digits.y_true[half:], X[half:]

rules = ("cardinality", 0.5, 0.7, "top-3", "top-5", "row-0.5", "row-0.9")
results = {}
for rule in rules:
    predicted = model.predict(unseen, threshold=rule)
    results[str(rule)] = [
        measure(truth, predicted, average="micro", zero_division=0)
        for measure in (precision_score, recall_score, f1_score)
    ]
    print(f"{rule!s:<12} {predicted.sum(axis=1).mean():.1f} labels per row", end="  ")
    print("precision {:.2f}  recall {:.2f}  F1 {:.2f}".format(*results[str(rule)]))

figure, axes = plt.subplots(figsize=(6.5, 4.5))
for level in (0.6, 0.7, 0.8, 0.9):
    recall = np.linspace(level / (2 - level), 1, 50)
    axes.plot(recall, level * recall / (2 * recall - level), color="#d5d8e0", linewidth=1)
    axes.annotate(f"F1 = {level}", (1.005, level / (2 - level)), color="#8a8fa3", fontsize=8)
for rule, (precision, recall, _) in results.items():
    chosen = rule == "cardinality"
    axes.plot(recall, precision, "D" if chosen else "o", color="#b3261e" if chosen else "#0072B2")
    axes.annotate(rule, (recall, precision), xytext=(5, 5), textcoords="offset points", fontsize=9)
axes.set(xlabel="recall", ylabel="precision", xlim=(0.3, 1.1), ylim=(0.4, 1.03))
print(f"true labels per row {truth.sum(axis=1).mean():.2f}, estimated {model.cardinality_:.2f}")
