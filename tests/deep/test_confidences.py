"""The table of confidences: reading, writing, precision, and files far larger than memory."""

import copy
import pickle

import numpy as np
import pytest

from schirn.exceptions import InputError

torch = pytest.importorskip("torch", reason="PyTorch (the extra deep) is not installed")

from schirn.deep import Confidences  # noqa: E402


@pytest.fixture(params=["float32", "float16", "file"])
def table(request, tmp_path):
    if request.param == "file":
        return Confidences(20, 3, dtype="float16", path=tmp_path / "rows.npy")
    return Confidences(20, 3, dtype=request.param)


def test_rows_never_written_read_as_their_candidates(table):
    rows, candidates = torch.tensor([3, 7, 3]), torch.tensor([[1, 0, 1], [0, 0, 1], [1, 0, 1]])
    torch.testing.assert_close(table.read(rows, candidates), candidates.float())


def test_rows_read_back_what_was_written(table):
    values = torch.tensor([[0.25, 0.0, 1.0], [0.125, 0.5, 0.0]])
    table.write(torch.tensor([11, 2]), values)
    found = table.read(torch.tensor([2, 11, 5]), torch.ones(3, 3))
    torch.testing.assert_close(found, torch.stack([values[1], values[0], torch.ones(3)]))
    assert found.dtype == torch.float32


def test_half_precision_keeps_three_digits():
    table = Confidences(1000, 1, dtype="float16")
    values = torch.rand(1000, 1, generator=torch.Generator().manual_seed(0))
    rows = torch.arange(1000)
    table.write(rows, values)
    assert (table.read(rows, torch.zeros(1000, 1)) - values).abs().max() < 5e-4


def test_ten_million_rows_on_disk_take_room_only_where_written(tmp_path):
    path = tmp_path / "large.npy"
    table = Confidences(10_000_000, 100, dtype="float16", path=path)
    rows = torch.tensor([0, 1_234_567, 9_999_999])
    values = torch.rand(3, 100, generator=torch.Generator().manual_seed(0))
    table.write(rows, values)
    table.flush()
    found = table.read(rows, torch.zeros(3, 100))
    torch.testing.assert_close(found, values, atol=5e-4, rtol=0)
    assert path.stat().st_size > 2e9
    assert path.stat().st_blocks * 512 < 10e6
    mapped = np.load(path, mmap_mode="r")
    assert mapped.shape == (10_000_000, 100)
    assert mapped[1_234_567].any()
    assert not mapped[1_234_568].any()


def test_a_file_is_opened_again(tmp_path):
    path = tmp_path / "rows.npy"
    first = Confidences(5, 2, path=path)
    first.write(torch.arange(5), torch.full((5, 2), 0.5))
    first.flush()
    again = Confidences.reopen(path)
    assert (again.read(torch.arange(5), torch.ones(5, 2)) == 0.5).all()
    again.write(torch.tensor([1]), torch.zeros(1, 2))
    again.flush()
    assert np.load(path)[1].tolist() == [0, 0]


def test_state_goes_to_another_table():
    first, second = Confidences(4, 2), Confidences(4, 2)
    first.write(torch.tensor([2]), torch.tensor([[0.5, 0.25]]))
    second.restore(first.state())
    read = second.read(torch.arange(4), torch.ones(4, 2))
    assert read.tolist() == [[1, 1], [1, 1], [0.5, 0.25], [1, 1]]
    with pytest.raises(InputError, match="have 4 rows"):
        Confidences(5, 2).restore(first.state())


def test_the_state_of_a_file_is_which_rows_are_written(tmp_path):
    """The table lies on the disk already, and may be far larger than a checkpoint."""
    path = tmp_path / "rows.npy"
    first = Confidences(4, 2, path=path)
    first.write(torch.tensor([2]), torch.tensor([[0.5, 0.25]]))
    state = first.state()
    assert list(state) == ["written"]
    assert np.load(path)[2].tolist() == [0.5, 0.25]
    again = Confidences.reopen(path)
    again.restore(state)
    read = again.read(torch.arange(4), torch.ones(4, 2))
    assert read.tolist() == [[1, 1], [1, 1], [0.5, 0.25], [1, 1]]


def test_after_a_break_nothing_is_lost_or_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("schirn.deep.confidences._ROWS_AT_ONCE", 3)
    path = tmp_path / "rows.npy"
    first = Confidences(8, 2, path=path)
    first.write(torch.tensor([2, 7]), torch.tensor([[0.5, 0.25], [0.0, 1.0]]))
    state = first.state()
    with pytest.raises(InputError, match=r"rows\.npy: the file already exists; .*reopen"):
        Confidences(8, 2, path=path)
    again = Confidences.reopen(path)
    assert again.written.nonzero().ravel().tolist() == [2, 7]
    read = again.read(torch.arange(8), torch.ones(8, 2))
    assert read[2].tolist() == [0.5, 0.25]
    assert (read[:2] == 1).all()
    new = Confidences(8, 2, path=tmp_path / "new.npy")
    with pytest.raises(InputError, match="this table is a new one; open that file with"):
        new.restore(state)
    first.restore(state)
    assert first.written.sum() == 2


def test_no_rows_are_read_as_none(table):
    none = torch.zeros(0, dtype=torch.int64)
    assert table.read(none, torch.ones(0, 3)).shape == (0, 3)
    table.write(none, torch.ones(0, 3))
    assert not table.written.any()


@pytest.mark.parametrize("row", [-1, 20])
def test_a_row_outside_of_the_table_is_named(table, row):
    with pytest.raises(InputError, match=f"row index {row} "):
        table.read(torch.tensor([0, row]), torch.ones(2, 3))


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(InputError, match="float64"):
        Confidences(3, 2, dtype="float64")
    with pytest.raises(InputError, match="must be integers"):
        Confidences(3, 2).read(torch.tensor([0.5]), torch.ones(1, 2))
    with pytest.raises(InputError, match="cannot be on"):
        Confidences(3, 2, path=tmp_path / "x.npy", device="cuda")


def test_write_returns_what_the_table_keeps(table):
    values = torch.rand(4, 3, generator=torch.Generator().manual_seed(0))
    rows = torch.tensor([5, 1, 9, 0])
    kept = table.write(rows, values)
    assert kept.dtype == torch.float32
    assert torch.equal(kept, table.read(rows, torch.zeros(4, 3)))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("numbers_on", ["cpu", "cuda"])
def test_rows_on_their_way_from_a_gpu_arrive(table, numbers_on):
    expected = torch.zeros(20, 3)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        rows = torch.randperm(20, generator=generator)[:7]
        values = torch.rand(7, 3, generator=generator)
        expected[rows] = table.write(rows.to(numbers_on), values.cuda()).cpu()
        some = torch.randperm(20, generator=generator)[:5]
        found = table.read(some.to(numbers_on), torch.zeros(5, 3, device="cuda"))
        assert found.is_cuda
        assert torch.equal(found.cpu(), expected[some])
    table.write(rows, torch.ones(7, 3, device="cuda"))
    copied = copy.deepcopy(table) if table.path is None else table
    assert (copied.table[rows] == 1).all()
    table.write(rows, torch.zeros(7, 3, device="cuda"))
    assert (table.state().get("table", table.table)[rows] == 0).all()
    assert table.written.all()


def test_a_copy_of_a_table_on_disk_writes_to_the_same_file(tmp_path):
    path = tmp_path / "rows.npy"
    first = Confidences(4, 2, path=path)
    first.write(torch.tensor([1]), torch.tensor([[0.5, 0.25]]))
    for copied in (copy.deepcopy(first), pickle.loads(pickle.dumps(first))):
        assert copied.table[1].tolist() == [0.5, 0.25]
        copied.write(torch.tensor([3]), torch.ones(1, 2))
        copied.flush()
        assert Confidences.reopen(path).written.tolist() == [False, True, False, True]
