"""What would another threshold do?
==================================

A lower threshold removes fewer tags, and more of the removals are right. Planted wrong tags
foretell both precision and recall, but only within a band, because nobody knows how many tags are
wrong. Answers of a person replace what was assumed by what was seen. Dots are the truth.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2).subset(range(rows))
# Eight of the 64 pixels tell little about the tags.
found = find_noisy_labels(digits.X[:, 20:28], digits.candidates)
wrong = digits.y_true[found.row, found.column] == 0
print(found.threshold_curve.at(0.5).sentence)
print(f"Truly wrong: {wrong.mean():.0%} of the tags")

# %%
# Here the truth answers for 200 tags; a person would look at the images.
cells = found.audit_sample(200, random_state=0)
checked = found.audited(cells, ~wrong[cells.index])
print(checked.threshold_curve.at(0.5).sentence)

# %%
# The threshold is on the scale of the confidences, which the answers have changed.
true_found = np.r_[0, np.cumsum(wrong[np.argsort(found.confidence, kind="stable")])]
figure, both = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
titles = ("planted tags", "200 answers")
for axes, verdicts, title in zip(both, (found, checked), titles, strict=True):
    points = [point for point in verdicts.threshold_curve if point.removed]
    x = [point.threshold for point in points]
    removed = np.array([point.removed for point in points])
    truth = {
        "precision": true_found[removed] / removed,
        "recall": true_found[removed] / wrong.sum(),
    }
    for name, colour in (("precision", "#24508f"), ("recall", "#1c6b3c")):
        low, middle, high = (
            [getattr(point, name + end) for point in points] for end in ("_low", "", "_high")
        )
        axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(x, middle, color=colour, label=name)
        axes.plot(x[::3], truth[name][::3], ".", color=colour)
    axes.set(title=title, xlabel="threshold", xlim=(0, 1), ylim=(0, 1.02))
both[0].legend(loc="lower left")
figure.tight_layout()
