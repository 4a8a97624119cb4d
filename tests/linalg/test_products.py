"""Products by TF32 units; what the units do to their operands is simulated where none are."""

import numpy as np
import pytest

from schirn.linalg import products

torch = pytest.importorskip("torch", reason="torch is not installed")


def operands(n=200, d=300, l=40):
    rng = np.random.default_rng(0)
    A = torch.asarray(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-3, 3, size=(n, 1)))
    return A.float(), torch.asarray(rng.normal(size=(d, l))).float()


def test_parts_add_up_and_the_high_one_has_ten_bits():
    A, _ = operands()
    high, low = products.tf32_parts(A)
    assert torch.equal(high + low, A)
    assert not torch.any(high.view(torch.int32) & 0x1FFF)
    # Cut, not rounded: one unit of the last of ten bits.
    assert float((low.abs() / A.abs()).max()) <= 2.0**-10


def test_parts_of_a_transposed_matrix_need_no_copy():
    A, _ = operands()
    high, low = products.tf32_parts(A.T)
    assert torch.equal(high + low, A.T)
    assert high.stride() == A.T.stride()


def largest_error(product, A, B):
    """Largest error relative to the lengths of the rows and columns that are multiplied."""
    exact = A.double() @ B.double()
    lengths = A.double().norm(dim=1)[:, None] * B.double().norm(dim=0)
    return float(((product.double() - exact).abs() / lengths).max())


def test_split_product_is_nearly_as_good_as_single_precision():
    A, B = operands()
    assert largest_error(products.split_product(A, B), A, B) <= 5e-7


def test_split_product_on_units_that_cut_its_operands(monkeypatch):
    """What the units see: of each operand its first ten bits."""
    A, B = operands()
    parts = products.tf32_parts

    def cut_parts(X):
        high, low = parts(X)
        return high, parts(low)[0]

    one_product = parts(A)[0] @ parts(B)[0]
    monkeypatch.setattr(products, "tf32_parts", cut_parts)
    assert largest_error(products.split_product(A, B), A, B) <= 2e-6
    assert largest_error(one_product, A, B) > 1e-5


def test_split_product_leaves_the_setting_of_the_user():
    A, B = operands()
    for allowed in (True, False):
        torch.backends.cuda.matmul.allow_tf32 = allowed
        products.split_product(A, B)
        assert torch.backends.cuda.matmul.allow_tf32 is allowed


def test_products_in_main_memory_are_plain_ones():
    A, B = operands()
    assert torch.equal(products.product(A, B), A @ B)
    np.testing.assert_array_equal(products.product(A.numpy(), B.numpy()), A.numpy() @ B.numpy())


@pytest.mark.parametrize("l", [1, 7, 8, 9, 40])
def test_gram_matrix_by_panels(l, monkeypatch):
    """The order of a GPU, in main memory."""
    monkeypatch.setattr(products, "on_gpu", lambda A: True)
    monkeypatch.setattr(products, "_PANEL", 8)
    A = operands(n=l)[0].double()
    gram = products.gram_over_rows(A)
    torch.testing.assert_close(gram, A @ A.T)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_large_products_on_a_gpu():
    rng = torch.Generator("cuda").manual_seed(0)
    A = torch.randn(1000, 1000, generator=rng, device="cuda")
    B = torch.randn(1000, 20_000, generator=rng, device="cuda")
    assert largest_error(products.product(A, B), A, B) <= 2e-6
    assert largest_error(products.gram_over_rows(B), B, B.T) <= 2e-6
