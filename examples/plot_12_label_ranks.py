"""Noise raises the rank
========================

Several methods assume that the matrix of true labels has a low rank, which wrong labels raise. In
practice, true label matrices often have nearly full rank already, and the effect is small.
`exact_rank` computes the rank exactly, without a tolerance.
"""

import os

import matplotlib.pyplot as plt

from schirn.datasets import add_noise, load_digits_attributes, make_partial_multilabel
from schirn.lab.data import make_cooccurrence
from schirn.lab.rank import exact_rank

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
digits = load_digits_attributes()
data = make_partial_multilabel(
    n_samples=300 if quick else 1500, n_labels=30, cardinality=3, random_state=0
)
sets = {
    "digits with attributes": digits.y_true,
    "generated": data.y_true,
    "generated, then tied in pairs": make_cooccurrence(data.y_true, random_state=0),
}

levels = (0, 1, 2) if quick else (0, 1, 2, 3, 5)
figure, axes = plt.subplots(figsize=(7, 4))
for (name, truth), marker in zip(sets.items(), "os^", strict=True):
    ranks = [exact_rank(add_noise(truth, r, random_state=0) if r else truth) for r in levels]
    share = [rank / truth.shape[1] for rank in ranks]
    axes.plot(levels, share, marker=marker, label=name)
    print(f"{name:<30} labels {truth.shape[1]:>3}  ranks {ranks}")
axes.set(
    xlabel="wrong labels per row (0: the truth)",
    ylabel="rank / number of labels",
    ylim=(0, 1.08),
    xticks=levels,
)
axes.legend(loc="lower right")

# %%
# "Odd" is one minus "even" for every digit, and tied labels are copies of each other. Only such
# exact relations lower the rank, and one wrong label per row hides them. Labels that merely tend to
# occur together leave the rank full.
