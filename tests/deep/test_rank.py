"""The rank term: value and gradient against the singular value decomposition."""

import pytest

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep import rank_loss  # noqa: E402


def example(kind, shape=(6, 4)):
    rng = torch.Generator().manual_seed(0)
    P = torch.randn(*shape, generator=rng, dtype=torch.float64)
    U, s, Vh = torch.linalg.svd(P, full_matrices=False)
    if kind == "repeated":
        s = torch.full_like(s, 2.0)
    elif kind == "two repeated":
        s[1:2] = s[:1]
    elif kind == "rank deficient":
        s[2:] = 0
    elif kind == "zero":
        s = torch.zeros_like(s)
    return (U * s) @ Vh


KINDS = ("generic", "repeated", "two repeated", "rank deficient", "zero")


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (1, 3)])
@pytest.mark.parametrize("kind", KINDS)
def test_gradient_in_double_precision(kind, shape):
    P = example(kind, shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda P: rank_loss(P, smoothing=0.05), (P,), atol=1e-7)


def test_value_is_the_smoothed_nuclear_norm():
    P = example("generic")
    s = torch.linalg.svdvals(P)
    assert torch.isclose(rank_loss(P, smoothing=0.3), -(s**2 + 0.09).sqrt().sum())
    assert torch.isclose(rank_loss(P, smoothing=1e-9), -s.sum())


def test_gradient_tends_to_the_polar_factor():
    P = example("generic").requires_grad_()
    rank_loss(P, smoothing=1e-8).backward()
    U, _, Vh = torch.linalg.svd(P.detach(), full_matrices=False)
    torch.testing.assert_close(P.grad, -U @ Vh)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_stay_finite_and_bounded_in_low_precision(dtype):
    for P in (torch.zeros(8, 5), torch.ones(8, 5), torch.eye(8, 5), 1e6 * torch.ones(8, 5)):
        P = P.to(dtype).requires_grad_()
        rank_loss(P).backward()
        assert P.grad.isfinite().all()
        assert P.grad.abs().max() <= 1.01


def test_steps_raise_the_rank():
    P = torch.ones(20, 4) + 0.01 * torch.randn(20, 4, generator=torch.Generator().manual_seed(1))
    P = P.requires_grad_()
    before = torch.linalg.svdvals(P.detach())
    for _ in range(50):
        (gradient,) = torch.autograd.grad(rank_loss(P), P)
        P = (P - 0.05 * gradient).detach().requires_grad_()
    after = torch.linalg.svdvals(P.detach())
    assert after[-1] / after[0] > 5 * before[-1] / before[0]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("shape", [(60, 12), (12, 60)])
def test_on_a_gpu(shape):
    P = example("generic", shape).sigmoid()
    found = []
    for device in ("cpu", "cuda"):
        here = P.detach().to(device).requires_grad_()
        loss = rank_loss(here)
        loss.backward()
        found.append((loss.detach().cpu(), here.grad.cpu()))
    torch.testing.assert_close(found[0], found[1])
