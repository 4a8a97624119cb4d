"""Fifty answers of a person
===========================

The wrong tags of these images are drawn from those that the image itself suggests. Nothing in the
tags tells how many of them are wrong, so the confidences are too high. A person who checks fifty
tags can tell. The reliability diagram shows the confidences before and after.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import calibration_curve

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2, kind="feature").subset(range(rows))
found = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
right = digits.y_true[found.row, found.column] == 1
print(found.trust.sentence)
print(f"Truly wrong: {1 - right.mean():.0%} of the tags")

# %%
# `audit_sample` draws the tags to check. Here the truth answers; a person would look at the images.
cells = found.audit_sample(50, random_state=0)
checked = found.audited(cells, right[cells.index])
print(checked.trust.sentence)
print(checked.certificate)


def calibration_error(confidence):
    """Mean distance of confidence and truth over ten bins."""
    bins = np.minimum((10 * confidence).astype(int), 9)
    return np.abs(np.bincount(bins, confidence - right[rest], minlength=10)).sum() / len(confidence)


rest = np.ones(len(right), dtype=bool)
rest[cells.index] = False  # the answered tags count neither for nor against
figure, axes = plt.subplots(figsize=(6, 5))
axes.plot([0, 1], [0, 1], color="#8a8fa3", linewidth=1, linestyle=":", label="perfect")
for name, verdicts, style in (("before", found, "o--"), ("after 50 answers", checked, "s-")):
    confidence, removed = verdicts.confidence[rest], verdicts.removed[rest]
    observed, predicted = calibration_curve(right[rest], confidence, n_bins=10, strategy="quantile")
    axes.plot(predicted, observed, style, label=name)
    print(
        f"{name:<17} calibration error {calibration_error(confidence):.1%}, "
        f"{np.mean(1 - confidence):.0%} of the tags are called wrong, "
        f"{removed[~right[rest]].mean():.0%} of the wrong tags are removed"
    )
axes.set(xlabel="confidence that a tag is correct", ylabel="share of correct tags", aspect="equal")
axes.legend(loc="upper left")
