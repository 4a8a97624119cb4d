"""Sieve on blocks of rows equals Sieve in memory, also on tensors."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from reference.noise import update_noise

from schirn import Sieve
from schirn.datasets import make_partial_multilabel
from schirn.exceptions import InputError
from schirn.noise.model import NoiseModel, candidate_posterior
from schirn.scale.blocks import Block, FeatureRows, MemoryRows, candidate_cells
from schirn.solvers.sieve import SieveOptions, soft_logit
from schirn.solvers.sieve_blocks import sieve_blocks

MANY = {"max_kernel_rows": 50, "n_landmarks": 40}
EDGES = [1, 100, 130]


def problem(n=180, sparse=False, seed=0):
    data = make_partial_multilabel(
        n_samples=n,
        n_features=8,
        n_labels=6,
        r=2,
        sparse=sparse,
        density=0.7,
        random_state=seed,
    )
    return data.X, data.candidates


def blocks(X, Y, edges=()):
    limits = [0, *edges, X.shape[0]]
    rows = [(X[i:j], Y[i:j], i) for i, j in pairwise(limits)]
    return MemoryRows([Block(FeatureRows(x, i), candidate_cells(y), False) for x, y, i in rows])


def fit_blocks(store, sample_rows=10_000, **parameters):
    """`sieve_blocks` with the parameters of `Sieve`."""
    features = parameters.pop("features", "auto")
    parameters["trusting"] = not parameters.pop("estimate_noise", True)
    options = SieveOptions(**parameters)
    return sieve_blocks(store, None, options, features=features, sample_rows=sample_rows)


def same(fit, model, X, atol=1e-7):
    """Whether a fit on blocks is the fitted model."""
    np.testing.assert_allclose(believed(fit, model), model.label_confidence_, atol=atol)
    evidence = [entry.evidence for entry in fit.result.trace]
    np.testing.assert_allclose(evidence, model.evidence_, rtol=1e-6)
    np.testing.assert_allclose(fit.result.lams, model.lams_, rtol=1e-6)
    scores = fit.result.pool.log_odds(fit.expansion.scores(fit.scale.transform(X)))
    np.testing.assert_allclose(scores, model.decision_function(X), atol=100 * atol)
    assert fit.scale.kind == model.scale_.kind


def believed(fit, model):
    """Confidences (n, l) of a fit, as far as the model believes them."""
    q = fit.posterior.copy()
    q.data = 1 - model.informativeness_ * (1 - q.data)
    return q.toarray()


@pytest.mark.parametrize("edges", [[], EDGES], ids=["one block", "four blocks"])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "options",
    [
        {**MANY},
        {**MANY, "kernel": "linear"},
        {**MANY, "features": "text"},
        {**MANY, "features": "none", "kernel": "linear", "lam": 2.0},
        {"max_kernel_rows": 4000},
    ],
    ids=["landmarks", "linear", "text", "raw", "few rows"],
)
def test_blocks_give_the_model_that_memory_gives(options, sparse, edges):
    X, Y = problem(sparse=sparse)
    options = {**options, "max_iter": 4}
    model = Sieve(**options).fit(X, Y)
    # Features from landmarks have single precision.
    few = options["max_kernel_rows"] > len(Y)
    atol = 1e-7 if options.get("kernel") or few else 2e-4
    fit = fit_blocks(blocks(X, Y, edges), **options)
    same(fit, model, X, atol)
    log_odds, listed = fit.sample
    Q = fit.posterior.toarray()
    np.testing.assert_array_equal(listed, Y)
    assert np.corrcoef(log_odds[Y == 1], Q[Y == 1])[0, 1] > 0.5


@pytest.mark.parametrize("estimate_noise", [True, False])
def test_with_and_without_noise(estimate_noise):
    X, Y = problem()
    options = {**MANY, "kernel": "linear", "estimate_noise": estimate_noise}
    fit = fit_blocks(blocks(X, Y, EDGES), **options)
    model = Sieve(**options).fit(X, Y)
    same(fit, model, X)
    np.testing.assert_allclose(fit.result.noise.rate, model.noise_model_.rate, rtol=1e-6)
    np.testing.assert_allclose(np.array(fit.result.trace)[:, 0], model.noise_rates_, rtol=1e-6)


@pytest.mark.parametrize("kernel_rows", [50, 4000], ids=["landmarks", "few rows"])
def test_confidences_list_every_candidate_of_every_row(kernel_rows):
    X, Y = problem()
    options = {**MANY, "max_kernel_rows": kernel_rows}
    found = fit_blocks(blocks(X, Y, EDGES), **options).posterior
    np.testing.assert_array_equal(np.diff(found.indptr), Y.sum(axis=1))


def test_a_sample_takes_every_kth_row():
    X, Y = problem()
    for kernel_rows, k in ((50, 7), (4000, 1)):
        options = {**MANY, "max_kernel_rows": kernel_rows, "max_iter": 2}
        fit = fit_blocks(blocks(X, Y, EDGES), sample_rows=len(Y) // 7, **options)
        log_odds, listed = fit.sample
        np.testing.assert_array_equal(listed, Y[::k])
        assert log_odds.shape == Y[::k].shape


def test_one_round_written_out():
    """A linear kernel, so that every matrix can be made plainly."""
    X, Y = problem()
    X = X - X.mean(axis=0)
    lam = 3.0
    result = fit_blocks(
        blocks(X, Y, EDGES),
        kernel="linear",
        features="none",
        lam=lam,
        max_iter=1,
        max_kernel_rows=0,
    )
    n, l = Y.shape
    H = 1 / n + X @ np.linalg.solve(X.T @ X + lam * np.eye(X.shape[1]), X.T)
    left_out = lambda Q, H: Q - (Q - H @ Q) / (1 - np.diag(H))[:, None]  # noqa: E731
    S = left_out(Y, H)
    rate = S[Y == 0].mean()
    P = np.clip((S - rate) / (1 - rate), 1e-4, 1 - 1e-4)
    first = candidate_posterior(P, Y, NoiseModel.independent(rate, l))
    S = left_out(first.Q, H)
    C = S - S.mean(axis=0)
    G = C.T @ C
    G += np.eye(l) * (np.trace(G) / l * 0.3 + 1e-12)
    both = [S, left_out(first.Q, 1 / n + C @ np.linalg.solve(G, C.T))]
    log_odds = sum(soft_logit(A) for A in both) / 2
    np.testing.assert_allclose(result.sample[0], log_odds, atol=1e-8)
    P = np.clip(1 / (1 + np.exp(-log_odds)), 1e-4, 1 - 1e-4)
    noise = update_noise(Y, first)
    np.testing.assert_allclose(
        result.posterior.toarray(), candidate_posterior(P, Y, noise).Q, atol=1e-8
    )


def test_a_block_without_candidates_and_one_without_held_rows():
    X, Y = problem()
    Y[1:60] = 0
    options = {**MANY, "kernel": "linear"}
    with pytest.warns(UserWarning, match="carry no candidate"):
        model = Sieve(**options).fit(X, Y)
    same(fit_blocks(blocks(X, Y, [1, 2, 60]), **options), model, X)


def test_too_many_features_for_a_linear_kernel():
    X, Y = sp.csr_array((60, 30_000), dtype=float), np.ones((60, 2))
    with pytest.raises(InputError, match='kernel="rbf"'):
        fit_blocks(blocks(X, Y), kernel="linear", max_kernel_rows=10)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": "linear"},
        {**MANY},
        {**MANY, "kernel": "linear"},
        {**MANY, "features": "text"},
        {"estimate_noise": False},
    ],
    ids=["exact", "exact linear", "landmarks", "linear", "text", "trust"],
)
def test_torch_gives_the_result_of_numpy(options, precision):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    pytest.importorskip("array_api_compat", reason="array-api-compat is not installed")
    X, Y = problem()
    X, options = X.astype(precision), {**options, "max_iter": 4}
    model = Sieve(**options).fit(X, Y)
    T = torch.asarray(X)
    place = MemoryRows([Block(FeatureRows(T), candidate_cells(Y, T))])
    fit = fit_blocks(place, **options)
    atol = 1e-3 if precision == "float32" or "max_kernel_rows" in options else 1e-6
    np.testing.assert_allclose(believed(fit, model), model.label_confidence_, atol=atol)
    np.testing.assert_allclose(np.array(fit.result.trace)[:, 1], model.objective_, rtol=1e-3)
    scores = fit.result.pool.log_odds(fit.expansion.scores(fit.scale.transform(T)))
    assert isinstance(scores, torch.Tensor)
    expected = model.decision_function(X)
    np.testing.assert_allclose(scores.numpy(), expected, atol=20 * atol, rtol=1e-2)
    if "max_kernel_rows" in options:
        assert isinstance(place.states[0].S[0], torch.Tensor)
