"""The ridge on sums over batches: scikit-learn, refits and the choice of its weight."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge as SklearnRidge

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep._ridge import RidgeSums  # noqa: E402


def problem(n=30, h=5, l=3):
    rng = np.random.default_rng(0)
    F = 3 + rng.normal(size=(n, h)) * np.array([1, 2, 0.5, 1, 4])[:h]
    return F, rng.random((n, l))


def solve(F, Q, lam, n_batches=3):
    sums = RidgeSums(F.shape[1], Q.shape[1])
    for f, q in zip(np.array_split(F, n_batches), np.array_split(Q, n_batches), strict=True):
        sums.add(torch.as_tensor(f), torch.as_tensor(q))
    return sums.solve(lam)


def absolute(F, lam):
    """The weight that scikit-learn calls alpha."""
    return lam * ((F - F.mean(axis=0)) ** 2).sum() / F.shape[1]


def test_sums_over_batches_give_the_ridge_of_scikit_learn():
    F, Q = problem()
    found = solve(F, Q, 0.3).scores(torch.as_tensor(F))
    expected = SklearnRidge(alpha=absolute(F, 0.3)).fit(F, Q).predict(F)
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_leave_one_out_scores_equal_refits_without_the_row():
    F, Q = problem()
    # Refits keep the weight of the whole problem, as the formula does.
    weight = absolute(F, 0.3)
    found = solve(F, Q, 0.3).leave_one_out(torch.as_tensor(F), torch.as_tensor(Q))
    for i in range(len(F)):
        rest = np.arange(len(F)) != i
        refit = SklearnRidge(alpha=weight).fit(F[rest], Q[rest])
        np.testing.assert_allclose(found[i], refit.predict(F[i : i + 1])[0], atol=1e-4)


def test_weight_is_chosen_between_useless_and_useful_features():
    rng = np.random.default_rng(0)
    F = rng.normal(size=(60, 40))
    pure_noise = rng.random((60, 4))
    signal = F @ rng.normal(size=(40, 4)) * 0.1
    shrunk, free = solve(F, pure_noise, None), solve(F, signal, None)
    loose = solve(F, pure_noise, 1e-4)
    assert shrunk.weights.norm() < 0.5 * loose.weights.norm()
    fitted = free.scores(torch.as_tensor(F)).numpy()
    assert np.corrcoef(fitted.ravel(), signal.ravel())[0, 1] > 0.95


def test_a_row_has_no_say_in_its_own_score():
    F, _ = problem(40, 5, 3)
    F = torch.as_tensor(F, dtype=torch.float32)
    rng = torch.Generator().manual_seed(0)
    Y = (torch.rand(40, 3, generator=rng) < 0.5).int()
    scores = []
    for flipped in (False, True):
        candidates = Y.clone()
        if flipped:
            candidates[0] = 1 - candidates[0]
        sums = RidgeSums(5, 3)
        sums.add(F.double(), candidates.double())
        scores.append(sums.solve(0.3).leave_one_out(F, candidates)[0])
    torch.testing.assert_close(scores[0], scores[1], atol=1e-5, rtol=0)
