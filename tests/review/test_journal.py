import json
import os
import sys
from types import SimpleNamespace

import pytest

from schirn.exceptions import DataError, InputError
from schirn.review._journal import Journal


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "journal.jsonl"
    with Journal(path, "mine") as journal:
        for name in "abc":
            journal.append({"item": name})
    return path


def items(path):
    return [record["item"] for record in Journal(path, "mine", write=False).records]


def test_numbers_and_replay(path):
    with Journal(path, "mine") as journal:
        assert journal.sequence == 3
        assert journal.append({"item": "d"}) == 4
        assert not journal.repaired
    assert items(path) == ["a", "b", "c", "d"]
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [0, 1, 2, 3, 4]


def test_a_line_torn_anywhere_is_ignored_and_repaired(path):
    whole = path.read_bytes()
    start = whole[:-1].rindex(b"\n") + 1
    for cut in range(start + 1, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert items(path) == ["a", "b"]
        assert path.read_bytes() == whole[:cut]
        with Journal(path, "mine") as journal:
            assert "incomplete last line" in journal.repaired
            assert journal.append({"item": "new"}) == 3
        assert items(path) == ["a", "b", "new"]


def test_a_whole_last_record_without_its_line_end_is_kept(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert items(path) == ["a", "b", "c"]
    assert path.read_bytes() == whole[:-1]
    with Journal(path, "mine") as journal:
        assert "lacks its line end" in journal.repaired
        assert path.read_bytes() == whole
        assert journal.append({"item": "d"}) == 4
    assert items(path) == ["a", "b", "c", "d"]


def test_an_edit_anywhere_is_an_error(path):
    whole = path.read_bytes()
    for old, new in ((b'"a"', b'"x"'), (b'"c"', b'"x"'), (b'"mine"', b'"mime"')):
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(DataError, match="damaged or edited"):
            Journal(path, "mine")
        assert path.read_bytes() == whole.replace(old, new)


def test_line_ends_of_windows_are_no_edit(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with Journal(path, "mine") as journal:
        journal.append({"item": "d"})
    assert items(path) == ["a", "b", "c", "d"]


def replace_by_copy(path):
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


def delete(path):
    path.unlink()


def restore_older(path):
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:2]))


def add_a_line(path):
    with path.open("ab") as stream:
        stream.write(b"{}\n")


@pytest.mark.skipif(os.name != "posix", reason="Windows does not let go of an open file")
@pytest.mark.parametrize("change", [replace_by_copy, delete, restore_older, add_a_line])
def test_a_changed_file_takes_nothing_and_nothing_is_lost(path, change):
    with Journal(path, "mine") as journal:
        journal.append({"item": "d"})
        change(path)
        after = path.read_bytes() if path.exists() else None
        for _ in range(2):
            with pytest.raises(DataError, match="replaced, changed or deleted") as error:
                journal.append({"item": "e"})
        assert journal.sequence == 4
        assert (path.read_bytes() if path.exists() else None) == after
        # Nobody else may start meanwhile.
        with pytest.raises(InputError, match="already open"):
            Journal(path, "mine")
    rescued = list(path.parent.glob("journal-rescued-*.jsonl"))
    assert len(rescued) == 1
    assert str(rescued[0]) in str(error.value)
    assert items(rescued[0]) == ["a", "b", "c", "d"]


def test_a_file_replaced_during_the_write_is_not_confirmed(path, monkeypatch):
    real = os.fsync
    with Journal(path, "mine") as journal:

        def fsync(file):
            real(file)
            replace_by_copy(path)

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(DataError, match="replaced, changed or deleted"):
            journal.append({"item": "d"})
        assert journal.sequence == 3


def test_a_last_line_of_zeros_is_torn(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b"\n")
    Journal(path, "mine").close()
    assert path.read_bytes() == whole


def test_a_last_line_of_anything_is_torn(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq": 2\r\x85\xff')
    Journal(path, "mine").close()
    assert path.read_bytes() == whole


def test_a_torn_head_starts_anew(path):
    path.write_bytes(path.read_bytes()[:10])
    with Journal(path, "mine") as journal:
        assert journal.append({"item": "x"}) == 1


def test_damage_in_the_middle_is_an_error_and_nothing_changes(path):
    lines = path.read_bytes().splitlines(keepends=True)
    for bad in (b"{}\n", b"no\n", b'{"seq": 9}\n'):
        path.write_bytes(lines[0] + bad + lines[2])
        with pytest.raises(DataError, match="line 2: damaged"):
            Journal(path, "mine")
        assert path.read_bytes() == lines[0] + bad + lines[2]


def test_another_project_and_another_format(path):
    with pytest.raises(DataError, match="other items or tags"):
        Journal(path, "yours")
    path.write_text('{"seq": 0, "format": "diary"}\n{"seq": 1}\n')
    with pytest.raises(DataError, match="line 1: damaged or edited"):
        Journal(path, "mine")


def test_only_one_writer(path):
    pytest.importorskip("fcntl")
    with Journal(path, "mine"):
        with pytest.raises(InputError, match="already open"):
            Journal(path, "mine")
        assert items(path) == ["a", "b", "c"]
    Journal(path, "mine").close()


def test_reading_makes_no_file(tmp_path):
    assert Journal(tmp_path / "none.jsonl", "mine", write=False).records == []
    assert list(tmp_path.iterdir()) == []


def test_each_line_is_synced_before_it_counts(path, monkeypatch):
    synced = []
    real = os.fsync
    with Journal(path, "mine") as journal:

        def fsync(file):
            synced.append((path.read_bytes().count(b"\n"), journal.sequence))
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)
        journal.append({"item": "d"})
    assert synced == [(5, 3)]


def test_a_full_disk_leaves_the_file_as_it_was(path, monkeypatch):
    before = path.read_bytes()
    with Journal(path, "mine") as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "full")))
            with pytest.raises(OSError, match="full"):
                journal.append({"item": "d"})
        assert path.read_bytes() == before
        assert journal.append({"item": "e"}) == 4
    assert items(path) == ["a", "b", "c", "e"]


def test_a_closed_journal_takes_nothing(path):
    before = path.read_bytes()
    journal = Journal(path, "mine")
    journal.close()
    with pytest.raises(InputError, match="the journal is closed"):
        journal.append({"item": "d"})
    assert journal.sequence == 3
    assert path.read_bytes() == before


def no_locks(*anything):
    raise OSError(38, "Function not implemented")


@pytest.mark.parametrize("fcntl", [None, SimpleNamespace(flock=no_locks, LOCK_EX=2, LOCK_NB=4)])
def test_without_locks_the_second_writer_is_refused_when_it_writes(path, monkeypatch, fcntl):
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    with Journal(path, "mine") as journal, Journal(path, "mine") as second:
        assert journal.append({"item": "d"}) == 4
        with pytest.raises(DataError, match="another program replaced, changed or deleted"):
            second.append({"item": "x"})
    with Journal(path, "mine") as journal:
        assert journal.append({"item": "e"}) == 5
    assert items(path) == ["a", "b", "c", "d", "e"]
