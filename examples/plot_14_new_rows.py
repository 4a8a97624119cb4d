"""Judge the tags of new rows
=============================

A fitted model judges the tags of new rows: `disambiguate` takes features and candidates and
returns the probability that each candidate is true, without retraining.
"""

import os
import pathlib
import tempfile

import matplotlib.pyplot as plt
import numpy as np

import schirn
from schirn import Sieve
from schirn.datasets import load_digits_attributes

rows = 500 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1797
digits = load_digits_attributes(r=2).subset(range(rows))
half = rows // 2
model = Sieve().fit(digits.X[:half], digits.candidates[:half], label_names=digits.label_names)

# %%
# Save the model, a file of arrays without code, and load it again.

path = pathlib.Path(tempfile.mkdtemp()) / "digits.schirn"
schirn.save(model, path)
model = schirn.load(path)
print(f"{path.stat().st_size / 1024:.0f} kB")

# %%
# New rows with their candidates, as a matrix or as lists of names:

tags = [["even", "odd", "prime", "has a loop"]]
judged = model.disambiguate(digits.X[half : half + 1], tags)[0]
print({name: round(float(judged[digits.label_names.index(name)]), 3) for name in tags[0]})
confidence = model.disambiguate(digits.X[half:], digits.candidates[half:])

# %%
# Precision and recall of the removed tags by threshold; only this figure uses the true tags.

listed = digits.candidates[half:] == 1
wrong = digits.y_true[half:][listed] == 0
thresholds = np.linspace(0.01, 0.99, 50)
removed = confidence[listed][None, :] < thresholds[:, None]
precision = (removed & wrong).sum(axis=1) / np.maximum(removed.sum(axis=1), 1)
recall = (removed & wrong).sum(axis=1) / wrong.sum()
figure, axes = plt.subplots(figsize=(7, 3.8))
axes.plot(thresholds, precision, label="removed tags that are wrong")
axes.plot(thresholds, recall, label="wrong tags that are removed")
axes.axvline(0.5, color="#8a8fa3", linestyle="--", linewidth=1)
axes.set(xlabel="remove below this confidence", ylabel="share", ylim=(None, 1.01))
axes.legend(loc="lower center")
