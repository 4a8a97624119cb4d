import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.csgraph import structural_rank

from schirn.datasets import add_noise, load
from schirn.exceptions import InputError
from schirn.lab.rank import _elimination as elimination
from schirn.lab.rank._exact import exact_rank, primes_below, rank_report

PRIME = 8388593
# Differences of its rows are multiples of 2, so that it loses rank modulo 2 and nowhere else.
TRIANGLE = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]])


def ring(n):
    """Return the matrix of a ring of n labels: rank n if n is odd, else n - 1."""
    eye = np.eye(n, dtype=np.uint8)
    return eye + np.roll(eye, 1, axis=1)


@st.composite
def matrices(draw):
    """Draw a 0/1 matrix, tall or wide, with copies, unions of disjoint columns and empty lines."""
    n, k, more = draw(st.integers(0, 40)), draw(st.integers(0, 25)), draw(st.integers(0, 15))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    base = (rng.random((n, k)) < draw(st.sampled_from([0.05, 0.15, 0.3, 0.5, 0.9]))).astype(int)
    y = base
    for _ in range(more if k else 0):
        a, b = rng.integers(y.shape[1], size=2)
        union = y[:, a] + y[:, b]
        y = np.column_stack([y, union if union.max(initial=0) < 2 else y[:, a]])
    for kind in range(3):
        if rng.random() < 0.3 and y.shape[0]:
            extra = [y[rng.integers(len(y), size=7)], 0 * y[:3], 1 - y[:2]][kind]
            y = np.vstack([y, extra])
    y = y[rng.permutation(len(y))][:, rng.permutation(y.shape[1])]
    return y if draw(st.booleans()) else y.T


def float_rank(y):
    return int(np.linalg.matrix_rank(y.astype(float))) if y.size else 0


@settings(max_examples=300, deadline=None)
@given(matrices())
def test_same_as_numpy(y):
    assert exact_rank(y) == float_rank(y)


@settings(max_examples=150, deadline=None)
@given(matrices())
def test_every_stage_alone_is_right(y):
    whole = sparse.csr_array(y)
    rng = np.random.default_rng(0)
    assert elimination.rank_mod(whole, PRIME, rng) == float_rank(y)
    pivots, core = elimination.remove_singletons(whole.astype(np.int8))
    assert pivots + float_rank(core.toarray()) == float_rank(y)
    lengths = [core.sum(axis=axis) for axis in (0, 1)]
    assert all((size > 1).all() for size in lengths)


@settings(max_examples=100, deadline=None)
@given(matrices(), st.sampled_from([1, 3, 10_000]))
def test_sparse_elimination_keeps_the_rank(y, cost):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elimination, "UPDATE_COST", cost)
        pivots, rest = elimination.eliminate_sparse(sparse.csr_array(y), max_bytes=2**30)
    assert pivots + float_rank(rest.toarray()) == float_rank(y)


@pytest.mark.parametrize("shape", [(700, 700), (700, 400), (400, 700), (900, 257), (513, 512)])
@pytest.mark.parametrize("rank", [1, 150, 400])
def test_blocked_elimination(shape, rank):
    rng = np.random.default_rng(rank)
    rank = min(rank, *shape)
    y = rng.integers(-3, 4, (shape[0], rank)) @ rng.integers(-3, 4, (rank, shape[1]))
    expected = float_rank(y)
    assert elimination.rank_mod(sparse.csr_array(y), PRIME, rng) == expected


@pytest.mark.parametrize("rank", [37, 199, 200])
@pytest.mark.parametrize("p", [2, 101, PRIME])
def test_random_combinations_keep_the_rank(rank, p):
    rng = np.random.default_rng(0)
    y = rng.integers(0, p, (4000, rank)) @ (rng.random((rank, 200)) < 0.9) % p
    y[:rank, :rank] = np.eye(rank, dtype=int)
    y[:rank, rank:] = rng.integers(0, p, (rank, 200 - rank))
    y[rank:] = (rng.integers(0, 2, (4000 - rank, rank)) @ y[:rank]) % p
    assert elimination.is_combined(y.shape)
    assert elimination.rank_mod(sparse.csr_array(y), p, rng) == rank


def test_a_loss_of_rank_is_noticed(monkeypatch):
    rng = np.random.default_rng(0)
    y = sparse.csr_array((rng.random((4000, 200)) < 0.1).astype(np.int64))
    combine, calls = elimination._combine, []

    def lossy(tall, times, p, rng):
        combinations, checks = combine(tall, times, p, rng)
        calls.append(times)
        if len(calls) == 1:
            combinations[:-checks, 7:9] = 0
        return combinations, checks

    monkeypatch.setattr(elimination, "_combine", lossy)
    assert elimination.rank_mod(y, PRIME, rng) == 200
    assert calls == [3, 12]


def test_largest_entries_stay_exact():
    """Panels hold 128 columns: products of that many of the largest numbers are exact."""
    size, half = 128, PRIME // 2
    left = sparse.csr_array(np.full((2 * size, size), half) + np.tri(2 * size, size, dtype=int))
    y = sparse.hstack([left, left[:, ::-1], sparse.csr_array(left.toarray() % 3)]).tocsr()
    expected = _rank_by_python(y.toarray().tolist())
    assert elimination.rank_mod(y, PRIME, np.random.default_rng(0)) == expected


@settings(max_examples=100, deadline=None)
@given(matrices(), st.sampled_from([2, 3, 5, PRIME]))
def test_same_as_plain_elimination_modulo_a_prime(y, p):
    matrix = sparse.csr_array(y).astype(np.int64)
    rank = elimination.rank_mod(matrix, p, np.random.default_rng(0)) if min(matrix.shape) else 0
    assert rank == _rank_by_python(y.tolist(), p)


def _rank_by_python(rows, p=PRIME):
    """Return the rank modulo p by plain elimination with Python integers."""
    rank = 0
    for j in range(len(rows[0]) if rows else 0):
        at = next((i for i in range(rank, len(rows)) if rows[i][j] % p), None)
        if at is None:
            continue
        rows[rank], rows[at] = rows[at], rows[rank]
        inverse = pow(rows[rank][j], -1, p)
        for i in range(rank + 1, len(rows)):
            factor = rows[i][j] * inverse % p
            if factor:
                rows[i] = [(a - factor * b) % p for a, b in zip(rows[i], rows[rank], strict=True)]
        rank += 1
    return rank


def test_a_single_entry_other_than_one_is_no_pivot_of_the_sparse_elimination(monkeypatch):
    """The determinant of the triangle is 2: after two pivots its last entry is 2 or -2."""
    monkeypatch.setattr(elimination, "UPDATE_COST", 1)
    pivots, remainder = elimination.eliminate_sparse(sparse.csr_array(TRIANGLE), max_bytes=2**30)
    assert pivots == 2
    assert abs(remainder.toarray()).tolist() == [[2]]


def test_entries_beyond_int64_fall_back_to_the_matrix_itself(monkeypatch):
    def too_large(rows):
        raise OverflowError

    y = sparse.csr_array(ring(8))
    monkeypatch.setattr(elimination, "UPDATE_COST", 1)
    assert elimination.eliminate_sparse(y, max_bytes=2**30)[0] > 0
    monkeypatch.setattr(elimination, "_as_sparse", too_large)
    pivots, rest = elimination.eliminate_sparse(y, max_bytes=2**30)
    assert pivots == 0
    assert (rest.toarray() == ring(8)).all()


def test_primes():
    primes = primes_below(2**23)
    assert (primes > 2**22).sum() == 268_216
    assert primes[:5].tolist() == [2, 3, 5, 7, 11]
    assert all(pow(2, int(p) - 1, int(p)) == 1 for p in primes[-50:])


def test_report_says_what_is_proven():
    triangular = rank_report(np.tril(np.ones((6, 6), dtype=int)))
    assert triangular == (6, True, 0.0, 6, 0, (0, 0), ())
    full = rank_report(ring(61))
    assert (full.rank, full.proven) == (61, True)
    # Twelve rows of two entries: every minor is at most 2**6, below the primes.
    small = rank_report(ring(12))
    assert (small.rank, small.proven, small.remainder) == (11, True, (12, 12))
    half = np.random.default_rng(0).random((60, 40)) < 0.5
    risky = rank_report(np.hstack([half, ~half]))
    assert (risky.rank, risky.proven) == (41, False)
    assert 0 < risky.risk < 1e-6
    assert len(set(risky.primes)) >= 2


def test_repeatable_and_free_of_the_seed():
    half = np.random.default_rng(1).random((60, 40)) < 0.5
    y = np.hstack([half, ~half])
    assert rank_report(y) == rank_report(y)
    assert {rank_report(y, random_state=seed).rank for seed in range(5)} == {41}
    assert len({rank_report(y, random_state=seed).primes for seed in range(5)}) == 5


@pytest.mark.parametrize("shape", [(0, 0), (0, 4), (4, 0), (3, 5)])
def test_nothing_there(shape):
    assert exact_rank(np.zeros(shape, dtype=int)) == 0
    assert exact_rank(sparse.csr_array(shape, dtype=np.uint8)) == 0


@pytest.mark.parametrize(
    "container",
    [
        np.asarray,
        lambda y: y.astype(bool),
        lambda y: y.astype(float),
        np.ndarray.tolist,
        sparse.csr_array,
        sparse.csc_matrix,
        sparse.coo_array,
    ],
)
def test_containers(container):
    assert exact_rank(container(ring(7))) == 7
    assert exact_rank(container(ring(8))) == 7


def test_input_is_not_changed():
    y = sparse.csr_array(
        (np.array([1, 0, 1]), np.array([2, 0, 1]), np.array([0, 2, 3])), shape=(2, 3)
    )
    before = y.copy()
    assert exact_rank(y) == 2
    assert y.nnz == 3
    assert (y.indices == before.indices).all()
    assert (y.data == before.data).all()


def test_bad_input():
    with pytest.raises(InputError, match=r"row 1, label 2 holds 0\.5"):
        exact_rank([[0, 1, 0], [0, 1, 0.5]])
    twice = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 0, 2])), shape=(2, 3))
    with pytest.raises(InputError, match=r"row 1, label 1 holds 2\.0"):
        exact_rank(twice)
    with pytest.raises(InputError, match="holds nan"):
        exact_rank(np.array([[np.nan]]))
    with pytest.raises(InputError, match=r"shape \(3,\)"):
        exact_rank(np.ones(3))
    with pytest.raises(InputError, match="entries that are not numbers"):
        exact_rank(np.array([["a"]]))


def power_law(n, l, per_row, exponent, seed=0):
    """Return labels drawn by a power law, about per_row in every row."""
    rng = np.random.default_rng(seed)
    weight = np.arange(1, l + 1) ** -float(exponent)
    columns = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(n * per_row))
    rows = np.repeat(np.arange(n), per_row)
    cells = (rows, np.minimum(columns, l - 1))
    return sparse.csr_array(sparse.coo_array((np.ones(len(rows), dtype=bool), cells), shape=(n, l)))


def test_large_power_law_labels_are_eliminated():
    y = power_law(200_000, 50_000, 3, 1.0)
    tracemalloc.start()
    report = rank_report(y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert report.proven
    # No rank is above the structural one, and here they agree.
    graph = sparse.csr_array(y)
    graph.indices, graph.indptr = graph.indices.astype(np.int32), graph.indptr.astype(np.int32)
    assert report.rank == structural_rank(graph)
    # The matrix has 600,000 entries; a dense one would have 10 billion cells.
    assert peak < 200e6


def test_large_labels_without_structure_are_refused(monkeypatch):
    monkeypatch.setattr(elimination, "MAX_UPDATES", 200_000)
    y = power_law(60_000, 20_000, 6, 0.3)
    with pytest.raises(InputError, match=r"needs \d\.\d+ GB for a dense remainder of \d+ x 1\d+"):
        exact_rank(y, max_bytes=2**28)


def test_sparse_elimination_stays_within_its_memory():
    y = power_law(3000, 3000, 6, 0.3)
    core = elimination.remove_singletons(y)[1]
    most = 5 * core.nnz // 2
    rest = elimination.eliminate_sparse(core, max_bytes=most * elimination.ENTRY_BYTES)[1]
    assert rest.nnz < 1.2 * most
    assert elimination.eliminate_sparse(core, max_bytes=100)[0] == 0


def test_estimate_covers_the_memory():
    rng = np.random.default_rng(0)
    for shape in [(700, 600), (6000, 600), (300, 1800)]:
        y = sparse.csr_array((rng.random(shape) < 0.02).astype(np.int64))
        tracemalloc.start()
        elimination.rank_mod(y, PRIME, rng)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.3 * elimination.dense_bytes(shape) + 100 * y.nnz


@pytest.mark.parametrize(
    ("name", "part", "rank"),
    [
        ("eurlex4k", "y_true", 3875),
        ("corel5k", "y_true", 371),
        ("mediamill", "y_true", 100),
        ("delicious", "y_true", 983),
        ("yeastbp_full", "y_true", 200),
        ("yeastbp_full", "candidates", 204),
    ],
)
def test_real_labels(name, part, rank):
    assert exact_rank(getattr(real(name), part)) == rank


def test_real_labels_with_noise():
    noisy = add_noise(real("eurlex4k").y_true, 3, random_state=0)
    assert rank_report(noisy)[:2] == (3993, True)


def real(name):
    folders = os.environ.get("SCHIRN_DATA")
    if not folders:
        pytest.skip("SCHIRN_DATA is not set")
    if not any((Path(folder) / f"{name}.npz").exists() for folder in folders.split(os.pathsep)):
        pytest.skip(f"no {name} in SCHIRN_DATA")
    return load(name)
