"""Keywords of emoji as data sets: candidates from an earlier list, truth from a later edition.

The packages are downloaded by npm, with the registry and proxy that the user has set up, and each
must have the checksum given here.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import tarfile
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from schirn._files import file_hash, reason_of
from schirn.exceptions import DataError

# A keyword is a label if at least this many characters have it, in the truth and as a candidate.
MIN_TRUE = 10
MIN_CANDIDATES = 5

# Languages whose names of a character are its features.
LANGUAGES = (
    *("en", "ar", "cs", "da", "de", "el", "es", "fi", "fr", "hi", "hu", "id", "it"),
    *("ja", "ko", "nl", "pl", "pt", "ro", "ru", "sv", "tr", "uk", "vi", "zh"),
)


class Package(NamedTuple):
    """A version of an npm package, the SHA-256 checksum of its file, and its licence."""

    name: str
    version: str
    sha256: str
    licence: str

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def file(self) -> str:
        """File name that npm uses."""
        return f"{self.name}-{self.version}.tgz"


BEFORE = Package(
    "cldr-annotations-full",
    "45.0.0",
    "5e42636ebbeb380816304910ceac307f289594d3754c4adad4b23b7eaccda475",
    "Unicode License V3",
)
AFTER = Package(
    "cldr-annotations-full",
    "48.2.0",
    "28576e51225deb51e3ddd734b0f824a0079682cb5d8c27faa9f68149317a14d1",
    "Unicode License V3",
)
COMMUNITY = Package(
    "emojilib",
    "4.0.3",
    "7f9a6b43cff31d18985b7d65d11faba5bd971cbcc60020cf6d09322fbaaaf303",
    "MIT",
)

# Name of a data set -> the packages whose keywords are its candidates.
EMOJI_SETS: dict[str, tuple[Package, ...]] = {
    "emoji_editions": (BEFORE,),
    "emoji_keywords": (BEFORE, COMMUNITY),
}


Annotation = tuple[str, frozenset[str]]
"""Name and keywords of a character."""


def emoji_packages(name: str) -> str:
    """Describe the packages from which a data set is made."""
    return ", ".join(str(package) for package in (*EMOJI_SETS[name], AFTER))


def emoji_archive(name: str, folder: Path, timeout: float) -> bytes:
    """Return a data set as an npz archive; packages are kept in `folder`.

    Rows are the characters that all packages annotate and that have a candidate. Features are the
    tf-idf weights of the words of their names in `LANGUAGES`, before the revision: no keyword of
    any language is a feature.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    names = _cldr(_package(BEFORE, folder, timeout), LANGUAGES)
    truth = _cldr(_package(AFTER, folder, timeout), ("en",))["en"]
    lists = [names["en"]]
    if COMMUNITY in EMOJI_SETS[name]:
        lists.append(_emojilib(_package(COMMUNITY, folder, timeout)))
    shared = sorted(truth.keys() & set.intersection(*({*annotations} for annotations in lists)))
    candidates = {
        c: frozenset().union(*(annotations[c][1] for annotations in lists)) for c in shared
    }
    of_truth = Counter(word for c in shared for word in truth[c][1])
    of_lists = Counter(word for c in shared for word in candidates[c])
    labels = sorted(
        word
        for word, count in of_truth.items()
        if count >= MIN_TRUE and of_lists[word] >= MIN_CANDIDATES
    )
    rows = [c for c in shared if not candidates[c].isdisjoint(labels)]
    if not rows:
        raise DataError(f"{name}: the packages have no keyword in common; nothing was kept.")
    texts = [
        "\n".join(annotations[c][0] for annotations in names.values() if c in annotations)
        for c in rows
    ]
    licences = ", ".join(f"{package.licence} ({package})" for package in (*EMOJI_SETS[name], AFTER))
    X = TfidfVectorizer(min_df=2, sublinear_tf=True).fit_transform(texts)
    stream = io.BytesIO()
    arrays: dict[str, Any] = {
        # Rounded, so that the last bit of a logarithm does not change the checksum.
        "data": np.round(X.data, 6),
        "indices": X.indices,
        "indptr": X.indptr,
        "shape": np.array(X.shape),
        "C": _matrix([candidates[c] for c in rows], labels),
        "Y": _matrix([truth[c][1] for c in rows], labels),
        "label_names": np.array(labels),
        "description": np.array(
            f"English keywords of {len(rows):,} characters; {len(shared) - len(rows):,} without a "
            f"candidate are left out. Candidates: the keywords of "
            f"{' or '.join(str(package) for package in EMOJI_SETS[name])}. Truth: those of "
            f"{AFTER}; a later edition is not the truth. Features: names in {len(LANGUAGES)} "
            f"languages. Licences: {licences}."
        ),
    }
    np.savez(stream, **arrays)
    return stream.getvalue()


def _package(package: Package, folder: Path, timeout: float) -> Path:
    """Return the file of a package after checking its checksum; download it if necessary."""
    target = folder / package.file
    if target.is_file() and file_hash(target) == package.sha256:
        return target
    npm = shutil.which("npm")
    if npm is None:
        raise DataError(
            f"{package} must be downloaded by npm, which is not on the PATH; install Node.js, or "
            f"run 'npm pack {package}' elsewhere and put {package.file} into {folder}."
        )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [npm, "pack", str(package), "--ignore-scripts", "--pack-destination", scratch]
        command += ["--fetch-timeout", str(round(1000 * timeout)), "--fetch-retries", "1"]
        try:
            ran = subprocess.run(
                command, cwd=scratch, capture_output=True, text=True, timeout=20 * timeout
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise DataError(f"{package}: npm did not finish ({reason_of(error)}).") from error
        download = Path(scratch, package.file)
        if ran.returncode or not download.is_file():
            lines = [line for line in ran.stderr.splitlines() if "npm warn" not in line.lower()]
            reason = reason_of(Exception("\n".join(lines) or f"exit code {ran.returncode}"))
            raise DataError(f"{package}: npm could not download the package ({reason}).")
        if (sha256 := file_hash(download)) != package.sha256:
            raise DataError(
                f"{package}: the SHA-256 checksum is {sha256}, expected {package.sha256}; nothing "
                "was kept."
            )
        download.replace(target)
    return target


def _cldr(path: Path, languages: tuple[str, ...]) -> dict[str, dict[str, Annotation]]:
    """Return the annotations of each character, by language."""
    files = {f"package/annotations/{code}/annotations.json": code for code in languages}
    entries = {}
    for file, content in _members(path, files).items():
        annotations = content["annotations"]["annotations"]
        entries[files[file]] = {
            _plain(character): (
                " ".join(entry.get("tts", [])),
                _words(entry.get("default", [])),
            )
            for character, entry in annotations.items()
        }
    return {code: entries[code] for code in languages}


def _emojilib(path: Path) -> dict[str, Annotation]:
    """Return the keywords of each character."""
    file = "package/dist/emoji-en-US.json"
    content = _members(path, {file: ""})[file]
    return {_plain(c): ("", _words(words)) for c, words in content.items()}


def _members(path: Path, names: dict[str, str]) -> dict[str, Any]:
    """Return JSON files of a package whose checksum is right."""
    with tarfile.open(path, "r:gz") as archive:
        members = {}
        for member in archive:
            stream = archive.extractfile(member) if member.name in names else None
            if stream is not None:
                members[member.name] = json.load(stream)
    missing = sorted(names.keys() - members.keys())
    if missing:
        raise DataError(f"{path}: the package has no file {missing[0]}.")
    return members


def _plain(character: str) -> str:
    """Drop the variation selector for colour images, which only some sources write."""
    return character.replace("\ufe0f", "")


def _words(keywords: list[str]) -> frozenset[str]:
    return frozenset(word.replace("_", " ").strip().lower() for word in keywords)


def _matrix(rows: list[frozenset[str]], labels: list[str]) -> np.ndarray:
    return np.array([[label in words for label in labels] for words in rows], dtype=np.uint8)
