"""The table of confidences: reading, writing and precision."""

import copy

import pytest

from schirn.exceptions import InputError

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep import Confidences  # noqa: E402


@pytest.fixture(params=["float32", "float16"])
def table(request):
    return Confidences(20, 3, dtype=request.param)


def test_rows_never_written_read_as_their_candidates(table):
    rows, candidates = torch.tensor([3, 7, 3]), torch.tensor([[1, 0, 1], [0, 0, 1], [1, 0, 1]])
    torch.testing.assert_close(table.read(rows, candidates), candidates.float())


def test_rows_read_back_what_was_written(table):
    values = torch.tensor([[0.25, 0.0, 1.0], [0.125, 0.5, 0.0]])
    table.write(torch.tensor([11, 2]), values)
    read = table.read(torch.tensor([2, 11, 5]), torch.ones(3, 3))
    torch.testing.assert_close(read, torch.stack([values[1], values[0], torch.ones(3)]))
    assert read.dtype == torch.float32


def test_half_precision_keeps_three_digits():
    table = Confidences(1000, 1, dtype="float16")
    values = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(1000)
    table.write(rows, values)
    assert (table.read(rows, torch.zeros(1000, 1)) - values).abs().max() < 5e-4


def test_state_goes_to_another_table():
    first, second = Confidences(4, 2), Confidences(4, 2)
    first.write(torch.tensor([2]), torch.tensor([[0.5, 0.25]]))
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    read = second.read(torch.arange(4), torch.ones(4, 2))
    assert read.tolist() == [[1, 1], [1, 1], [0.5, 0.25], [1, 1]]
    with pytest.raises(RuntimeError, match=r"size mismatch for table"):
        Confidences(5, 2).load_state_dict(first.state_dict())


def test_no_rows_are_read_as_none(table):
    none = torch.zeros(0, dtype=torch.int64)
    assert table.read(none, torch.ones(0, 3)).shape == (0, 3)
    table.write(none, torch.ones(0, 3))
    assert not table.written.any()


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_outside_of_the_table_is_named(table, row):
    with pytest.raises(InputError, match=f"row index {row} "):
        table.read(torch.tensor([0, row]), torch.ones(2, 3))


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="float64"):
        Confidences(3, 2, dtype="float64")
    with pytest.raises(InputError, match="must be integers"):
        Confidences(3, 2).read(torch.tensor([0.5]), torch.ones(1, 2))


def test_write_returns_what_the_table_keeps(table):
    values = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([5, 1, 9, 0])
    stored = table.write(rows, values)
    assert stored.dtype == torch.float32
    assert torch.equal(stored, table.read(rows, torch.zeros(4, 3)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("rows_on", ["cpu", "cuda"])
def test_a_table_moves_to_a_gpu(table, rows_on):
    table = table.cuda()
    rows, values = torch.tensor([3, 1], device=rows_on), torch.rand(2, 3, device="cuda")
    stored = table.write(rows, values)
    assert stored.is_cuda
    assert torch.equal(table.read(rows, torch.zeros(2, 3, device="cuda")), stored)
