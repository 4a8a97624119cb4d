"""Which labels are noisy?
==========================

Some labels are assigned more carelessly than others. If wrong tags fall at random, as here, the
probabilities of `find_noisy_labels` show which ones. On real data, nobody knows before a person has
answered some questions.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1000
digits = load_digits_attributes(r=1).subset(range(rows))
random = np.random.default_rng(0)
rates = np.linspace(0.02, 0.5, digits.n_labels)  # of wrong listings, one per label
noise = random.random(digits.y_true.shape) < rates
candidates = np.where(digits.y_true == 1, 1, noise).astype(np.uint8)

ranking = find_noisy_labels(digits.X, candidates, label_names=digits.label_names)
estimate = np.zeros(digits.n_labels)
for label in range(digits.n_labels):
    estimate[label] = 1 - ranking.confidence[ranking.column == label].mean()

# %%
# The share of wrong rows per label, estimated and true:

wrong = (candidates == 1) & (digits.y_true == 0)
truth = wrong.sum(axis=0) / candidates.sum(axis=0)
order = np.argsort(truth)
position = np.arange(len(order))
figure, axes = plt.subplots(figsize=(7, 4))
axes.hlines(position, truth[order], estimate[order], color="#c9cdd8", linewidth=3)
axes.plot(truth[order], position, "o", color="#3b3f4e", label="true")
axes.plot(estimate[order], position, "D", color="#b3261e", label="estimated without true labels")
axes.set_yticks(position, [digits.label_names[j] for j in order])
axes.set(xlabel="share of the rows with this label that should not have it", xlim=(0, None))
axes.legend(loc="lower right")
distance = np.abs(estimate - truth)
print(f"mean error {distance.mean():.3f}, largest {distance.max():.3f}")
