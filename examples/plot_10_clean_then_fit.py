"""Your own classifier on clean labels
======================================

Labels that look wrong are removed from the training rows, and a random forest learns from the
others. It is compared with the same forest trained on all candidates and on the truth.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import f1_score
from sklearn.model_selection import train_test_split

from schirn import find_noisy_labels
from schirn.datasets import add_noise, load_digits_attributes

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
digits = load_digits_attributes()
rows = np.arange(300 if quick else 1200)
train, test = train_test_split(rows, test_size=0.3, random_state=0)
levels = (1, 3) if quick else (1, 2, 3)


def forest():
    """Return a forest that predicts all labels at once."""
    return RandomForestClassifier(n_estimators=30 if quick else 100, random_state=0)


results = {"on the truth": [], "on clean labels": [], "on all candidates": []}
for r in levels:
    candidates = add_noise(digits.y_true, r, random_state=r)
    ranking = find_noisy_labels(digits.X[train], candidates[train]).remove(below=0.5)
    models = {
        "on the truth": forest().fit(digits.X[train], digits.y_true[train]),
        "on clean labels": forest().fit(digits.X[train], ranking.clean),
        "on all candidates": forest().fit(digits.X[train], candidates[train]),
    }
    for name, model in models.items():
        predicted = model.predict(digits.X[test])
        results[name].append(f1_score(digits.y_true[test], predicted, average="micro"))

figure, axes = plt.subplots(figsize=(7, 4))
for (name, values), colour in zip(results.items(), ("#3b3f4e", "#b3261e", "#0072B2"), strict=True):
    axes.plot(levels, values, marker="o", color=colour, label=f"forest {name}")
    print(f"{name:<18}", *(f"{value:.3f}" for value in values))
axes.set(xlabel="wrong labels per training row", ylabel="F1 on unseen rows", xticks=levels)
axes.legend(loc="lower left")
