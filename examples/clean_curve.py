"""Precision and recall of the removed tags at every threshold.

`python examples/clean_curve.py` writes docs/images/clean-curve.png and prints the table of
docs/cleaning.md. The truth is used only to draw the curves.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import precision_recall_curve

from schirn import find_noisy_labels
from schirn.datasets import load_digits_attributes

TARGET = Path(__file__).parents[1] / "docs" / "images" / "clean-curve.png"
SETTINGS = [
    ("1 wrong tag per image", {"r": 1}),
    ("2 wrong tags per image", {"r": 2}),
    ("3 wrong tags per image", {"r": 3}),
    ("2 wrong tags that look right", {"r": 2, "kind": "feature"}),
]
COLOURS = ("#56B4E9", "#0072B2", "#009E73", "#D55E00")
DASHES = ("-", "--", "-.", ":")


def main() -> None:
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    print("| digits with | wrong before | removed | of these wrong | wrong ones found |")
    print("|---|--:|--:|--:|--:|")
    for (name, noise), colour, dashes in zip(SETTINGS, COLOURS, DASHES, strict=True):
        digits = load_digits_attributes(**noise)
        found = find_noisy_labels(digits.X, digits.candidates)
        wrong = digits.y_true[found.row, found.column] == 0
        precision, recall, _ = precision_recall_curve(wrong, 1 - found.confidence)
        axes.plot(recall, precision, color=colour, linestyle=dashes, label=name)
        right, share = wrong[found.removed].mean(), found.removed[wrong].mean()
        axes.plot(share, right, "o", color=colour)
        counts = f"{wrong.mean():.1%} | {np.count_nonzero(found.removed):,}"
        print(f"| {name} | {counts} | {right:.1%} | {share:.1%} |")
    axes.set(
        xlabel="share of the wrong tags that are removed",
        ylabel="share of the removed tags that are wrong",
        xlim=(0.3, 1.003),
        ylim=(0.5, 1.005),
    )
    axes.set_title("Every threshold; the dots are the default, 0.5", loc="left", fontsize=11)
    axes.grid(color="#dcdfe5")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(TARGET, dpi=160)


if __name__ == "__main__":
    main()
