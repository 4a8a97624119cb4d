"""The six sets with real candidates, on archives of the same layout as those of their authors."""

import io
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from schirn.exceptions import DataError
from schirn.lab.data import _fetch as fetching
from schirn.lab.data import available, fetch
from schirn.lab.data._palm import PALM_SETS, palm_matrices

X = np.arange(20.0).reshape(5, 4)
TRUTH = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [1, 0, 1]], dtype=float)
CANDIDATES = np.maximum(TRUTH, np.eye(5, 3))


def matlab(candidates="candidate_labels"):
    """The content of a file with one label in each row of the label matrices."""
    stream = io.BytesIO()
    savemat(stream, {"data": X, "target": TRUTH.T, candidates: CANDIDATES.T})
    return stream.getvalue()


def packed(**files):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name.replace("__", "/") + ".mat", content)
        archive.writestr("readme.txt", "about these data")
    return stream.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Answers by address; the addresses that were asked for."""
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    answers, asked = {}, []

    def chunks(url, max_bytes, timeout):
        asked.append(url)
        content = answers[url]
        return iter([content[:100], content[100:]])

    monkeypatch.setattr(fetching, "_chunks", chunks)
    return answers, asked


@pytest.mark.parametrize("candidates", ["candidate_labels", "partial_labels"])
@pytest.mark.parametrize("name", PALM_SETS)
def test_a_set_is_downloaded_once_from_its_address(name, candidates, server):
    answers, asked = server
    answers[PALM_SETS[name]] = packed(folder__data=matlab(candidates))
    for _ in range(2):
        data = fetch(name)
        assert data.name == name
        np.testing.assert_array_equal(data.X, X)
        np.testing.assert_array_equal(data.y_true, TRUTH)
        np.testing.assert_array_equal(data.candidates, CANDIDATES)
    assert asked == [PALM_SETS[name]]
    assert {entry.name: entry.where for entry in available()}[name] == "folder"


def test_the_addresses_are_those_of_the_authors():
    assert len(PALM_SETS) == 6
    folder = "https://palm.seu.edu.cn/zhangml/files/pml_"
    assert all(url.startswith(folder) and url.endswith(".zip") for url in PALM_SETS.values())
    assert PALM_SETS["yeastbp"].endswith("pml_YeastBP.zip")
    listed = {entry.name: entry.where for entry in available()}
    assert listed["mirflickr"] in ("downloadable", "folder")


def test_a_changed_file_in_the_cache_is_noticed(server, tmp_path):
    answers, _ = server
    answers[PALM_SETS["mirflickr"]] = packed(data=matlab())
    fetch("mirflickr")
    (path,) = (tmp_path / "cache").rglob("mirflickr.mat")
    path.write_bytes(matlab("partial_labels"))
    with pytest.raises(DataError, match="has changed since it was downloaded"):
        fetch("mirflickr")


def test_a_web_page_in_place_of_the_archive_is_not_kept(server, tmp_path):
    answers, _ = server
    answers[PALM_SETS["mirflickr"]] = b"<html>please log in</html>"
    with pytest.raises(DataError, match="the answer is a web page"):
        fetch("mirflickr")
    assert not list(tmp_path.rglob("mirflickr*"))


def test_of_several_files_the_one_of_the_set_is_taken():
    archive = packed(YeastBP=matlab(), other=b"x", **{"__MACOSX__._YeastBP": b"x"})
    assert palm_matrices("yeastbp", archive, 10**6) == matlab()
    assert palm_matrices("yeastmf", packed(a=matlab(), **{"._a": b"x"}), 10**6) == matlab()


@pytest.mark.parametrize(
    ("archive", "words"),
    [
        (packed(a=b"x", b=b"y"), "the archive holds a.mat, b.mat, readme.txt, not one MATLAB"),
        (packed(), "the archive holds readme.txt, not one MATLAB file"),
        (b"PK no archive", "the archive cannot be unpacked"),
        (packed(a=bytes(10**6)), "a.mat unpacks to 1,000,000 bytes"),
    ],
)
def test_other_archives_get_one_sentence(archive, words):
    with pytest.raises(DataError, match=f"^mirflickr: {words}"):
        palm_matrices("mirflickr", archive, 100_000)


def test_a_size_that_the_header_understates_is_noticed():
    archive = bytearray(packed(a=bytes(10**6)))
    entry = archive.rindex(b"PK\x01\x02", 0, archive.rindex(b"readme.txt") - 40)
    archive[entry + 24 : entry + 28] = (10).to_bytes(4, "little")
    with pytest.raises(DataError, match=r"^mirflickr: (the archive|a\.mat unpacks)"):
        palm_matrices("mirflickr", bytes(archive), 100_000)
