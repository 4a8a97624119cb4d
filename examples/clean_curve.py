"""What fifty answers remove, and precision against recall of the whole ranking.

`python examples/clean_curve.py` writes docs/images/clean-curve.png and prints the table of
docs/results/cleaning.md. The truth answers the questions, and draws the curves. The data sets
medical and enron are included if SCHIRN_DATA has them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import precision_recall_curve

from schirn import find_noisy_labels
from schirn.datasets import add_noise, load, load_digits_attributes

TARGET = Path(__file__).parents[1] / "docs" / "images" / "clean-curve.png"
DIGITS = [
    ("digits, 1 wrong tag per image", {"r": 1}),
    ("digits, 2 wrong tags", {"r": 2}),
    ("digits, 3 wrong tags", {"r": 3}),
    ("digits, 2 wrong tags that look right", {"r": 2, "kind": "feature"}),
]
COLOURS = ("#56B4E9", "#0072B2", "#009E73", "#D55E00", "#CC79A7", "#777777")
DASHES = ("-", "--", "-.", ":", "-", "--")


def tables() -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the name, features, tags and true tags of every table."""
    for name, noise in DIGITS:
        digits = load_digits_attributes(**noise)
        yield name, digits.X, digits.candidates, digits.y_true
    for name in ("medical", "enron"):
        if Path(os.environ.get("SCHIRN_DATA", ""), f"{name}.npz").is_file():
            data = load(name)
            tags = add_noise(data.y_true, 1, random_state=0)
            yield f"{name}, 1 wrong tag per row", data.X, tags, data.y_true


def main() -> None:
    """Print the table and draw the curves."""
    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    print("| table | wrong | by fifty answers | removed | of these wrong | wrong ones found |")
    print("|---|--:|--:|--:|--:|--:|")
    styles = zip(COLOURS, DASHES, strict=True)
    for (name, X, tags, truth), (colour, dashes) in zip(tables(), styles, strict=False):
        ranking = find_noisy_labels(X, tags)
        wrong = truth[ranking.row, ranking.column] == 0
        precision, recall, _ = precision_recall_curve(wrong, 1 - ranking.confidence)
        axes.plot(recall, precision, color=colour, linestyle=dashes, label=name)
        for _ in range(2):
            asked = ranking.questions(25)
            ranking = ranking.answered(asked, truth[asked.row, asked.column] == 1)
        right, share = wrong[ranking.removed].mean(), ranking.removed[wrong].mean()
        axes.plot(share, right, "o", color=colour)
        low, high = ranking.wrong_share_interval
        print(
            f"| {name} | {wrong.mean():.1%} | {low:.0%} to {high:.0%} | {ranking.removed.sum():,} "
            f"| {right:.1%} | {share:.1%} |"
        )
    axes.set(
        xlabel="share of the wrong tags that are removed",
        ylabel="share of the removed tags that are wrong",
        xlim=(0, 1.003),
        ylim=(0.5, 1.005),
    )
    axes.set_title("Every number of removals; dots: by fifty answers", loc="left", fontsize=11)
    axes.grid(color="#dcdfe5")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower left", fontsize=8)
    figure.savefig(TARGET, dpi=160)


if __name__ == "__main__":
    main()
