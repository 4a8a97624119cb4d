"""Add a method and compare it
==============================

A method of your own needs two functions. `check_method` verifies that it keeps the contract, and
`schirn.lab.bench` compares it with the others on the same folds and the same noise, tuned on
candidates only.
"""

import os
import tempfile

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import NearestNeighbors

from schirn.datasets import load_digits_attributes, make_partial_multilabel
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.lab import bench
from schirn.lab.bench import figures, tables
from schirn.testing import check_method


class NeighbourVote(PartialMultiLabelClassifier):
    """Share of the k nearest rows that list a label."""

    _info = MethodInfo("neighbours", "this example", "n^2 d", "n d")
    bench_grid = {"k": [5, 20]}

    def __init__(self, *, k=10, threshold="cardinality"):
        self.k = k
        self.threshold = threshold

    def _fit(self, X, Y):
        self.neighbours_ = NearestNeighbors(n_neighbors=min(self.k, len(Y) - 1)).fit(X)
        self.listed_ = Y.astype(X.dtype)
        # Without arguments, a row is not its own neighbour: the scores are leave-one-out.
        scores = self.listed_[self.neighbours_.kneighbors(return_distance=False)].mean(axis=1)
        return Fit(None, scores, n_iter=1, objective=np.zeros(1))

    def _scores(self, X):
        return self.listed_[self.neighbours_.kneighbors(X, return_distance=False)].mean(axis=1)


check_method(NeighbourVote)

# %%
# Two data sets and four methods; every fold is one result in a file. The two ridges are the
# references of the comparison. An interrupted run resumes where it stopped.

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
rows = range(250 if quick else 900)
sets = [
    load_digits_attributes(r=2).subset(rows),
    make_partial_multilabel(len(rows), 30, 12, cardinality=2.5, r=3, random_state=0),
]
methods = [NeighbourVote, "Sieve", "CandidateRidge", "OracleRidge"]
with tempfile.TemporaryDirectory() as folder:
    results = bench.run(sets, methods, output=folder, folds=2 if quick else 5, jobs=0)
print(tables.results(results, "average_precision"))

# %%
# How much of the gap between the ridge on the candidates and the ridge on the true labels each
# method closes. More than 1 is possible: the ridges are linear, these two methods are not.

figure, axes = plt.subplots(figsize=(7, 3.2))
figures.gap_closed(results, ax=axes)
