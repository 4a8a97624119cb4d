"""The journal of a review: nothing confirmed is lost, and no damage goes unnoticed."""

import json
import os
import sys
import warnings
from types import SimpleNamespace

import pytest
from app.review.review_helpers import write_project

from schirn.app.review import open_session
from schirn.exceptions import DataError, InputError

ITEMS = [(name, "A text", {"dog": 0.5}) for name in ("a", "b", "c", "d", "e", "x", "new")]


def opened(path, **options):
    """The journal of the project in the same folder."""
    with warnings.catch_warnings():
        # About a repair, which the tests look at.
        warnings.simplefilter("ignore")
        return open_session(path.parent, **options).journal


def keep(name):
    return {"action": "keep", "item": name, "label": "dog"}


@pytest.fixture
def path(tmp_path):
    path = write_project(tmp_path / "project", ITEMS, ["dog"]) / "journal.jsonl"
    with opened(path) as journal:
        for name in "abc":
            journal.append(keep(name))
    return path


def items(path):
    return [record["item"] for record in opened(path, write=False).records]


def test_an_emptied_journal_is_noticed(path):
    path.write_bytes(b"")
    with pytest.raises(DataError, match=r"journal\.jsonl: is empty, so the decisions"):
        open_session(path.parent, write=False)
    with pytest.warns(UserWarning, match="was empty, so any decisions that it held are lost"):
        open_session(path.parent).journal.close()
    path.unlink()
    assert opened(path, write=False).sequence == 0


def test_numbers_and_replay(path):
    with opened(path) as journal:
        assert journal.sequence == 3
        assert journal.append(keep("d")) == 4
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
        with opened(path) as journal:
            assert "incomplete last line" in journal.repaired
            assert journal.append(keep("new")) == 3
        assert items(path) == ["a", "b", "new"]


def test_a_whole_last_record_without_its_line_end_is_kept(path):
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert items(path) == ["a", "b", "c"]
    assert path.read_bytes() == whole[:-1]
    with opened(path) as journal:
        assert "lacks its line end" in journal.repaired
        assert path.read_bytes() == whole
        assert journal.append(keep("d")) == 4
    assert items(path) == ["a", "b", "c", "d"]


def test_an_edit_anywhere_is_an_error(path):
    whole = path.read_bytes()
    name = json.loads(whole.splitlines()[0])["project"].encode()
    for old, new in ((b'"a"', b'"x"'), (b'"c"', b'"x"'), (name, name[::-1])):
        path.write_bytes(whole.replace(old, new))
        with pytest.raises(DataError, match="damaged or edited"):
            opened(path)
        assert path.read_bytes() == whole.replace(old, new)


def test_line_ends_of_windows_are_no_edit(path):
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    with opened(path) as journal:
        journal.append(keep("d"))
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
    with opened(path) as journal:
        journal.append(keep("d"))
        change(path)
        after = path.read_bytes() if path.exists() else None
        for _ in range(2):
            with pytest.raises(DataError, match="replaced, changed or deleted") as error:
                journal.append(keep("e"))
        assert journal.sequence == 4
        assert (path.read_bytes() if path.exists() else None) == after
        # Nobody else may start meanwhile.
        with pytest.raises(InputError, match="already open"):
            opened(path)
    rescued = list(path.parent.glob("journal-rescued-*.jsonl"))
    assert len(rescued) == 1
    assert str(rescued[0]) in str(error.value)
    records = map(json.loads, rescued[0].read_text().splitlines())
    assert [record.get("item") for record in records] == [None, "a", "b", "c", "d"]


def test_a_file_replaced_during_the_write_is_not_confirmed(path, monkeypatch):
    real = os.fsync
    with opened(path) as journal:

        def fsync(file):
            real(file)
            replace_by_copy(path)

        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(DataError, match="replaced, changed or deleted"):
            journal.append(keep("d"))
        assert journal.sequence == 3


def test_a_last_line_of_zeros_is_torn(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b"\0" * 40 + b"\n")
    opened(path).close()
    assert path.read_bytes() == whole


def test_a_last_line_of_anything_is_torn(path):
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"seq": 2\r\x85\xff')
    opened(path).close()
    assert path.read_bytes() == whole


def test_a_torn_head_starts_anew(path):
    path.write_bytes(path.read_bytes()[:10])
    with opened(path) as journal:
        assert journal.append(keep("x")) == 1


def test_damage_in_the_middle_is_an_error_and_nothing_changes(path):
    lines = path.read_bytes().splitlines(keepends=True)
    for bad in (b"{}\n", b"no\n", b'{"seq": 9}\n'):
        path.write_bytes(lines[0] + bad + lines[2])
        with pytest.raises(DataError, match="line 2: damaged"):
            opened(path)
        assert path.read_bytes() == lines[0] + bad + lines[2]


def test_another_project_and_another_format(path):
    write_project(path.parent, ITEMS[:-1], ["dog"])
    with pytest.raises(DataError, match="other items or tags"):
        opened(path)
    path.write_text('{"seq": 0, "format": "diary"}\n{"seq": 1}\n')
    with pytest.raises(DataError, match="line 1: damaged or edited"):
        opened(path)


def test_only_one_writer(path):
    pytest.importorskip("fcntl")
    with opened(path):
        with pytest.raises(InputError, match="already open"):
            opened(path)
        assert items(path) == ["a", "b", "c"]
    opened(path).close()


def test_reading_makes_no_file(path):
    path.unlink()
    before = sorted(path.parent.iterdir())
    assert opened(path, write=False).records == []
    assert sorted(path.parent.iterdir()) == before


def test_each_line_is_synced_before_it_counts(path, monkeypatch):
    synced = []
    real = os.fsync
    with opened(path) as journal:

        def fsync(file):
            synced.append((path.read_bytes().count(b"\n"), journal.sequence))
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)
        journal.append(keep("d"))
    assert synced == [(5, 3)]


def test_a_full_disk_leaves_the_file_as_it_was(path, monkeypatch):
    before = path.read_bytes()
    with opened(path) as journal:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", lambda file: (_ for _ in ()).throw(OSError(28, "full")))
            with pytest.raises(OSError, match="full"):
                journal.append(keep("d"))
        assert path.read_bytes() == before
        assert journal.append(keep("e")) == 4
    assert items(path) == ["a", "b", "c", "e"]


def test_a_closed_journal_takes_nothing(path):
    before = path.read_bytes()
    journal = opened(path)
    journal.close()
    with pytest.raises(InputError, match="the journal is closed"):
        journal.append(keep("d"))
    assert journal.sequence == 3
    assert path.read_bytes() == before


def no_locks(*anything):
    raise OSError(38, "Function not implemented")


@pytest.mark.parametrize("fcntl", [None, SimpleNamespace(flock=no_locks, LOCK_EX=2, LOCK_NB=4)])
def test_without_locks_the_second_writer_is_refused_when_it_writes(path, monkeypatch, fcntl):
    monkeypatch.setitem(sys.modules, "fcntl", fcntl)
    with opened(path) as journal, opened(path) as second:
        assert journal.append(keep("d")) == 4
        with pytest.raises(DataError, match="another program replaced, changed or deleted"):
            second.append(keep("x"))
    with opened(path) as journal:
        assert journal.append(keep("e")) == 5
    assert items(path) == ["a", "b", "c", "d", "e"]
