"""The posterior of the candidates against sums over all subsets, and its edge cases."""

from itertools import chain, combinations
from math import comb, exp

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.noise import update_noise

from schirn.noise.model import (
    NoiseModel,
    NoiseSums,
    candidate_posterior,
    cell_posterior,
    noise_from_sums,
    padded_posterior,
)


def by_enumeration(P, Y, model):
    """Q and the two expected histograms, by listing every possible set of true labels."""
    n, l = Y.shape
    Q, noise, true = np.zeros((n, l)), np.zeros(l + 1), np.zeros(l + 1)
    weight_of = np.ones(l) if model.propensity is None else np.exp(model.propensity)
    for i in range(n):
        listed = np.flatnonzero(Y[i]).tolist()
        rate = float(np.broadcast_to(model.rate, n)[i])
        sets, weights = [], []
        for chosen in chain.from_iterable(combinations(listed, m) for m in range(len(listed) + 1)):
            m, r = len(chosen), len(listed) - len(chosen)
            law = [
                comb(l - m, k) * rate**k * (1 - rate) ** (l - m - k) * exp(model.tilt[k])
                for k in range(l - m + 1)
            ]
            w = law[r] / sum(law) / comb(l - m, r)
            for j in range(l):
                w *= P[i, j] if j in chosen else 1 - P[i, j]
                w *= weight_of[j] if j in listed and j not in chosen else 1
            sets.append(chosen)
            weights.append(w)
        for chosen, w in zip(sets, np.array(weights) / sum(weights), strict=True):
            Q[i, list(chosen)] += w
            noise[len(listed) - len(chosen)] += w
            true[len(chosen)] += w
    return Q, noise, true


def random_case(seed, tilted=True, weighted=False):
    rng = np.random.default_rng(seed)
    n, l = 7, 5
    P = rng.uniform(0.02, 0.98, (n, l))
    Y = (rng.random((n, l)) < 0.6).astype(float)
    tilt = rng.normal(size=l + 1) if tilted else np.zeros(l + 1)
    propensity = rng.normal(size=l) if weighted else None
    return P, Y, NoiseModel(float(rng.uniform(0.05, 0.8)), tilt, propensity)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_posterior_is_the_sum_over_all_subsets(seed, tilted, weighted):
    P, Y, model = random_case(seed, tilted, weighted)
    got = candidate_posterior(P, Y, model)
    Q, noise, true = by_enumeration(P, Y, model)
    np.testing.assert_allclose(got.Q, Q, atol=1e-12)
    np.testing.assert_allclose(got.noise_counts, noise, atol=1e-10)
    np.testing.assert_allclose(got.true_counts, true[: len(got.true_counts)], atol=1e-10)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000))
def test_posterior_keeps_to_the_candidates_and_counts_rows(seed):
    P, Y, model = random_case(seed)
    got = candidate_posterior(P, Y, model)
    assert (got.Q[Y == 0] == 0).all()
    assert ((got.Q >= 0) & (got.Q <= 1)).all()
    np.testing.assert_allclose(got.noise_counts.sum(), len(P))
    np.testing.assert_allclose(got.true_counts.sum(), len(P))


def test_blocks_do_not_matter(monkeypatch):
    P, Y, model = random_case(3)
    whole = candidate_posterior(P, Y, model)
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 1)
    np.testing.assert_allclose(candidate_posterior(P, Y, model).Q, whole.Q)


@pytest.mark.parametrize("edges", [[3], [1, 2], [0, 6]])
def test_cells_and_sums_of_blocks_give_those_of_all_rows(edges):
    P, Y, model = random_case(5, weighted=True)
    whole = candidate_posterior(P, Y, model)
    blocks = []
    for rows in np.split(np.arange(len(Y)), edges):
        row, label = np.nonzero(Y[rows])
        indptr = np.concatenate([[0], np.cumsum(Y[rows].sum(axis=1))]).astype(int)
        found = cell_posterior(P[rows][row, label], indptr, label, model)
        np.testing.assert_allclose(found.Q, whole.Q[rows][row, label], atol=1e-14)
        longer = np.pad(found.true_counts, (0, 6 - len(found.true_counts)))
        soft = np.bincount(label, found.Q, minlength=5)
        blocks.append((len(rows), Y[rows].sum(axis=0), soft, found.noise_counts, longer))
    sums = NoiseSums(*(sum(column) for column in zip(*blocks, strict=True)))
    got, expected = noise_from_sums(sums), update_noise(Y, whole)
    assert got.rate == pytest.approx(expected.rate)
    np.testing.assert_allclose(got.tilt, expected.tilt, atol=1e-10)


def test_limiting_the_number_of_true_labels_changes_nothing_visible(monkeypatch):
    rng = np.random.default_rng(0)
    P = rng.uniform(0.001, 0.05, (5, 120))
    Y = np.ones((5, 120))
    model = NoiseModel(0.6, rng.normal(size=121) * 0.1)
    limited = candidate_posterior(P, Y, model)
    monkeypatch.setattr("schirn.noise.model._MOST_TRUE", 200)
    whole = candidate_posterior(P, Y, model)
    np.testing.assert_allclose(limited.Q, whole.Q, atol=1e-9)


def test_hundreds_of_candidates_do_not_underflow():
    P, Y = np.full((2, 400), 0.01), np.ones((2, 400))
    got = candidate_posterior(P, Y, NoiseModel.independent(0.5, 400))
    np.testing.assert_allclose(got.Q, 0.01 / (0.01 + 0.99 * 0.5), rtol=1e-6)


def test_the_count_law_helps_the_last_doubtful_candidate():
    """If every row lists exactly two false labels, two sure lies leave the third one true."""
    P, Y = np.array([[0.01, 0.01, 0.5, 0.3]]), np.array([[1, 1, 1, 0]])
    tilt = np.full(5, -20.0)
    tilt[2] = 0.0
    counted = candidate_posterior(P, Y, NoiseModel(0.4, tilt)).Q
    plain = candidate_posterior(P, Y, NoiseModel.independent(0.4, 4)).Q
    assert counted[0, 2] > 0.95 > plain[0, 2]


def test_rows_without_candidates_are_counted(monkeypatch):
    P, Y = np.full((5, 3), 0.4), np.zeros((5, 3))
    Y[4] = 1
    whole = candidate_posterior(P, Y, NoiseModel.independent(0.5, 3))
    alone = candidate_posterior(P[4:], Y[4:], NoiseModel.independent(0.5, 3))
    np.testing.assert_allclose(whole.noise_counts - alone.noise_counts, [4, 0, 0, 0], atol=1e-12)
    np.testing.assert_allclose(whole.true_counts - alone.true_counts, [4, 0, 0, 0], atol=1e-12)
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 1)
    blocks = candidate_posterior(P, Y, NoiseModel.independent(0.5, 3))
    np.testing.assert_allclose(blocks.noise_counts, whole.noise_counts)
    np.testing.assert_allclose(blocks.true_counts, whole.true_counts)


def test_counts_of_blocks_add_up(monkeypatch):
    rng = np.random.default_rng(1)
    P, Y = rng.uniform(0.1, 0.9, (9, 4)), (rng.random((9, 4)) < 0.7).astype(float)
    model = NoiseModel(0.3, rng.normal(size=5))
    whole = candidate_posterior(P, Y, model)
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 40)
    blocks = candidate_posterior(P, Y, model)
    np.testing.assert_allclose(blocks.noise_counts, whole.noise_counts)
    np.testing.assert_allclose(blocks.true_counts, whole.true_counts)


def test_blocks_are_as_large_as_their_limit_allows(monkeypatch):
    """A row of k candidates takes (k + 1)^2 cells."""
    rows = []

    def recording(p, *rest):
        rows.append(p.shape[1])
        return padded_posterior(p, *rest)

    monkeypatch.setattr("schirn.noise.model.padded_posterior", recording)
    indptr, label = np.arange(0, 3 * 10, 3), np.tile([0, 1, 2], 9)
    for limit, expected in ((3 * 4**2, [3, 3, 3]), (1, [1] * 9)):
        rows.clear()
        monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", limit)
        cell_posterior(np.full(27, 0.5), indptr, label, NoiseModel(0.5, np.ones(4)))
        assert rows == expected


def test_single_precision_is_computed_in_double():
    rng = np.random.default_rng(0)
    P, Y = rng.uniform(0.01, 0.99, (6, 5)).astype(np.float32), np.ones((6, 5))
    model = NoiseModel(0.2, rng.normal(size=6))
    single, double = (candidate_posterior(p, Y, model).Q for p in (P, P.astype(float)))
    np.testing.assert_allclose(single, double, rtol=1e-12)


def test_few_candidates_may_all_be_true():
    size, zeros = np.full(2, 64), np.zeros(66)
    _, counts, _ = padded_posterior(
        np.full((64, 2), 0.01), np.full((64, 2), 0.5), size, zeros, zeros
    )
    assert len(counts) == 64 + 1


def test_many_candidates_are_limited_to_six_deviations_above_the_expected_number():
    true = np.array([0.2, 0.01]) * np.ones((150, 1))
    false = (1 - true) * 0.5
    # 0.2 / (0.2 + 0.8 * 0.5) = 1/3 of 150 are true: 50 + 6 sqrt(50) = 92.4, and ten more.
    assert most_true(true, false) == 102
    assert most_true(true[:, 1:], false[:, 1:]) == 64
    assert most_true(np.full((150, 1), 0.9), np.full((150, 1), 0.05)) == 150


def most_true(true, false):
    """The largest number of true labels of a row that the posterior considers."""
    size, zeros = np.full(true.shape[1], len(true)), np.zeros(len(true) + 1)
    return len(padded_posterior(true, false, size, zeros, zeros)[1]) - 1


def test_a_certain_number_of_false_labels_among_very_many_does_not_underflow():
    """Of 201 candidates exactly 200 are wrong; the weights of such sets are below e^-900."""
    l, listed = 10_000, 201
    p = np.full(listed, 1e-3)
    p[0] = 0.5
    tilt = np.full(l + 1, -3000.0)
    tilt[200] = 0.0
    found = cell_posterior(p, np.array([0, listed]), np.arange(listed), NoiseModel(0.02, tilt))
    odds = p / (1 - p)
    np.testing.assert_allclose(found.Q, odds / odds.sum(), rtol=1e-6)


@pytest.mark.parametrize("kind", ["tilt", "propensities"])
def test_tensors_have_the_posterior_of_arrays(kind, monkeypatch):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    rng = np.random.default_rng(0)
    n, l = 300, 20
    Y = rng.random((n, l)) < rng.random((n, 1))
    row, label = np.nonzero(Y)
    indptr = np.searchsorted(row, np.arange(n + 1))
    p, tilt = rng.uniform(0.01, 0.99, len(row)), -0.1 * (np.arange(l + 1.0) - 4) ** 2
    model = {
        "tilt": NoiseModel(0.1, tilt),
        "propensities": NoiseModel(0.1, tilt, rng.normal(size=l)),
    }[kind]
    expected = cell_posterior(p, indptr, label, model)
    for cells in (2**27, 2000):
        monkeypatch.setattr("schirn.noise.model._DEVICE_CELLS", cells)
        found = cell_posterior(torch.asarray(p), indptr, label, model)
        assert isinstance(found.Q, torch.Tensor)
        np.testing.assert_allclose(found.Q.numpy(), expected.Q, atol=1e-13)
        np.testing.assert_allclose(found.noise_counts, expected.noise_counts, atol=1e-10)
        np.testing.assert_allclose(found.true_counts, expected.true_counts, atol=1e-10)
    single = cell_posterior(torch.asarray(p, dtype=torch.float32), indptr, label, model)
    assert single.Q.dtype == torch.float64
    np.testing.assert_allclose(single.Q, expected.Q, atol=1e-5)


def test_a_few_long_rows_do_not_pad_all_others(monkeypatch):
    widths = []

    def recording(p, *rest):
        widths.append(p.shape)
        return padded_posterior(p, *rest)

    monkeypatch.setattr("schirn.noise.model.padded_posterior", recording)
    sizes = np.r_[np.ones(1000, dtype=int), 100]
    indptr = np.r_[0, np.cumsum(sizes)]
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 10_000)
    label = np.r_[np.zeros(1000, dtype=int), np.arange(100)]
    cell_posterior(np.full(1100, 0.5), indptr, label, NoiseModel.independent(0.5, 100))
    assert widths == [(1, 1000), (100, 1)]
