"""A convolutional network on images with wrong tags: what they cost, and what DeepSieve recovers.

Run `python examples/deep_digits.py`; it takes about half a minute on one core. It requires the
extras `deep` and `plot`, prints a table and writes docs/images/deep-digits.png. Each of 1,797
handwritten digits carries its true tags and three wrong ones. The same small network is trained
three times: with cross-entropy on the given tags, with `DeepSieve` on the given tags, and with
cross-entropy on the true tags. Only the last one, and the evaluation, use the truth.
"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch
from sklearn.model_selection import train_test_split
from torch import nn

from schirn.datasets import load_digits_attributes
from schirn.deep import DeepSieve
from schirn.metrics import average_precision, noise_report

TARGET = Path(__file__).parents[1] / "docs" / "images" / "deep-digits.png"
COLOURS = {"tags as they are": "#D55E00", "DeepSieve": "#0072B2", "true tags": "#009E73"}


def backbone() -> nn.Sequential:
    layers = []
    for channels, out in ((1, 32), (32, 64)):
        layers += [nn.Conv2d(channels, out, 3, padding=1), nn.BatchNorm2d(out), nn.ReLU()]
        layers.append(nn.MaxPool2d(2))
    dense = [nn.Linear(256, 128), nn.BatchNorm1d(128), nn.ReLU(), nn.Dropout(0.3)]
    return nn.Sequential(*layers, nn.Flatten(), *dense)


def train(pixels, tags, estimate_noise=True):
    torch.manual_seed(0)
    model = DeepSieve(
        module=backbone(),
        input_shape=(1, 8, 8),
        scale="none",
        folds=2,
        estimate_noise=estimate_noise,
        max_iter=40,
        batch_size=64,
        learning_rate=3e-3,
    )
    return model.fit(pixels, tags)


def draw(models, scores):
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.4, 3.6), width_ratios=(3, 2), layout="constrained"
    )
    for name in ("tags as they are", "DeepSieve"):
        curve = models[name].held_out_score_
        style = ":" if name == "tags as they are" else "-"
        left.plot(np.arange(1, len(curve) + 1), curve, style, color=COLOURS[name], label=name)
        best = models[name].best_iter_
        left.plot(best, curve[best - 1], "o", color=COLOURS[name])
    left.set(xlabel="epoch", ylabel="average precision on held-out tags", ylim=(0.82, 0.94))
    left.set_title("What training sees: tags only", loc="left", size=11)
    left.legend(frameon=False, loc="lower right")
    for line, (name, value) in enumerate(scores.items()):
        right.plot(value, -line, "o", markersize=9, color=COLOURS[name])
        right.annotate(f"{value:.3f}", (value, 0.18 - line), ha="center")
    right.set_yticks([0, -1, -2], list(scores))
    right.set_ylim(-2.5, 0.6)
    right.set(xlim=(0.98, 1.0), xlabel="average precision on test images")
    right.set_title("What is true of new images", loc="left", size=11)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dcdfe5")
    figure.savefig(TARGET, dpi=160)


def main() -> None:
    torch.set_num_threads(1)
    digits = load_digits_attributes(r=3)
    rows, test = train_test_split(np.arange(1797), test_size=0.3, random_state=0)
    pixels, tags, truth = digits.X / 16, digits.candidates, digits.y_true
    models = {
        "tags as they are": train(pixels[rows], tags[rows], estimate_noise=False),
        "DeepSieve": train(pixels[rows], tags[rows]),
        "true tags": train(pixels[rows], truth[rows], estimate_noise=False),
    }
    scores = {
        name: average_precision(truth[test], model.decision_function(pixels[test]))
        for name, model in models.items()
    }
    print("| trained with | average precision |\n|---|--:|")
    for name, value in scores.items():
        print(f"| {name} | {value:.3f} |")
    model = models["DeepSieve"]
    report = noise_report(truth[rows], tags[rows], model.noise_, model.label_confidence_)
    print(
        f"\nDeepSieve removed {model.noise_.sum():,} tags; {report['precision']:.1%} of them were "
        f"wrong, and {report['recall']:.1%} of the wrong ones were found."
    )
    draw(models, scores)


if __name__ == "__main__":
    main()
