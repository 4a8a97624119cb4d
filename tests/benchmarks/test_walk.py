"""The walk of `Sieve().fit` stays short."""

from benchmarks.walk import walk


def test_a_fit_runs_few_functions():
    files = walk()
    assert "sieve" in {name.partition(":")[0] for name in files["solvers/sieve.py"]}
    assert "cell_posterior" in {name.partition(":")[0] for name in files["noise/model.py"]}
    assert len(files) <= 14
    assert sum(sum(functions.values()) for functions in files.values()) <= 1060
