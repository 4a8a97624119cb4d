"""Schirn on a Dask cluster: the result of one machine, also when workers die."""

import os
import signal
import time
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import CandidateRidge, Schirn, Sieve, find_noisy_labels
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.model_selection import CandidateSearchCV
from schirn.scale import cluster

distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")
dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask arrays are not installed")

ROWS, BLOCK = 240, 70
OPTIONS = {"lam": 1.0, "alpha": 0.0, "beta": 0.05, "max_iter": 6, "mu": 0.01, "rho": 4.0}


@contextmanager
def two_workers():
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as workers,
        distributed.Client(workers) as found,
    ):
        yield found


@pytest.fixture(scope="module")
def client():
    with two_workers() as found:
        yield found


@pytest.fixture
def mortal_client():
    """Workers of one test, since one that is killed while it starts is never replaced."""
    with two_workers() as found:
        yield found


@pytest.fixture(scope="module")
def data():
    found = make_partial_multilabel(n_samples=ROWS, n_features=15, n_labels=6, r=1, random_state=0)
    return np.where(np.abs(found.X) > 0.4, found.X + 1.0, 0), found.candidates


def cut(A, storage=np.asarray):
    return [storage(A[i : i + BLOCK]) for i in range(0, len(A), BLOCK)]


def lazy_blocks(A, storage=np.asarray):
    return [dask.delayed(storage)(block) for block in cut(A)]


def assert_same_model(found, expected, X, atol=1e-9):
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=atol)
    np.testing.assert_allclose(found.intercept_, expected.intercept_, atol=atol)
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
    np.testing.assert_allclose(
        found.label_confidence_.toarray(), expected.label_confidence_, atol=1e-7
    )
    np.testing.assert_array_equal(found.predict(X), expected.predict(X))
    assert found.n_iter_ == expected.n_iter_
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-8)


def test_a_dask_array_gives_the_model_of_an_array(client, data):
    X, Y = data
    lazy = da.from_array(X, chunks=(BLOCK, 8))
    found = Schirn(**OPTIONS).fit(lazy, Y)
    assert_same_model(found, Schirn(**OPTIONS).fit(X, Y), X)
    assert 0 < found.noise_.nnz < Y.sum()
    np.testing.assert_array_equal(found.decision_function(lazy), found.decision_function(X))
    probability = found.predict_proba(lazy)
    assert isinstance(probability, da.Array)
    assert probability.shape == Y.shape
    np.testing.assert_allclose(probability.compute(), found.predict_proba(X))
    assert found.predict(lazy).dtype == found.predict(X).dtype
    np.testing.assert_array_equal(
        found.predict(lazy, threshold="top-2"), found.predict(X, threshold="top-2")
    )


def test_sparse_delayed_blocks_with_an_intercept(client, data):
    X, Y = data
    options = {**OPTIONS, "fit_intercept": True}
    empty = [dask.delayed(sp.csr_matrix)((0, 15))], [dask.delayed(sp.csr_array)((0, 6))]
    blocks = lazy_blocks(X, sp.csr_matrix), lazy_blocks(Y, sp.csr_array)
    found = Schirn(**options).fit(empty[0] + blocks[0], empty[1] + blocks[1])
    assert_same_model(found, Schirn(**options).fit(sp.csr_array(X), Y), X)
    scores = found.decision_function(lazy_blocks(X, sp.csr_matrix))
    np.testing.assert_allclose(np.vstack(dask.compute(*scores)), found.decision_function(X))


def test_dense_blocks_with_an_intercept_and_candidates_of_dask(client, data):
    X, Y = data
    options = {**OPTIONS, "fit_intercept": True}
    futures = client.scatter(cut(X.astype(np.float32)))
    found = Schirn(**options).fit(futures, da.from_array(Y, chunks=(100, 3)))
    assert found.coef_.dtype == np.float32
    expected = Schirn(**options).fit(X.astype(np.float32), Y)
    np.testing.assert_allclose(found.coef_, expected.coef_, atol=1e-3)
    scores = client.gather(found.decision_function(futures))
    np.testing.assert_allclose(np.vstack(scores), found.decision_function(X.astype(np.float32)))


@pytest.mark.parametrize("kept", [True, False], ids=["messages kept", "messages scattered"])
def test_large_messages_and_many_blocks(client, monkeypatch, kept):
    found = make_partial_multilabel(
        n_samples=400, n_features=150, n_labels=100, r=1, random_state=0
    )
    monkeypatch.setattr(cluster, "MESSAGE_BYTES", 2**30 if kept else 0)
    options = {"alpha": 0.2, "beta": 0.05, "lam": 10.0, "max_iter": 2, "mu": 1.0}
    expected = Schirn(**options).fit(found.X, found.candidates).decision_function(found.X)
    lazy = da.from_array(found.X, chunks=(20, -1))
    scores = Schirn(**options).fit(lazy, found.candidates).decision_function(found.X)
    np.testing.assert_allclose(scores, expected, atol=1e-9)


def test_blocks_are_shared_out(client, data):
    X, Y = data
    client.wait_for_workers(2, timeout=30)
    one = next(iter(client.nthreads()))
    futures = client.scatter(cut(X), workers=[one], hash=False)
    store = cluster.DaskRows(futures, sp.csr_array(Y), lambda block, first: block)
    found = store.gather(lambda block, state: (distributed.get_worker().address, block.rows.X))
    workers, blocks = zip(*found, strict=True)
    assert sorted(workers.count(worker) for worker in client.nthreads()) == [2, 2]
    np.testing.assert_array_equal(np.vstack(blocks), X)
    store.close()


def test_sums_are_added_along_a_tree(client, data, monkeypatch):
    X, Y = data
    monkeypatch.setattr(cluster, "_GROUP_BYTES", 1)
    monkeypatch.setattr(cluster, "_SUMS", 2)
    store = cluster.DaskRows(da.from_array(X, chunks=(35, -1)), sp.csr_array(Y), lambda y, _: y)
    (found,) = store.step(lambda block, state: (None, (block.rows.X.sum(axis=0),)))
    np.testing.assert_allclose(found, X.sum(axis=0), rtol=1e-12)
    store.close()


def test_a_round_is_one_step(client, data, monkeypatch):
    X, Y = data
    steps = []
    run = cluster.DaskRows.step

    def counted(self, function, *message):
        steps.append(function.__name__)
        return run(self, function, *message)

    monkeypatch.setattr(cluster.DaskRows, "step", counted)
    found = Schirn(**OPTIONS).fit(da.from_array(X, chunks=(BLOCK, -1)), Y)
    assert steps.count("finish_and_begin") == OPTIONS["max_iter"]
    # Only the last round waits for its sums.
    assert steps.count("finish_round") == 1
    assert_same_model(found, Schirn(**OPTIONS).fit(X, Y), X)


def test_a_fit_that_stops_early_asks_for_every_residual(client, data):
    X, Y = data
    options = {"alpha": 0.2, "beta": 0.0, "lam": 1.0, "mu": 1.0, "max_iter": 60, "tol": 0.01}
    found = Schirn(**options).fit(da.from_array(X, chunks=(BLOCK, -1)), Y)
    assert 1 < found.n_iter_ < 60
    assert_same_model(found, Schirn(**options).fit(X, Y), X)


class Sized(NamedTuple):
    n: int
    unit: str


def add_up(sums, factor):
    return factor * sum(number for (number,) in sums)


def test_results_stay_on_workers_and_travel_in_messages(client, data):
    X, Y = data
    store = cluster.DaskRows(da.from_array(X, chunks=(BLOCK, -1)), sp.csr_array(Y), lambda y, _: y)
    sums = store.start(lambda block, state: (None, (block.rows.X.shape[0],)))
    once, twice = (store.near(add_up, sums, k + 1, place=k) for k in range(2))
    message = {"n": [Sized(once, "rows"), Sized(twice, "rows")]}
    found = store.gather(lambda block, state, message: message["n"][1].n, message)
    assert found == [2 * ROWS] * 4
    assert store.here(once) == ROWS
    store.close()


def test_sieve_on_the_workers(client, data):
    X, Y = data
    options = {"max_kernel_rows": 100, "n_landmarks": 40, "max_iter": 1}
    expected = Sieve(**options).fit(X, Y)
    found = Sieve(**options).fit(da.from_array(X, chunks=(BLOCK, -1)), Y)
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_)
    np.testing.assert_allclose(
        found.decision_function(da.from_array(X)), expected.decision_function(X), atol=1e-3
    )


def task_names(client):
    return client.run_on_scheduler(lambda dask_scheduler: [*map(str, dask_scheduler.task_prefixes)])


def kill_worker_after(monkeypatch, client, rounds):
    """End the worker that holds most by SIGKILL when so many rounds are done."""
    client.wait_for_workers(2, timeout=60)
    killed = []

    def track(items, what, **options):
        for n_iter, item in enumerate(items):
            if what in ("round", "pass") and n_iter == rounds and not killed:
                held = {worker: len(keys) for worker, keys in client.has_what().items()}
                process = client.run(os.getpid)[max(held, key=held.__getitem__)]
                os.kill(process, signal.SIGKILL)
                killed.append(process)
            yield item

    monkeypatch.setattr("schirn.solvers.schirn_blocks.track", track)
    monkeypatch.setattr("schirn.solvers.sieve.track", track)
    return killed


def count_starts(monkeypatch):
    starts = []
    open_store = cluster.DaskRows._open

    def counted(self, reread=False):
        starts.append(reread)
        open_store(self, reread)

    monkeypatch.setattr(cluster.DaskRows, "_open", counted)
    return starts


@pytest.mark.parametrize("kept", [True, False], ids=["messages kept", "messages lost"])
def test_a_killed_worker_changes_nothing(mortal_client, data, monkeypatch, kept):
    X, Y = data
    lazy = da.from_array(X, chunks=(BLOCK, -1))
    expected = Schirn(**OPTIONS).fit(lazy, Y)
    starts = count_starts(monkeypatch)
    killed = kill_worker_after(monkeypatch, mortal_client, rounds=3)
    if not kept:
        monkeypatch.setattr(cluster, "MESSAGE_BYTES", 0)
    found = Schirn(**OPTIONS).fit(lazy, Y)
    assert len(killed) == 1
    assert starts == ([False] if kept else [False, True])
    # A block that was read again may lie differently in memory, and BLAS rounds differently.
    np.testing.assert_allclose(found.coef_, expected.coef_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.objective_, expected.objective_, rtol=1e-12)
    np.testing.assert_array_equal(found.noise_.toarray(), expected.noise_.toarray())
    confidence = found.label_confidence_.toarray()
    np.testing.assert_allclose(confidence, expected.label_confidence_.toarray(), atol=1e-9)


def test_a_worker_killed_while_tags_are_judged_loses_nothing(
    mortal_client, data, monkeypatch, tmp_path
):
    X, Y = data
    files = [tmp_path / f"{k}.npy" for k in range(4)]
    for path, block in zip(files, cut(X), strict=True):
        np.save(path, block)
    blocks = [dask.delayed(np.load)(path) for path in files]
    method = Sieve(max_kernel_rows=100, n_landmarks=40, max_iter=4)
    expected = find_noisy_labels(X, Y, method=method)
    killed = kill_worker_after(monkeypatch, mortal_client, rounds=2)
    found = find_noisy_labels(blocks, Y, method=method)
    assert len(killed) == 1
    np.testing.assert_array_equal(found.removed, expected.removed)
    np.testing.assert_allclose(found.confidence, expected.confidence, atol=1e-4)


def test_blocks_that_are_gone_for_good_are_named(mortal_client, data, monkeypatch):
    X, Y = data
    futures = mortal_client.scatter(cut(X), hash=False)
    kill_worker_after(monkeypatch, mortal_client, rounds=3)
    with pytest.raises(InputError, match="of X is a future whose data were lost"):
        Schirn(**OPTIONS).fit(futures, Y)


def test_bad_blocks_are_refused_in_one_sentence(client, data):
    X, Y = data
    broken = X.copy()
    broken[100, 3] = np.inf
    with pytest.raises(InputError, match="inf at row 100, column 3"):
        Schirn().fit(da.from_array(broken, chunks=(BLOCK, -1)), Y)
    with pytest.raises(InputError, match="240 rows but the candidates have 239"):
        Schirn().fit(da.from_array(X, chunks=(BLOCK, -1)), Y[:-1])
    with pytest.raises(InputError, match="4 blocks but the candidates have 3"):
        Schirn().fit(lazy_blocks(X), lazy_blocks(Y)[:-1])
    with pytest.raises(InputError, match=r"row \d+ has \d0 rows, but its candidates have \d0"):
        Schirn().fit(lazy_blocks(X), lazy_blocks(Y)[-1:] + lazy_blocks(Y)[:-1])
    with pytest.raises(InputError, match=r"X must have rows and columns, got shape \(240,\)"):
        Schirn().fit(da.from_array(X[:, 0], chunks=BLOCK), Y)
    with pytest.raises(InputError, match=r"a block of X must have .* ndarray of shape \(15,\)"):
        Schirn().fit([*lazy_blocks(X[:BLOCK]), dask.delayed(np.asarray)(X[0])], Y[: BLOCK + 1])
    with pytest.raises(InputError, match="X has no rows: all its blocks are empty"):
        Schirn().fit([dask.delayed(np.asarray)(A[:0]) for A in (X, X)], lazy_blocks(Y)[:2])
    three = Y.astype(int)
    three[75, 2] = 3
    with pytest.raises(InputError, match=r"from row 70 on: .* row 5, label 2 holds 3"):
        Schirn().fit(lazy_blocks(X), lazy_blocks(three))


def test_without_a_client_the_error_says_how_to_make_one(monkeypatch, data):
    def missing():
        raise ValueError("No global client found")

    monkeypatch.setattr(distributed, "get_client", missing)
    with pytest.raises(InputError, match="there is no client; create one"):
        Schirn().fit(da.from_array(data[0]), data[1])


def test_a_search_runs_on_the_same_cluster(client, data):
    import joblib

    X, Y = data
    search = CandidateSearchCV(CandidateRidge(), {"lam": [0.1, 1.0, 1e3]}, cv=3)
    expected = search.fit(X, Y).cv_results_["mean_test_score"]
    with joblib.parallel_config("dask"):
        found = search.fit(X, Y).cv_results_["mean_test_score"]
    np.testing.assert_allclose(found, expected)
    assert any("_run_fold" in name for name in task_names(client))


def test_a_scheduler_that_cannot_work_is_refused():
    options = {"processes": False, "dashboard_address": ":0", "silence_logs": 50}
    with (
        distributed.LocalCluster(n_workers=0, **options) as empty,
        pytest.raises(InputError, match=r"the Dask scheduler at '.*' has no workers"),
        cluster.connected(empty.scheduler_address, "a fit"),
    ):
        pass
    with (
        distributed.LocalCluster(n_workers=1, **options) as shrinking,
        cluster.connected(shrinking.scheduler_address, "a fit") as client,
    ):
        shrinking.scale(0)
        while client.nthreads():
            time.sleep(0.05)
        with pytest.raises(InputError, match="has no workers, or no longer any"):
            cluster.rows_per_block(100, 10)
    with (
        pytest.raises(InputError, match="no Dask scheduler answers at 'nonsense'"),
        cluster.connected("nonsense", "a fit"),
    ):
        pass
