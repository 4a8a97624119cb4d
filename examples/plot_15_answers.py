"""Fifty answers from a person
===========================

The wrong tags of these images are drawn from those that the image itself suggests. Nothing in the
tags shows how many of them are wrong. Fifty answers from a person do, and they show how far down
the ranking tags can be removed.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2, kind="feature").subset(range(rows))
ranking = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
right = digits.y_true[ranking.row, ranking.column] == 1
print(ranking.sentence)
print(f"Truly wrong: {1 - right.mean():.0%} of the tags")

# %%
# Two steps of 25 questions: along all ranks, then around the limit up to which tags would be
# removed. Here the truth answers; a person would look at the images.
for _ in range(2):
    asked = ranking.questions(25)
    ranking = ranking.answered(asked, digits.y_true[asked.row, asked.column] == 1)
    print(ranking.sentence)
unasked = np.isnan(ranking.worklist.answer)
removed = ranking.removed & unasked
n_wrong = (~right[removed]).sum()
print(f"{removed.sum()} other tags are removed; {n_wrong} of them are wrong")

# %%
# The answers also give every rank a probability. The dots are the truth about 20 parts of it.
order = ranking.worklist.order
figure, axes = plt.subplots(figsize=(7, 4))
axes.plot(1 - ranking.confidence[order], label="by fifty answers")
parts = np.array_split(np.arange(len(order)), 20)
axes.plot([part.mean() for part in parts], [np.mean(~right[order[part]]) for part in parts], "o",
          label="truth")  # fmt: skip
axes.axvline(ranking.worklist.limit(ranking.precision), color="#8a8fa3", linestyle=":")
axes.set(xlabel="rank, the most suspicious tag first", ylabel="probability of being wrong")
axes.legend()

# %%
# A certificate draws from the removals until it is certified or you stop.
certificate = ranking.certify(target=0.8)
while not certificate.certified and len(asked := certificate.questions(10)):
    certificate = certificate.answered(asked, digits.y_true[asked.row, asked.column] == 1)
print(certificate)
