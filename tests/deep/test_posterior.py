"""The posterior of PyTorch tensors against that of NumPy arrays and against all subsets."""

from itertools import product

import numpy as np
import pytest
from reference.noise import update_noise

from schirn.noise.model import (
    NoiseModel,
    candidate_posterior,
    count_tilt,
    log_normaliser,
)

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep import NoiseLaw, bayes, row_posterior  # noqa: E402
from schirn.deep._posterior import (  # noqa: E402
    NoiseSums,
    _circle_posterior,
    _recursive_posterior,
)


def example(n=40, l=6, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.uniform(0.01, 0.99, (n, l))
    Y = (rng.random((n, l)) < 0.5).astype(np.uint8)
    Y[0] = 0
    Y[1] = 1
    return P, Y


def tensors(*arrays):
    return [torch.as_tensor(array) for array in arrays]


def test_without_a_tilt_it_is_the_rule_of_bayes():
    P, Y = tensors(*example())
    rates = torch.linspace(0.05, 0.6, 6, dtype=torch.float64)
    found = row_posterior(P, Y, NoiseLaw.independent(rates)).Q
    torch.testing.assert_close(found, bayes(P, Y, rates))
    assert (found[Y == 0] == 0).all()


def test_law_and_posterior_equal_those_of_numpy():
    P, Y = example()
    model = NoiseModel.independent(0.3, 6)
    law = NoiseLaw.independent(torch.full((6,), 0.3, dtype=torch.float64))
    for _ in range(3):
        expected = candidate_posterior(P, Y, model)
        found = row_posterior(*tensors(P, Y), law)
        np.testing.assert_allclose(found.Q, expected.Q, atol=1e-6)
        np.testing.assert_allclose(found.noise_counts, expected.noise_counts, atol=1e-5)
        np.testing.assert_allclose(
            found.true_counts[: len(expected.true_counts)], expected.true_counts, atol=1e-5
        )
        model = update_noise(Y, expected)
        sums = NoiseSums(6)
        sums.judge(*tensors(P, Y), law)
        law = sums.law()
        np.testing.assert_allclose(law.tilt, model.tilt, atol=1e-4)
    assert np.abs(model.tilt).max() > 0.1


def test_posterior_of_a_row_equals_the_sum_over_all_subsets():
    P, Y = np.array([[0.2, 0.7, 0.4, 0.9]]), np.array([[1, 1, 0, 1]])
    rates, counts = np.array([0.1, 0.5, 0.3, 0.2]), np.array([1.0, 6, 2, 1, 0])
    tilt = count_tilt(counts, np.array([0.0, 5, 5, 0, 0]), 0.25)
    normaliser = log_normaliser(tilt, 0.25, 4)
    law = NoiseLaw(*tensors(rates, tilt, normaliser))
    total, expected = 0.0, np.zeros(4)
    for true in product([0, 1], repeat=3):
        subset = np.array([true[0], true[1], 0, true[2]])
        m, r = subset.sum(), 3 - subset.sum()
        terms = np.where(subset, P[0], np.where(Y[0], (1 - P[0]) * rates, 1.0))
        weight = terms.prod() * np.exp(tilt[r] - normaliser[m])
        total, expected = total + weight, expected + weight * subset
    found = row_posterior(*tensors(P, Y), law).Q
    np.testing.assert_allclose(found[0], expected / total, rtol=1e-6)


def test_blocks_of_rows_change_nothing(monkeypatch):
    P, Y = tensors(*example(n=50))
    sums = NoiseSums(6)
    sums.judge(P, Y, NoiseLaw.independent(torch.full((6,), 0.2)))
    law = sums.law()
    whole = row_posterior(P, Y, law)
    monkeypatch.setattr("schirn.deep._posterior._CPU_CELLS", 7 * 49)
    for one, other in zip(row_posterior(P, Y, law), whole, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("labels", [1, 2, 7, 20, 128])
@pytest.mark.parametrize("listed", [0.2, 0.9])
def test_on_the_unit_circle_it_is_the_same(labels, listed):
    """What a GPU computes for few labels, against the recursion over candidates."""
    rng = np.random.default_rng(0)
    p = torch.tensor(rng.beta(0.3, 0.8, (200, labels)))
    Y = torch.tensor(rng.random(p.shape) < listed)
    Y[0], Y[1] = False, True
    law = NoiseLaw.independent(torch.tensor(rng.uniform(0.05, 0.6, labels)))
    for _ in range(3):
        expected = _recursive_posterior(p, Y, law, labels)
        for one, other in zip(_circle_posterior(p, Y, law, labels), expected, strict=True):
            torch.testing.assert_close(one, other, atol=1e-11, rtol=1e-11)
        sums = NoiseSums(labels)
        sums.judge(p, Y, law)
        law = sums.law()


def test_rows_that_the_law_all_but_excludes_are_judged_cell_by_cell():
    """Weights of 1e-30 would drown in rounding errors."""
    tilt = torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 70.0], dtype=torch.float64)
    rates = torch.full((7,), 1e-4)
    law = NoiseLaw(rates, tilt, torch.zeros(8, dtype=torch.float64))
    p = torch.full((1, 7), 0.9999, dtype=torch.float64)
    Y = torch.ones(1, 7, dtype=torch.bool)
    Q = _circle_posterior(p, Y, law, 7).Q
    torch.testing.assert_close(Q, bayes(p, Y, rates.double()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("labels", [6, 80, 150])
def test_on_a_gpu(labels):
    P, Y = tensors(*example(n=50, l=labels))
    sums = NoiseSums(labels)
    sums.judge(P, Y, NoiseLaw.independent(torch.full((labels,), 0.2)))
    law = sums.law()
    expected = row_posterior(P, Y, law)
    found = row_posterior(P.cuda(), Y.cuda(), law.to("cuda"))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_rates_of_labels_are_found():
    rng = np.random.default_rng(0)
    truth = rng.random((4000, 4)) < 0.3
    rates = np.array([0.05, 0.1, 0.3, 0.6])
    Y = truth | (rng.random(truth.shape) < rates)
    # Scores that know most of the truth.
    P = np.where(truth, 0.9, 0.05)
    law = NoiseLaw.independent(torch.full((4,), 0.2))
    for _ in range(10):
        sums = NoiseSums(4)
        sums.judge(*tensors(P, Y), law)
        law = sums.law(counts=False)
    np.testing.assert_allclose(law.rates, rates, atol=0.06)


def test_equal_rates_stay_equal():
    rng = np.random.default_rng(0)
    truth = rng.random((2000, 5)) < 0.3
    Y = truth | (rng.random(truth.shape) < 0.2)
    P = np.where(truth, 0.9, 0.05)
    sums = NoiseSums(5)
    law = NoiseLaw.independent(torch.full((5,), 0.2))
    sums.judge(*tensors(P, Y), law)
    assert sums.law(counts=False).rates.unique().numel() == 1


@pytest.mark.parametrize("counts", [False, True])
def test_no_rows_have_no_posterior_and_add_nothing(counts):
    law = NoiseLaw.independent(torch.full((3,), 0.25))
    P, Y = tensors(*example(l=3))
    assert row_posterior(P[:0], Y[:0], law).Q.shape == (0, 3)
    laws = []
    for parts in ([slice(None)], [slice(0), slice(None)]):
        sums = NoiseSums(3)
        for rows in parts:
            sums.judge(P[rows], Y[rows], law)
        laws.append(sums.law(counts))
    for one, other in zip(*laws, strict=True):
        torch.testing.assert_close(one, other)


def test_rows_without_candidates_have_no_true_and_no_wrong_ones():
    law = NoiseLaw.independent(torch.full((3,), 0.25))
    found = row_posterior(torch.full((5, 3), 0.4), torch.zeros(5, 3, dtype=torch.int64), law)
    assert (found.Q == 0).all()
    assert found.noise_counts.tolist() == found.true_counts.tolist() == [5, 0, 0, 0]
