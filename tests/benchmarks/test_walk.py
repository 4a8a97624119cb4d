"""The walk of `Sieve().fit` stays short."""

from benchmarks.walk import walk


def test_a_fit_runs_few_functions():
    files = walk()
    assert "sieve" in {name.partition(":")[0] for name in files["solvers/sieve.py"]}
    assert "cell_posterior" in {name.partition(":")[0] for name in files["noise/model.py"]}
    # Version 0.3 walked 1,005 lines in 14 files. Since then lines are unpacked, a fit remembers its
    # training rows, takes texts, weighs the evidence of every round, forgets an earlier fit, and
    # refuses rows in another order.
    assert len(files) <= 16
    assert sum(sum(functions.values()) for functions in files.values()) <= 1300
