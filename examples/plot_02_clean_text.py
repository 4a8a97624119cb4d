"""Clean the tags of texts
==========================

Every machine that runs this example has the documentation of scikit-learn. We take the docstring of
each public class and function as a text, and tag it with its module and its kind. Then we add two
wrong tags per text and try to find them from the words.
"""

import inspect
import os

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import ClassifierMixin, ClusterMixin, RegressorMixin, TransformerMixin
from sklearn.utils.discovery import all_estimators, all_functions

from schirn import find_noisy_labels
from schirn.datasets import add_noise
from schirn.metrics import noise_auc

KINDS = {
    "classifier": ClassifierMixin,
    "regressor": RegressorMixin,
    "cluster method": ClusterMixin,
    "transformer": TransformerMixin,
}

names, texts, tags = [], [], []
for name, thing in all_estimators() + all_functions():
    text = inspect.getdoc(thing) or ""
    module = thing.__module__.split(".")[1]
    if inspect.isclass(thing):
        kinds = [kind for kind, base in KINDS.items() if issubclass(thing, base)]
    else:
        kinds = ["function"]
    names.append(name)
    # The name of the class and the examples at the end would give the module away.
    texts.append(text.split("Examples\n---")[0].replace(name, ""))
    tags.append([module, *kinds])

known = sorted({tag for row in tags for tag in row})
frequent = [tag for tag in known if sum(tag in row for row in tags) > 9]
truth = np.array([[tag in row for tag in frequent] for row in tags], dtype=np.uint8)
keep = np.flatnonzero(truth.sum(axis=1) > 1)
if "SCHIRN_EXAMPLE_QUICK" in os.environ:
    keep = keep[::3]
names, texts, truth = [names[i] for i in keep], [texts[i] for i in keep], truth[keep]
candidates = add_noise(truth, 2, random_state=0)
print(f"{len(texts)} texts, {len(frequent)} tags, {truth.sum(axis=1).mean():.1f} true per text")

# %%
# Pass the texts as they are; they become tf-idf weights of words and characters.

ranking = find_noisy_labels(texts, candidates, label_names=frequent)
for i in range(3):
    of_row = np.flatnonzero(ranking.row == i)
    print(names[i], {ranking.label[k]: round(float(ranking.confidence[k]), 2) for k in of_row})

# %%
# Wrong tags get low confidences and true tags high ones. The doubtful tags in between are for a
# person to decide (``schirn review``).

wrong = truth[ranking.row, ranking.column] == 0
figure, axes = plt.subplots(figsize=(7, 3.6))
bins = np.linspace(0, 1, 31)
axes.hist(ranking.confidence[wrong], bins, alpha=0.75, label="wrong tags")
axes.hist(ranking.confidence[~wrong], bins, alpha=0.75, label="true tags")
axes.set(xlabel="confidence that the tag is correct", ylabel="number of tags")
axes.legend(loc="upper center")

confidence = np.zeros(truth.shape)
confidence[ranking.row, ranking.column] = ranking.confidence
print(f"AUC of finding the wrong tags: {noise_auc(truth, candidates, confidence):.3f}")
