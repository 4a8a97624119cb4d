"""Find the wrong tags of images
================================

Each image of a handwritten digit carries tags such as "even" or "has a loop". Two wrong ones were
added to every image. `find_noisy_labels` ranks all tags without knowing which ones are true, and
fifty answers decide which of them to remove.
"""

import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

rows = 400 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2).subset(range(rows))
ranking = find_noisy_labels(digits.X, digits.candidates, label_names=digits.label_names)
print(ranking.sentence)

# %%
# Here the truth answers 25 questions along all ranks, and 25 around the limit of the removals.
for _ in range(2):
    asked = ranking.questions(25)
    ranking = ranking.answered(asked, digits.y_true[asked.row, asked.column] == 1)
print(ranking.sentence)
summary = ranking.summary()
print({name: summary[name] for name in ("rows", "tags", "removed")})

# %%
# The verdicts on one image, as a table:
print(ranking.to_pandas().query("row == 3").to_string(index=False))

# %%
# The first image of every digit, not the best results. Red tags were removed, grey tags were kept.
# A cross marks a mistake.


def write_tags(axes, row):
    """Write the tags of one row below its image, and strike out the removed ones."""
    for line, j in enumerate(np.flatnonzero(digits.candidates[row])):
        removed, wrong = not ranking.clean[row, j], not digits.y_true[row, j]
        text = axes.text(
            0.0,
            -0.12 - 0.17 * line,
            digits.label_names[j] + ("" if removed == wrong else "  ✗"),
            transform=axes.transAxes,
            color="#b3261e" if removed else "#3b3f4e",
            fontsize=9,
        )
        if removed:
            box = text.get_window_extent().transformed(axes.transAxes.inverted())
            middle = (box.y0 + box.y1) / 2
            axes.plot([box.x0, box.x1], [middle] * 2, transform=axes.transAxes, clip_on=False)


target = load_digits().target[:rows]
figure, grid = plt.subplots(2, 5, figsize=(9, 7), layout="none")
figure.subplots_adjust(hspace=1.25, wspace=0.35, top=0.97, bottom=0.26, left=0.03, right=0.97)
for digit, axes in enumerate(grid.flat):
    row = int(np.flatnonzero(target == digit)[0])
    axes.imshow(digits.images[row], cmap="gray_r")
    axes.axis("off")
    axes.set_prop_cycle(color=["#b3261e"])
    write_tags(axes, row)

# %%
# How often were the removals right?

wrong = digits.y_true[ranking.row, ranking.column] == 0
print(f"{wrong[ranking.removed].mean():.1%} of the removed tags were wrong")
print(f"{ranking.removed[wrong].mean():.1%} of the wrong tags were removed")
