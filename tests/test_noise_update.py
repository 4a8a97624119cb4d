"""The noise model's update against its formulas written out, and the edges of the posterior."""

from math import comb, log

import numpy as np
import pytest

from schirn.noise.model import (
    NoiseModel,
    NoiseSums,
    _most_true,
    _propensity,
    candidate_posterior,
    cell_posterior,
    noise_from_sums,
)


def plain_update(sums):
    """Rate and tilt, label by label and count by count."""
    l = len(sums.candidates)
    noise = sum(c - s for c, s in zip(sums.candidates, sums.soft, strict=True))
    false = sum(sums.n_rows - s for s in sums.soft)
    rate = min(max(noise / false, 1e-4), 0.99)
    rows = sum(sums.true_counts)
    tilt = []
    for r in range(l + 1):
        expected = sum(
            share / rows * comb(l - m, r) * rate**r * (1 - rate) ** (l - m - r)
            for m, share in enumerate(sums.true_counts)
            if r <= l - m
        )
        # A count that no row leaves room for gets 0/0 without the guard.
        tilt.append(
            log((sums.noise_counts[r] + expected + 1e-12) / ((rows + 1) * expected + 1e-12))
        )
    return rate, tilt


def sums_of(n_rows, candidates, soft, noise_counts, true_counts):
    parts = (candidates, soft, noise_counts, true_counts)
    return NoiseSums(n_rows, *(np.array(part, dtype=float) for part in parts))


@pytest.mark.parametrize("true_counts", [[4, 5, 1], [0, 7, 3], [0, 0, 10], [0, 7, 3, 0, 0]])
def test_rate_and_tilt_are_those_of_the_formulas(true_counts):
    sums = sums_of(10, [6, 5, 7, 4], [3.5, 2, 3, 1.5], [2, 5, 2, 1, 0], true_counts)
    rate, tilt = plain_update(sums)
    found = noise_from_sums(sums)
    assert found.rate == pytest.approx(rate)
    np.testing.assert_allclose(found.tilt, tilt, rtol=1e-9)


def test_a_known_rate_gives_its_own_tilt():
    sums = sums_of(10, [6, 5, 7, 4], [3.5, 2, 3, 1.5], [2, 5, 2, 1, 0], [4, 5, 1])
    assert noise_from_sums(sums, 0.2).rate == 0.2
    assert not np.allclose(noise_from_sums(sums, 0.2).tilt, noise_from_sums(sums).tilt)


def test_a_count_that_is_seen_as_often_as_expected_has_no_tilt():
    """Half of the rows have no false label, half have one, as a rate of one half says."""
    sums = sums_of(8, [4], [0], [4, 4], [8])
    np.testing.assert_allclose(noise_from_sums(sums).tilt, np.log([4.5 / 4.5, 4.5 / 4.5]))


@pytest.mark.parametrize(
    ("candidates", "soft", "rate"),
    [([3, 2], [3, 2], 1e-4), ([10, 10], [0, 0], 0.99), ([10, 10], [10, 10], 1e-4)],
)
def test_the_rate_stays_inside_its_bounds(candidates, soft, rate):
    sums = sums_of(10, candidates, soft, [10, 0, 0], [0, 10, 0])
    assert noise_from_sums(sums).rate == rate


def test_a_small_mass_of_false_labels_is_not_rounded_up():
    sums = sums_of(1, [1.0, 0.9], [0.9, 0.8], [0.9, 0.1, 0], [0.1, 0.9])
    assert noise_from_sums(sums).rate == pytest.approx(0.2 / 0.3)


def test_without_rows_nothing_breaks():
    found = noise_from_sums(sums_of(0, [0, 0], [0, 0], [0, 0, 0], [0]), 0.3)
    assert np.isfinite(found.tilt).all()
    assert found.propensity is None


def test_propensity_is_the_shrunken_log_ratio():
    candidates, false = np.array([30.0, 20.0, 90.0]), np.array([100.0, 100.0, 100.0])
    noise, rate = np.array([10.0, 10.0, 70.0]), 0.3
    expected = rate * false
    excess = sum((n - e) ** 2 - e * (1 - rate) for n, e in zip(noise, expected, strict=True))
    dispersion = excess / sum(e**2 for e in expected) - 0.05
    assert 0 < dispersion < 1
    wanted = [
        log((n + 1 / dispersion) / (e + 1 / dispersion))
        for n, e in zip(noise, expected, strict=True)
    ]
    np.testing.assert_allclose(_propensity(candidates, noise, false, rate), wanted)


def test_two_labels_can_differ_and_one_cannot():
    both = _propensity(np.array([5.0, 80.0]), np.array([5.0, 80.0]), np.array([100.0, 100.0]), 0.4)
    assert both[0] < 0 < both[1]
    assert _propensity(np.array([80.0]), np.array([80.0]), np.array([100.0]), 0.2) is None


def test_chance_differences_are_no_propensity():
    """Squared differences as large as the binomial law makes them leave the labels equal."""
    false, rate = np.full(4, 100.0), 0.25
    spread = np.sqrt(100 * 0.25 * 0.75)
    noise = 25 + spread * np.array([1, -1, 1, -1])
    assert _propensity(noise + 50, noise, false, rate) is None


def test_a_little_more_than_chance_is_still_one_propensity():
    """Up to a twentieth of the squared expectation counts as chance."""
    false, rate = np.full(2, 100.0), 0.5
    beyond = np.sqrt(100 * 0.25 + 0.04 * 2500)
    noise = 50 + beyond * np.array([1, -1])
    assert _propensity(noise, noise, false, rate) is None
    beyond = np.sqrt(100 * 0.25 + 0.06 * 2500)
    noise = 50 + beyond * np.array([1, -1])
    assert _propensity(noise, noise, false, rate) is not None


def test_with_almost_no_noise_labels_are_not_told_apart():
    false, noise = np.full(3, 100.0), np.array([0.0, 0.0, 2.0])
    assert _propensity(np.array([30.0, 30.0, 40.0]), noise, false, 0.005) is None
    assert _propensity(np.array([30.0, 30.0, 39.0]), noise, false, 0.005) is not None


def test_the_independent_model_has_one_tilt_per_count():
    assert NoiseModel.independent(0.3, 4).tilt.tolist() == [0, 0, 0, 0, 0]


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
    seen = []
    monkeypatch.setattr(
        "schirn.noise.model._posterior_block",
        lambda p, start, sizes, *rest: seen.append(len(sizes)),
    )
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 3 * 4**2)
    indptr = np.arange(0, 3 * 10, 3)
    cell_posterior(np.full(27, 0.5), indptr, np.tile([0, 1, 2], 9), 3, NoiseModel(0.5, np.ones(4)))
    assert seen == [3, 3, 3]
    seen.clear()
    monkeypatch.setattr("schirn.noise.model._BLOCK_CELLS", 1)
    cell_posterior(np.full(27, 0.5), indptr, np.tile([0, 1, 2], 9), 3, NoiseModel(0.5, np.ones(4)))
    assert seen == [1] * 9


def test_single_precision_is_computed_in_double():
    rng = np.random.default_rng(0)
    P, Y = rng.uniform(0.01, 0.99, (6, 5)).astype(np.float32), np.ones((6, 5))
    model = NoiseModel(0.2, rng.normal(size=6))
    single, double = (candidate_posterior(p, Y, model).Q for p in (P, P.astype(float)))
    np.testing.assert_allclose(single, double, rtol=1e-12)


def test_few_candidates_may_all_be_true():
    assert _most_true(np.full((2, 64), 0.01), np.full(2, 0.5), 64) == 64


def test_many_candidates_are_cut_six_deviations_above_the_expected_number():
    p = np.array([[0.2], [0.01]]) * np.ones((1, 150))
    # 0.2 / (0.2 + 0.8 * 0.5) = 1/3 of 150 are true: 50 + 6 sqrt(50) = 92.4, and ten more.
    assert _most_true(p, np.full(2, 0.5), 150) == 102
    assert _most_true(p[1:], np.full(1, 0.5), 150) == 64
    assert _most_true(np.full((1, 150), 0.9), np.full(1, 0.5), 150) == 150


def test_a_certain_number_of_false_labels_among_very_many_does_not_underflow():
    """Of 201 candidates exactly 200 are wrong; the weights of such sets are below e^-900."""
    l, listed = 10_000, 201
    p = np.full(listed, 1e-3)
    p[0] = 0.5
    tilt = np.full(l + 1, -3000.0)
    tilt[200] = 0.0
    found = cell_posterior(p, np.array([0, listed]), np.arange(listed), l, NoiseModel(0.02, tilt))
    odds = p / (1 - p)
    np.testing.assert_allclose(found.q, odds / odds.sum(), rtol=1e-6)
