"""Votes of a crowd
===================

Five people tag each image; each of them misses some tags and adds some wrong ones. Counting votes
is one way to clean the tags, judging them by the image another. Both together work best:
`find_noisy_labels` takes the votes, learns how reliable each person is, and combines them with the
images.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import precision_recall_curve

from schirn import find_noisy_labels
from schirn.cleaning import votes_to_candidates
from schirn.datasets import load_digits_attributes

rows = 400 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1000
digits = load_digits_attributes().subset(range(rows))
random = np.random.default_rng(0)
items, workers, tags = [], [], []
people = {"ann": 0.1, "bob": 0.2, "cem": 0.2, "dia": 0.3, "eva": 0.4}
for worker, error in people.items():
    sees = random.random(digits.y_true.shape) < 1 - error  # of the true tags
    errs = random.random(digits.y_true.shape) < error  # of the false ones
    given = np.where(digits.y_true == 1, sees, errs)
    for row, label in zip(*np.nonzero(given), strict=True):
        items.append(int(row))
        workers.append(worker)
        tags.append(digits.label_names[label])
votes = votes_to_candidates(items, workers, tags, order=range(rows))
columns = [digits.label_names.index(name) for name in votes.label_names]
truth = digits.y_true[:, columns]
listed = votes.candidates == 1
print(f"{len(items):,} votes; {1 - truth[listed].mean():.0%} of the listed tags are wrong")

# %%
images = find_noisy_labels(digits.X, votes.candidates)
both = find_noisy_labels(digits.X, votes.candidates, votes=votes)
for person in both.annotators:
    print(
        f"{person.name}: {person.sensitivity:.0%} of the correct tags chosen, "
        f"wrong ones {person.false_factor:.1f} times as often as average"
    )

figure, axes = plt.subplots(figsize=(6.5, 4.4))
wrong = truth[images.row, images.column] == 0
for name, confidence, style in (
    ("votes and images", both.confidence, "-"),
    ("images alone", images.confidence, "--"),
    ("votes alone", votes.prior[images.row, images.column], ":"),
):
    precision, recall, _ = precision_recall_curve(wrong, 1 - confidence)
    axes.plot(recall, precision, style, label=name)
    removed = confidence < 0.5
    axes.plot(removed[wrong].mean(), wrong[removed].mean(), "o", color=axes.lines[-1].get_color())
    print(f"{name:<17} {np.mean(removed == wrong):.1%} of the verdicts at threshold 0.5 are right")
axes.set(
    xlabel="share of the wrong tags that are removed",
    ylabel="share of the removed tags that are wrong",
)
axes.legend(loc="lower left")
