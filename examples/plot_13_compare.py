"""Add a method, compare it, and write the tables of a paper
==========================================================

Your own method needs two functions. `check_method` verifies that it meets the contract, and
`schirn.lab.bench` compares it with others by the rules of the suite ``pml-2``: the same splits,
noise and features for all, a fifth of the rows for tests, noise in the training rows alone, and
every parameter chosen on candidates. The data sets are generated and small, so that the page takes
seconds; ``schirn bench --suite pml-2 --methods mypkg:NeighbourVote`` runs the suite itself.
"""

import os
import tempfile
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.neighbors import NearestNeighbors

from schirn.datasets import load_digits_attributes, make_partial_multilabel
from schirn.estimators import Fit, MethodInfo, PartialMultiLabelClassifier
from schirn.lab import bench
from schirn.lab.bench import figures, stats, tables
from schirn.lab.bench.report import write_outputs
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
# Two kinds of noise, and the two ridges as references: one trained on the candidates, one on the
# true labels. Every run is one line of a file; an interrupted comparison can be continued.

quick = "SCHIRN_EXAMPLE_QUICK" in os.environ
n_sets = 2 if quick else 5
sets = []
for number in range(1, n_sets):
    shape = {"n_samples": 120 + 40 * number, "n_features": 15 + 5 * number, "n_labels": 6 + number}
    data = make_partial_multilabel(**shape, cardinality=2.0, random_state=number)
    sets.append(replace(data, name=f"generated {number}"))
sets.append(load_digits_attributes().subset(range(120 if quick else 300)))
methods = [NeighbourVote, "Sieve", "Schirn", "CandidateRidge", "OracleRidge"]
protocol = {"r": 2, "folds": 1, "seeds": (0, 1) if quick else (0, 1, 2), "inner_folds": 2}
protocol |= {"search_points": 6, "search_rows": 200}
folder = Path(tempfile.mkdtemp())
results = []
for noise in ("exact",) if quick else ("exact", "feature"):
    results += bench.run(sets, methods, output=folder, jobs=0, noise=noise, **protocol)
print(tables.gaps(results))

# %%
# How much of the gap between the two ridges each method closes. More than 1 is possible: the
# ridges are linear, neighbours are not.

figure, axes = plt.subplots(figsize=(7, 3.6))
figures.gap_closed(results, ax=axes)

# %%
# Better by chance? Friedman's test over data sets:

print(stats.leading(stats.friedman(results, "average_precision"), "average precision"))

# %%
# The table for a paper. The marks compare with your method, by a t-test that accounts for
# overlapping training rows.

table = tables.results(results, "average_precision", reference="NeighbourVote")
print(table.render("latex"))

# %%
# `write_outputs` writes a report on one page, every table as LaTeX, Markdown and CSV, every figure
# as PDF and SVG, the references, and a paragraph that states the protocol:

files = write_outputs(results, folder / "paper", reference="NeighbourVote")
print(len(files), "files, such as", ", ".join(sorted(path.name for path in files)[:4]))
print((folder / "paper" / "protocol.txt").read_text())
