import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
gpu = pytest.importorskip("benchmarks.gpu", reason="the benchmarks are not installed")


def operands(n=200, d=300, l=40):
    rng = np.random.default_rng(0)
    A = torch.asarray(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1)))
    return A.float(), torch.asarray(rng.normal(size=(d, l))).float()


def test_parts_add_up_and_the_high_one_has_ten_bits():
    A, _ = operands()
    high, low = gpu.tf32_parts(A)
    assert torch.equal(high + low, A)
    assert not torch.any(high.view(torch.int32) & 0x1FFF)
    # Rounding to nearest: half a unit of the last of ten bits.
    assert float((low.abs() / A.abs()).max()) <= 2.0**-11


def largest_error(product, A, B):
    """Largest error relative to the lengths of the rows and columns that are multiplied."""
    exact = A.double() @ B.double()
    lengths = A.double().norm(dim=1)[:, None] * B.double().norm(dim=0)
    return float(((product.double() - exact).abs() / lengths).max())


def test_split_product_is_nearly_as_good_as_single_precision():
    A, B = operands()
    assert largest_error(gpu.split_product(A, B), A, B) <= 5e-7


def test_split_product_on_units_that_round_its_operands(monkeypatch):
    """What the units see: of each operand its first ten bits."""
    A, B = operands()
    parts = gpu.tf32_parts

    def rounded_parts(X):
        high, low = parts(X)
        return high, parts(low)[0]

    one_product = parts(A)[0] @ parts(B)[0]
    monkeypatch.setattr(gpu, "tf32_parts", rounded_parts)
    assert largest_error(gpu.split_product(A, B), A, B) <= 1e-6
    assert largest_error(one_product, A, B) > 1e-5
