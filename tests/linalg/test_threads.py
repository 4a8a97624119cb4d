"""One thread or two: the same labels, and the same scores up to the order of sums."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import schirn
from schirn.linalg.arrays import threads_for

METHODS = sorted(schirn.methods())
# Their scores are counts of votes.
BITWISE = ("ParticleMAP", "ParticleVLS")

# Large enough that products are shared out among threads.
CHILD = """
import pickle, sys, warnings
import numpy as np
import schirn
import schirn.exceptions
from schirn.datasets import make_partial_multilabel
from threadpoolctl import threadpool_info

warnings.simplefilter("ignore")
data = make_partial_multilabel(
    n_samples=260, n_features=200, n_labels=16, cardinality=3, r=2, random_state=0
)
X, C, new = data.X[:220], data.candidates[:220], data.X[220:]
found = {}
for name, cls in schirn.methods().items():
    try:
        model = cls().fit(X, C)
    except schirn.exceptions.MissingExtraError:
        continue
    found[name] = {
        "scores": model.decision_function(new),
        "labels": model.predict(new),
        "noise": model.noise_,
        "confidence": model.label_confidence_,
        "probability": model.predict_proba(new),
    }
threads = max(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
pickle.dump((threads, found), sys.stdout.buffer)
"""


def run_with(threads):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment = {**os.environ, **dict.fromkeys(names, str(threads))}
    ran = subprocess.run(
        [sys.executable, "-c", CHILD], env=environment, capture_output=True, check=True
    )
    return pickle.loads(ran.stdout)


@pytest.fixture(scope="module")
def results():
    (one, alone), (two, shared) = run_with(1), run_with(2)
    if two < 2:
        pytest.skip("the linear algebra library has one thread here")
    assert one == 1
    return alone, shared


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_threads_do_not_change_the_result(results, name):
    alone, shared = (result[name] for result in results)
    for part in ("labels", "noise"):
        np.testing.assert_array_equal(alone[part], shared[part])
    if name in BITWISE:
        np.testing.assert_array_equal(alone["scores"], shared["scores"])
    size = np.abs(alone["scores"]).max()
    np.testing.assert_allclose(shared["scores"], alone["scores"], rtol=0, atol=1e-9 * size)
    for part in ("confidence", "probability"):
        # The calibration is an iteration with a tolerance of its own.
        np.testing.assert_allclose(shared[part], alone[part], rtol=0, atol=1e-6)


def test_large_products_keep_their_threads():
    """One thread inside only where the products are small; afterwards as before."""

    def threads():
        return [part["num_threads"] for part in threadpool_info() if part["user_api"] == "blas"]

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with threads_for(1e9):
            assert threads() == before
        with threads_for(1e3):
            assert set(threads()) <= {1}
        assert threads() == before
