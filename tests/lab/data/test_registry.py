import os

import numpy as np
import pytest

from schirn.datasets import available, load
from schirn.exceptions import DataError


@pytest.fixture
def folders(tmp_path, monkeypatch):
    first, second, cache = (tmp_path / name for name in ("first", "second", "cache"))
    for place, folder in enumerate((first, second, cache), start=1):
        folder.mkdir()
        y = np.eye(place, 2, dtype=np.uint8)
        np.savez(folder / "shared.npz", X=np.ones((place, 1)), Y=y)
        np.savez(folder / f"{folder.name}_only.npz", X=np.ones((place, 1)), Y=y)
    monkeypatch.setenv("SCHIRN_DATA", os.pathsep.join([str(first), "", str(second)]))
    monkeypatch.setenv("SCHIRN_CACHE", str(cache))
    return first, second, cache


def test_order_of_the_folders(folders):
    assert load("shared").n_samples == 1
    assert load("second_only").n_samples == 2
    assert load("cache_only").n_samples == 3


def test_data_home_replaces_the_cache(folders, tmp_path):
    np.savez(tmp_path / "home_only.npz", X=np.ones((4, 1)), Y=np.eye(4, 2, dtype=np.uint8))
    assert load("home_only", data_home=tmp_path).n_samples == 4
    with pytest.raises(DataError):
        load("cache_only", data_home=tmp_path)


def test_available(folders):
    entries = {entry.name: entry for entry in available()}
    assert entries["digits_attributes"].where == "built-in"
    assert entries["shared"].path == folders[0] / "shared.npz"
    assert entries["second_only"].where == "folder"
    assert entries["emoji_keywords"].where == "downloadable"
    assert list(entries) == sorted(entries)


def test_unknown_name_suggests_the_nearest(folders):
    with pytest.raises(DataError, match="did you mean 'second_only'") as caught:
        load("secnd_only")
    assert "digits_attributes" in str(caught.value)
    assert "emoji_keywords" in str(caught.value)
    with pytest.raises(DataError, match=r"schirn\.lab\.data\.fetch\('emoji_keywords'\)"):
        load("emoji_keywords")


def test_missing_folders_are_no_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "neither"))
    assert load("digits_attributes", r=1).n_labels == 10
    assert "digits_attributes" in [entry.name for entry in available()]


def test_paths(tmp_path):
    with pytest.raises(DataError, match="there is no such file"):
        load(tmp_path / "none.npz")
    (tmp_path / "a.xyz").write_text("x")
    with pytest.raises(DataError, match=r"no reader for '\.xyz'; known are \.npz"):
        load(tmp_path / "a.xyz")
    np.savez(tmp_path / "a.npz", X=np.ones((1, 1)), Y=np.ones((1, 1)))
    with pytest.raises(DataError, match="'labels' is not an option of read_npz"):
        load(tmp_path / "a.npz", labels=3)


@pytest.mark.parametrize("name", ["~nobody-at-all/x.npz", "a\0b.npz", "x" * 5000 + ".npz"])
def test_paths_that_no_file_can_have(name):
    with pytest.raises(DataError, match="there is no such file"):
        load(name)
