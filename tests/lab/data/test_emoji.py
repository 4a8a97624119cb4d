import hashlib
import io
import json
import sys
import tarfile

import numpy as np
import pytest

from schirn.app.cli import main
from schirn.datasets import available, load
from schirn.exceptions import DataError
from schirn.lab import bench
from schirn.lab.data import _emoji as emoji
from schirn.lab.data import data_card, fetch

ANIMALS = [chr(0x1F400 + k) for k in range(12)]
FOODS = [chr(0x1F347 + k) for k in range(12)]
# One picture of each kind that nobody annotates with a frequent keyword.
ODD = chr(0x1F5FF)

NPM = """#!{python}
import os, shutil, sys
name, version = sys.argv[2].split("@")
file = f"{{name}}-{{version}}.tgz"
with open(os.environ["NPM_LOG"], "a") as log:
    log.write(file + "\\n")
source = os.path.join(os.environ["NPM_PACKAGES"], file)
if not os.path.exists(source):
    sys.exit("npm warn old\\nnpm error code E404")
shutil.copy(source, sys.argv[sys.argv.index("--pack-destination") + 1])
"""


def annotations(keywords, language):
    names = {c: f"{language}animal {language}{k % 3}" for k, c in enumerate(ANIMALS)}
    names |= {c: f"{language}food {language}{k % 3}" for k, c in enumerate(FOODS)}
    names[ODD] = f"{language}stone"
    entries = {c: {"default": keywords[c], "tts": [names[c]]} for c in names}
    return {"annotations": {"annotations": entries}}


def before():
    # The editors overlooked one animal, and took one food for an animal.
    words = {c: ["Animal", "nature"] for c in ANIMALS} | {c: ["food"] for c in FOODS}
    return words | {ANIMALS[0]: ["nature"], FOODS[0]: ["animal"], ODD: ["stone"]}


def after():
    return {c: ["animal"] for c in ANIMALS} | {c: ["food"] for c in FOODS} | {ODD: ["stone"]}


def community():
    words = {c: ["animal"] for c in ANIMALS} | {c: ["the_food", "food", "animal"] for c in FOODS}
    # With the mark of a colourful picture, which the others leave out.
    return {f"{c}\ufe0f": words.get(c, ["stone"]) for c in (*ANIMALS, *FOODS, ODD)}


def tarball(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            raw = json.dumps(content).encode()
            member = tarfile.TarInfo(f"package/{name}")
            member.size = len(raw)
            archive.addfile(member, io.BytesIO(raw))


def cldr(keywords, languages):
    return {
        f"annotations/{code}/annotations.json": annotations(keywords, code) for code in languages
    }


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry with small packages, and an npm that copies files from it."""
    folder, programs = tmp_path / "registry", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    contents = {
        "BEFORE": cldr(before(), emoji.LANGUAGES),
        "AFTER": cldr(after(), ("en", "de")),
        "COMMUNITY": {"dist/emoji-en-US.json": community()},
    }
    small = {}
    for name, files in contents.items():
        package = getattr(emoji, name)
        tarball(folder / package.file, files)
        sha256 = hashlib.sha256((folder / package.file).read_bytes()).hexdigest()
        small[package] = package._replace(sha256=sha256)
        monkeypatch.setattr(emoji, name, small[package])
    sets = {name: tuple(small[p] for p in packages) for name, packages in emoji.EMOJI_SETS.items()}
    monkeypatch.setattr(emoji, "EMOJI_SETS", sets)
    (programs / "npm").write_text(NPM.format(python=sys.executable))
    (programs / "npm").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("NPM_PACKAGES", str(folder))
    monkeypatch.setenv("NPM_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    return folder


def test_earlier_edition_against_the_later_one(registry):
    data = fetch("emoji_editions")
    assert data.label_names == ["animal", "food"]
    # "nature" is no label, since the later edition does not use it, nor is "stone", which is rare.
    assert data.n_samples == 23
    # The first row is the food that was taken for an animal.
    assert np.argwhere(data.candidates > data.y_true).tolist() == [[0, 0]]
    assert np.argwhere(data.candidates < data.y_true).tolist() == [[0, 1]]
    assert "2 without a candidate are left out" in data.description
    assert "a later edition is not the truth" in data.description
    assert "MIT" not in data.description


def test_any_list_makes_a_candidate(registry):
    data = fetch("emoji_keywords")
    assert data.n_samples == 24
    assert data.candidates.sum(axis=0).tolist() == [24, 12]
    assert data.y_true.sum(axis=0).tolist() == [12, 12]
    assert data_card(data)["noise_rate"] == pytest.approx(12 / 36)
    assert "MIT (emojilib@4.0.3)" in data.description


def test_features_are_names_and_no_keyword(registry):
    data = fetch("emoji_editions")
    # Three words and the kind, in every language; "stone" occurs once.
    assert data.n_features == len(emoji.LANGUAGES) * 5
    np.testing.assert_allclose(np.linalg.norm(data.X.toarray(), axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(data.X.data, np.round(data.X.data, 6))


def test_packages_are_downloaded_once(registry, tmp_path):
    fetch("emoji_editions")
    first = load("emoji_editions")
    fetch("emoji_keywords")
    fetch("emoji_keywords", force=True)
    assert (tmp_path / "log").read_text().split() == [
        emoji.BEFORE.file,
        emoji.AFTER.file,
        emoji.COMMUNITY.file,
    ]
    np.testing.assert_array_equal(first.X.toarray(), fetch("emoji_editions").X.toarray())
    assert sorted(path.name for path in (tmp_path / "cache" / "packages").iterdir()) == sorted(
        package.file for package in (emoji.BEFORE, emoji.AFTER, emoji.COMMUNITY)
    )


def test_another_package_is_refused(registry, tmp_path):
    tarball(registry / emoji.AFTER.file, cldr(before(), ("en",)))
    with pytest.raises(DataError, match=r"48\.2\.0: the SHA-256 checksum is .*, expected"):
        fetch("emoji_editions")
    assert not (tmp_path / "cache" / emoji.AFTER.file).exists()
    assert not (tmp_path / "cache" / "emoji_editions.npz").exists()


def test_damaged_package_in_the_cache_is_downloaded_again(registry, tmp_path):
    fetch("emoji_editions")
    (tmp_path / "cache" / "packages" / emoji.AFTER.file).write_bytes(b"half")
    assert fetch("emoji_editions", force=True).n_samples == 23


def test_reasons_of_a_failed_download(registry, monkeypatch, tmp_path):
    (registry / emoji.AFTER.file).unlink()
    with pytest.raises(DataError, match=r"could not download the package \(npm error code E404\)"):
        fetch("emoji_editions")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DataError, match=r"npm, which is not on the PATH; install Node\.js, or run"):
        fetch("emoji_editions")


def test_missing_file_in_a_package(registry, monkeypatch):
    monkeypatch.setattr(emoji, "LANGUAGES", ("en", "tlh"))
    with pytest.raises(DataError, match=r"has no file package/annotations/tlh/annotations\.json"):
        fetch("emoji_editions")


def test_packages_without_common_keywords(registry, monkeypatch, tmp_path):
    monkeypatch.setattr(emoji, "MIN_TRUE", 1000)
    with pytest.raises(DataError, match="no keyword in common"):
        fetch("emoji_editions")
    assert not (tmp_path / "cache" / "emoji_editions.npz").exists()


def test_program_lists_fetches_and_describes(registry, capsys):
    assert {e.where for e in available() if e.name.startswith("emoji_")} == {"downloadable"}
    with pytest.raises(DataError, match="schirn data fetch emoji_keywords"):
        load("emoji_keywords")
    assert main(["data", "fetch", "emoji_keywords"]) == 0
    assert "24 rows, 2 labels" in capsys.readouterr().err
    assert main(["data", "card", "emoji_keywords"]) == 0
    assert "emojilib@4.0.3" in capsys.readouterr().out


def test_benchmark_on_its_own_candidates(registry, tmp_path):
    fetch("emoji_keywords")
    results = bench.run(
        ["emoji_keywords:own"],
        ["CandidateRidge", "OracleRidge"],
        output=tmp_path / "out",
        folds=2,
        tuning="none",
    )
    assert {result["status"] for result in results} == {"done"}
    assert {result["noise"] for result in results} == {"own"}
