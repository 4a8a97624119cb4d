"""The update of the noise model against its formulas written out."""

import tracemalloc
from math import comb, exp, log

import numpy as np
import pytest
from reference.noise import update_noise

from schirn.noise.model import (
    NoiseModel,
    NoiseSums,
    Posterior,
    answered_rates,
    count_tilt,
    log_normaliser,
    noise_from_sums,
    propensities,
)


def plain_update(sums):
    """Rate and tilt, label by label and count by count."""
    l = len(sums.candidates)
    noise = sum(c - s for c, s in zip(sums.candidates, sums.soft, strict=True))
    false = sum(sums.n_rows - s for s in sums.soft)
    rate = min(max(noise / false, 1e-4), 0.98)
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
    return rate, [narrowness(sums, rate) * t for t in tilt]


def narrowness(sums, rate):
    """How far the number of wrong labels varies less than a binomial number, up to 1."""
    l, rows = len(sums.candidates), sum(sums.true_counts)
    mean = sum(r * share for r, share in enumerate(sums.noise_counts)) / rows
    variance = sum((r - mean) ** 2 * share for r, share in enumerate(sums.noise_counts)) / rows
    true = sum(m * share for m, share in enumerate(sums.true_counts)) / rows
    return min(max((1 - variance / ((l - true) * rate * (1 - rate))) / 0.15, 0), 1)


def sums_of(n_rows, candidates, soft, noise_counts, true_counts):
    parts = (candidates, soft, noise_counts, true_counts)
    return NoiseSums(n_rows, *(np.array(part, dtype=float) for part in parts))


@pytest.mark.parametrize("true_counts", [[4, 5, 1], [0, 7, 3], [0, 0, 10], [0, 7, 3, 0, 0]])
@pytest.mark.parametrize("noise_counts", [[2, 5, 3, 0, 0], [0, 8, 2, 0, 0], [0, 10, 0, 0, 0]])
def test_rate_and_tilt_are_those_of_the_formulas(noise_counts, true_counts):
    sums = sums_of(10, [6, 5, 7, 4], [3.5, 2, 3, 1.5], noise_counts, true_counts)
    rate, tilt = plain_update(sums)
    assert any(tilt) or noise_counts[0]
    found = noise_from_sums(sums)
    assert found.rate == pytest.approx(rate)
    np.testing.assert_allclose(found.tilt, tilt, rtol=1e-9)


def test_numbers_that_vary_as_a_binomial_or_more_have_no_tilt():
    """Half of the rows with no wrong label and half with four are no law to narrow."""
    counts = [5, 0, 0, 0, 5], [2, 3, 3, 1, 1]
    for noise_counts in counts:
        sums = sums_of(10, [6, 5, 7, 4], [3.5, 2, 3, 1.5], noise_counts, [4, 5, 1])
        np.testing.assert_array_equal(noise_from_sums(sums).tilt, 0)


def test_a_count_that_is_seen_as_often_as_expected_has_no_tilt():
    """Half of the rows have no false label, half have one, as a rate of one half says."""
    sums = sums_of(8, [4], [0], [4, 4], [8])
    np.testing.assert_allclose(noise_from_sums(sums).tilt, np.log([4.5 / 4.5, 4.5 / 4.5]))


@pytest.mark.parametrize(
    ("candidates", "soft", "rate"),
    [([3, 2], [3, 2], 1e-4), ([10, 10], [0, 0], 0.98), ([10, 10], [10, 10], 1e-4)],
)
def test_the_rate_stays_inside_its_bounds(candidates, soft, rate):
    sums = sums_of(10, candidates, soft, [10, 0, 0], [0, 10, 0])
    assert noise_from_sums(sums).rate == rate


def test_a_small_mass_of_false_labels_is_not_rounded_up():
    sums = sums_of(1, [1.0, 0.9], [0.9, 0.8], [0.9, 0.1, 0], [0.1, 0.9])
    assert noise_from_sums(sums).rate == pytest.approx(0.2 / 0.3)


def test_without_rows_nothing_breaks():
    found = noise_from_sums(sums_of(0, [0, 0], [0, 0], [0, 0, 0], [0]))
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
    np.testing.assert_allclose(propensities(noise, false, rate, candidates.sum()), wanted)


def test_two_labels_can_differ_and_one_cannot():
    both = propensities(np.array([5.0, 80.0]), np.array([100.0, 100.0]), 0.4, 85.0)
    assert both[0] < 0 < both[1]
    assert propensities(np.array([80.0]), np.array([100.0]), 0.2, 80.0) is None


def test_chance_differences_are_no_propensity():
    """Squared differences as large as the binomial law makes them leave the labels equal."""
    false, rate = np.full(4, 100.0), 0.25
    spread = np.sqrt(100 * 0.25 * 0.75)
    noise = 25 + spread * np.array([1, -1, 1, -1])
    assert propensities(noise, false, rate, noise.sum() + 200) is None


def test_a_little_more_than_chance_is_still_one_propensity():
    """Up to a twentieth of the squared expectation counts as chance."""
    false, rate = np.full(2, 100.0), 0.5
    beyond = np.sqrt(100 * 0.25 + 0.04 * 2500)
    noise = 50 + beyond * np.array([1, -1])
    assert propensities(noise, false, rate, noise.sum()) is None
    beyond = np.sqrt(100 * 0.25 + 0.06 * 2500)
    noise = 50 + beyond * np.array([1, -1])
    assert propensities(noise, false, rate, noise.sum()) is not None


def test_with_almost_no_noise_labels_share_one_propensity():
    false, noise = np.full(3, 100.0), np.array([0.0, 0.0, 2.0])
    assert propensities(noise, false, 0.005, 100.0) is None
    assert propensities(noise, false, 0.005, 99.0) is not None


def test_the_independent_model_has_one_tilt_per_count():
    assert NoiseModel.independent(0.3, 4).tilt.tolist() == [0, 0, 0, 0, 0]


def test_update_recovers_rate_and_counts():
    rng = np.random.default_rng(0)
    n, l, r = 4000, 12, 3
    truth = (rng.random((n, l)) < 0.2).astype(float)
    order = np.argsort(rng.random((n, l)) + 2 * truth, axis=1)[:, :r]
    Y = truth.copy()
    np.put_along_axis(Y, order, 1, axis=1)
    counts = np.bincount((Y - truth).sum(axis=1).astype(int), minlength=l + 1).astype(float)
    true = np.bincount(truth.sum(axis=1).astype(int), minlength=int(Y.sum(axis=1).max()) + 1)
    model = update_noise(Y, Posterior(truth, counts, true.astype(float)))
    wrong = Y - truth
    assert model.rate == pytest.approx(wrong.sum() / (1 - truth).sum())
    assert model.propensity is None
    assert int(np.argmax(model.tilt)) == r


def test_update_sees_labels_that_are_listed_more_often():
    rng = np.random.default_rng(0)
    n, l = 3000, 6
    rates = np.array([0.05, 0.05, 0.05, 0.05, 0.05, 0.6])
    Y = (rng.random((n, l)) < rates).astype(float)
    Q = np.zeros((n, l))
    counts = np.bincount(Y.sum(axis=1).astype(int), minlength=l + 1).astype(float)
    true = np.zeros(int(Y.sum(axis=1).max()) + 1)
    true[0] = n
    model = update_noise(Y, Posterior(Q, counts, true))
    assert int(np.argmax(model.propensity)) == l - 1
    assert model.propensity[-1] - model.propensity[0] > log(3)


def test_many_labels_take_no_memory_for_candidates_times_labels():
    labels, candidates = 50_000, 200
    noise_counts = np.zeros(labels + 1)
    noise_counts[:20] = 10
    true_counts = np.ones(candidates + 1)
    tracemalloc.start()
    try:
        tilt = count_tilt(noise_counts, true_counts, 1e-4)
        log_normaliser(tilt, 1e-4, candidates)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < labels * candidates * 8 / 2


@pytest.mark.parametrize("cells", [1, 50, 10**6])
def test_the_count_law_does_not_depend_on_the_blocks(monkeypatch, cells):
    monkeypatch.setattr("schirn.noise.model._LAW_CELLS", cells)
    sums = sums_of(10, [6, 5, 7, 4], [3.5, 2, 3, 1.5], [0, 8, 2, 0, 0], [0, 7, 3])
    _, tilt = plain_update(sums)
    found = noise_from_sums(sums)
    assert found.tilt == pytest.approx(tilt)
    weight = [
        sum(comb(4 - m, r) * 0.2**r * 0.8 ** (4 - m - r) * exp(tilt[r]) for r in range(5 - m))
        for m in range(3)
    ]
    assert log_normaliser(np.array(tilt), 0.2, 2) == pytest.approx(np.log(weight))


def test_answers_correct_the_rates_of_labels_that_they_are_about():
    listed = np.array([50.0, 50.0, 50.0])
    model_wrong = np.array([25.0, 25.0, 25.0])
    claimed = np.array([10.0, 10.0, 0.0])
    plain = model_wrong / (200 - listed + model_wrong)
    rates = answered_rates(np.array([18.0, 3.0, 0.0]), claimed, model_wrong, listed, 200)
    assert rates[0] > plain[0] + 0.03
    assert rates[1] < plain[1] - 0.03
    # Nothing was asked about the last label, and all labels together agree with the model.
    assert rates[2] == pytest.approx(plain[2], abs=0.01)


def test_one_answer_changes_little_and_none_nothing():
    listed = np.array([50.0, 40.0])
    model_wrong = np.array([20.0, 10.0])
    plain = model_wrong / (100 - listed + model_wrong)
    nothing = np.zeros(2)
    np.testing.assert_allclose(answered_rates(nothing, nothing, model_wrong, listed, 100), plain)
    one = answered_rates(np.array([1.0, 0.0]), np.array([0.4, 0.0]), model_wrong, listed, 100)
    assert (abs(one / plain - 1) < 0.25).all()


def test_answers_about_suspects_do_not_inflate_the_rates():
    """All suspects turn out wrong, as the model has claimed."""
    listed = np.array([50.0, 50.0])
    model_wrong = np.array([12.0, 12.0])
    suspects = np.array([10.0, 10.0])
    rates = answered_rates(suspects, 0.95 * suspects, model_wrong, listed, 200)
    plain = model_wrong / (200 - listed + model_wrong)
    np.testing.assert_allclose(rates, plain, rtol=0.1)


def test_rates_of_labels_are_rate_and_propensities():
    rates = np.array([0.1, 0.3, 0.2])
    model = NoiseModel.of_rates(rates, np.zeros(4))
    np.testing.assert_allclose(model.label_rates(np.array([1, 0, 1])), [0.3, 0.1, 0.3])
