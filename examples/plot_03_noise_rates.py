"""Which labels are noisy?
==========================

Some labels are added carelessly and others are not. `find_noisy_labels` estimates, for every
label, how many of its listings are wrong; nobody tells it a true label.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1000
digits = load_digits_attributes(r=1).subset(range(rows))
random = np.random.default_rng(0)
listed_wrongly = np.linspace(0.02, 0.5, digits.n_labels)  # probability, one per label
noise = random.random(digits.y_true.shape) < listed_wrongly
candidates = np.where(digits.y_true == 1, 1, noise).astype(np.uint8)

found = find_noisy_labels(digits.X, candidates, label_names=digits.label_names)
estimate = np.zeros(digits.n_labels)
for label in range(digits.n_labels):
    estimate[label] = 1 - found.confidence[found.column == label].mean()

# %%
# The share of wrong listings, estimated and true:

wrong = (candidates == 1) & (digits.y_true == 0)
truth = wrong.sum(axis=0) / candidates.sum(axis=0)
order = np.argsort(truth)
place = np.arange(len(order))
figure, axes = plt.subplots(figsize=(7, 4))
axes.hlines(place, truth[order], estimate[order], color="#c9cdd8", linewidth=3)
axes.plot(truth[order], place, "o", color="#3b3f4e", label="true")
axes.plot(estimate[order], place, "D", color="#b3261e", label="estimated without truth")
axes.set_yticks(place, [digits.label_names[j] for j in order])
axes.set(xlabel="share of the listings that are wrong", xlim=(0, None))
axes.legend(loc="lower right")
distance = np.abs(estimate - truth)
print(f"mean distance {distance.mean():.3f}, largest {distance.max():.3f}")
