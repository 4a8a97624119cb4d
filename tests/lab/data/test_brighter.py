"""Emotions tagged by several people, from files of a public repository."""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

from schirn.exceptions import DataError
from schirn.lab.data import _brighter, fetch

# Invented texts in the two layouts of the repository.
RON = """text,emotion,annotator_1,annotator_2,annotator_5
"o zi, buna",frica,0,,2
"o zi, buna",bucurie,3,,0
 o zi rea,frica,0,0,
 o zi rea,bucurie,0,1,
""".replace("\n", "\r\n")
UKR = """text_id,text,emotion,Annotator-1,Annotator-2
0,один так,Fear,0.0,1.0
0,один так,Joy,2.0,0.0
4,один ні,Fear,0.0,0.0
4,один ні,Joy,0.0,0.0
"""


def lists(arrays):
    return {name: array.tolist() for name, array in arrays.items()}


@pytest.fixture
def source(monkeypatch, tmp_path):
    """Answers of the repository, and the checksum that is expected of them."""
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)

    def answer(name, text, expected):
        file = _brighter.BRIGHTER_SETS[name]
        sha256 = hashlib.sha256(json.dumps(expected, sort_keys=True).encode()).hexdigest()
        monkeypatch.setitem(_brighter.BRIGHTER_SETS, name, file._replace(sha256=sha256))
        monkeypatch.setattr(
            "schirn.lab.data._fetch._chunks",
            lambda url, *limits: iter([text.encode()] if url == file.url else []),
        )

    return answer


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "brighter_ron",
            RON,
            {
                "texts": ["o zi, buna", "o zi rea"],
                "label_names": ["bucurie", "frica"],
                "asked": [[0, 0], [0, 2], [1, 0], [1, 1]],
                "votes": [[0, 0, 0], [0, 2, 1], [1, 1, 0]],
            },
        ),
        (
            "brighter_ukr",
            UKR,
            {
                "texts": ["один так", "один ні"],
                "label_names": ["fear", "joy"],
                "asked": [[0, 0], [0, 1], [1, 0], [1, 1]],
                "votes": [[0, 0, 1], [0, 1, 0]],
            },
        ),
    ],
)
def test_intensities_above_zero_are_votes(source, tmp_path, name, text, expected):
    source(name, text, expected)
    data = fetch(name, workers=1)
    assert json.loads((tmp_path / f"{name}.npz.json").read_text())["options"] == {"workers": 2}
    assert (data.n_samples, data.label_names) == (2, expected["label_names"])
    with np.load(tmp_path / f"{name}.npz") as arrays:
        assert lists(arrays) == expected


def test_other_content_is_not_kept(source, tmp_path):
    source("brighter_ron", RON.replace("3", "0"), {})
    with pytest.raises(DataError, match=r"SHA-256 checksum [0-9a-f]{64}, expected .*nothing was"):
        fetch("brighter_ron")
    source("brighter_ron", "<html>", {})
    with pytest.raises(DataError, match="not a file of individual labels"):
        fetch("brighter_ron")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", list(_brighter.BRIGHTER_SETS))
def test_checksums_are_those_of_the_files_of_the_suite(name):
    path = Path(os.environ.get("SCHIRN_DATA", "nowhere"), f"{name}.npz")
    if not path.is_file():
        pytest.skip("needs the data set in SCHIRN_DATA")
    with np.load(path) as arrays:
        content = json.dumps(lists(arrays), sort_keys=True).encode()
    assert hashlib.sha256(content).hexdigest() == _brighter.BRIGHTER_SETS[name].sha256
