"""Mend the list of tags
=====================

People write one tag in several ways, forget the parent of a tag, and put some tags on everything.
The rows on which the tags stand show it: two names of one thing stand on the same kind of rows, and
rarely together.
"""

import os

import matplotlib.pyplot as plt
import numpy as np

from schirn.cleaning import propose_vocabulary

rng = np.random.default_rng(0)
words = {
    "coat": "warm winter zip hood sleeve wool",
    "jacket": "light rain zip pocket sleeve sport",
    "pan": "steel fry lid handle oven kitchen",
    "mug": "coffee tea cup ceramic kitchen gift",
    "lamp": "bulb shade desk bright light cable",
}
parents = {"coat": "clothing", "jacket": "clothing", "pan": "kitchenware", "mug": "kitchenware"}
n_rows = 400 if "SCHIRN_EXAMPLE_QUICK" in os.environ else 1500
texts = []
tags = []
for _ in range(n_rows):
    kind = str(rng.choice(list(words)))
    texts.append(" ".join(rng.choice(words[kind].split(), 5)))
    row = [kind]
    if kind == "pan" and rng.random() < 0.3:
        row = ["Pans"]
    if kind in parents and rng.random() < 0.85:
        row.append(parents[kind])
    if rng.random() < 0.95:
        row.append("shop")
    tags.append(row)

# %%
# Every proposal comes with its evidence. Nothing is changed yet.
vocabulary = propose_vocabulary(tags, texts)
for line in vocabulary:
    print(line)

# %%
# Answer with yes or no; here, all proposals are right. The accepted lines are applied: other
# spellings are merged, parents are added, and the tag on everything is gone.
vocabulary = vocabulary.answer(dict.fromkeys(range(len(vocabulary)), True))
applied = vocabulary.apply(tags)
print(f"{len(applied.changes):,} changes in {len({c.row for c in applied.changes}):,} rows")


def rows_by_tag(rows):
    """Number of rows of every tag."""
    names, counts = np.unique([tag for row in rows for tag in row], return_counts=True)
    return dict(zip(names.tolist(), counts.tolist(), strict=True))


before = rows_by_tag(tags)
after = rows_by_tag(applied.rows)
names = sorted(before, key=before.get)
place = np.arange(len(names))
figure, axes = plt.subplots(figsize=(7, 4))
axes.barh(place + 0.2, [before[name] for name in names], 0.4, label="before")
axes.barh(place - 0.2, [after.get(name, 0) for name in names], 0.4, label="after")
axes.set_yticks(place, names)
axes.set_xlabel("rows")
axes.legend()
plt.show()
