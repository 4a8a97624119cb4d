"""Development tables with known truth, on which rankings of suspicious tags are compared.

`TABLES` maps names to functions that make the tables. A table whose data are not on this machine
raises `DataError` with the reason.

- One annotator's tags, with the majority of the others as truth: `cmc`, `brighter_ron`,
  `brighter_ukr` and `crowd_relations`, from the folder SCHIRN_DATA, without rows that have no tag.
- Debian packages (the package lists of this machine) with one wrong tag per row, drawn uniformly or
  by frequency, or uniformly with 8% of the correct tags dropped; only short descriptions where the
  lists have no long ones.
- The texts of annotators and Debian's packages once more, as 256 singular vectors of their weights
  of words, as an encoder would give them: names end in `_vectors`.
- `emoji_keywords`, if `schirn data fetch` has made it.
- Digits and data sets of SCHIRN_DATA with made noise: uniform, dependent on labels or features, or
  uniform with a quarter of the correct labels dropped.
- Generated product titles (`benchmarks.titles`), one setting per difficulty.
"""

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer

from benchmarks.tagger import EXAMPLE, load_example
from benchmarks.titles import make_titles
from schirn.datasets import add_noise, load, load_digits_attributes, read_npz
from schirn.exceptions import DataError
from schirn.labels.matrix import as_labels

Array = np.ndarray

DEBIAN_ROWS = 3000
# Packages of the whole archive that must have a tag.
DEBIAN_MIN_COUNT = 20
DEBIAN_DROPPED = 0.08
VECTOR_LENGTH = 256
DEBIAN_FACETS = (
    *("accessibility", "admin", "biology", "culture", "devel", "field", "game", "hardware"),
    *("implemented-in", "interface", "made-of", "mail", "network", "office", "protocol", "role"),
    *("science", "scope", "security", "sound", "suite", "system", "uitoolkit", "use", "web"),
    *("works-with", "works-with-format", "x11"),
)
# Share of the other annotators that makes a tag true. Where there are two others, one is enough.
ANNOTATED = {"cmc": 0.5, "brighter_ron": 0.51, "brighter_ukr": 0.5, "crowd_relations": 0.5}
# Wrong labels per row of uniform noise; None keeps the candidates of the data set.
UNIFORM = {"scene": 1, "birds": 3, "medical": 3, "enron": 3, "yeastmf": None}
# Kinds of `add_noise`.
KINDS = {"uniform": "exact", "label": "label", "feature": "feature", "dropped": "two-sided"}
TITLES: dict[str, dict[str, Any]] = {
    "titles": {},
    "titles_unstated": {"unstated": 0.13},
    "titles_silent": {"silent": 0.3, "by_frequency": True},
    "titles_confusable": {"confusable": 0.7, "swapped": 0.5},
    "titles_dropped": {"dropped": 0.08},
    "titles_rare": {"n_tags": 300, "rare": 1.0},
    "titles_few_labels": {"noisy_labels": 0.15},
    "titles_typos": {"typos": 0.1},
    "titles_mixed": {
        **{"unstated": 0.08, "dropped": 0.08, "confusable": 0.3, "hierarchy": True},
        **{"typos": 0.05, "noisy_rows": 0.3, "copies": 0.1, "rare": 0.7, "n_tags": 100},
    },
}


@dataclass(frozen=True, eq=False)
class Table:
    """Features or texts, listed tags and true tags.

    Attributes
    ----------
    X : list of n str, (n, d) array or CSR array
    listed, truth : (n, l) uint8 arrays
    """

    X: Any
    listed: Array
    truth: Array

    @property
    def is_text(self) -> bool:
        """Whether the features are texts."""
        return isinstance(self.X, list)

    def head(self, n_rows: int) -> "Table":
        """Return the first rows, with the labels that they list: a table knows no others."""
        used = self.listed[:n_rows].any(axis=0)
        listed, truth = self.listed[:n_rows, used], self.truth[:n_rows, used]
        return Table(self.X[:n_rows], listed, truth)


def annotated(name: str, seed: int = 0) -> Table:
    """Tags of one random annotator per row; the others vote on the truth."""
    folder = os.environ.get("SCHIRN_DATA")
    path = Path(folder or "", f"{name}.npz")
    if folder is None or not path.exists():
        raise DataError(f"{name}.npz is not in the folder that SCHIRN_DATA names")
    data = read_npz(path, workers=1, share=ANNOTATED[name], random_state=seed)
    texts = [str(text) for text in np.load(path)["texts"]]
    rows = np.flatnonzero(data.candidates.any(axis=1))
    return Table([texts[i] for i in rows], data.candidates[rows], data.y_true[rows])


@cache
def _packages() -> list[dict[str, Any]]:
    """Packages of the lists on this machine, in random order."""
    debian = load_example(EXAMPLE)
    try:
        packages = debian.packages(facets=DEBIAN_FACETS)
    except (OSError, subprocess.CalledProcessError) as error:
        raise DataError(f"Debian's package lists are not here ({error})") from None
    packages = debian.sample(packages, None, DEBIAN_MIN_COUNT)
    return [packages[i] for i in np.random.default_rng(0).permutation(len(packages))]


def debian(noise: str, n_rows: int = DEBIAN_ROWS) -> Table:
    """Debian packages with one wrong tag per row; `noise` is a kind of the module's opening."""
    packages = _packages()
    if len(packages) < n_rows:
        raise DataError(f"the package lists have {len(packages):,} tagged packages, not {n_rows:,}")
    # The labels of all packages, so that a longer table begins with the shorter one.
    truth = as_labels([package["tags"] for package in packages]).matrix[:n_rows]
    weights = truth.sum(axis=0) + 1e-9 if noise == "frequency" else np.ones(truth.shape[1])
    keys = np.random.default_rng(0).gumbel(size=truth.shape) + np.log(weights)
    listed = truth.copy()
    if noise == "dropped":
        listed[np.random.default_rng(1).random(truth.shape) < DEBIAN_DROPPED] = 0
    listed[np.arange(n_rows), np.where(truth == 1, -np.inf, keys).argmax(axis=1)] = 1
    used = listed.any(axis=0)
    texts = [package["description"] for package in packages[:n_rows]]
    return Table(texts, listed[:, used], truth[:, used])


def data_set(name: str, noise: str) -> Table:
    """Data set with wrong labels of some kind, or with its own candidates."""
    data = load(name)
    truth = np.asarray(data.y_true, dtype=np.uint8)
    r = UNIFORM[name] if noise == "uniform" else 1
    listed = (
        data.candidates if r is None else add_noise(truth, r, kind=KINDS[noise], random_state=0)
    )
    X = sp.csr_array(data.X) if sp.issparse(data.X) else data.X
    return Table(X, np.asarray(listed, dtype=np.uint8), truth)


def digits(noise: str) -> Table:
    """Digits with one wrong attribute per row."""
    data = load_digits_attributes(r=1, kind=KINDS[noise])
    return Table(data.X, data.candidates, data.y_true)


def emoji() -> Table:
    """Keywords of emoji that people gave; a later edition tells the truth."""
    data = load("emoji_keywords")
    return Table(data.X, data.candidates, data.y_true)


def titles(n_rows: int = 3000, **knobs: Any) -> Table:
    """Return generated product titles."""
    table = make_titles(n_rows, **knobs)
    return Table(table.texts, table.listed, table.truth)


def vectors(make: Callable[[], Table]) -> Table:
    """Return a table of texts with dense vectors instead of the texts."""
    table = make()
    weights = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit_transform(table.X)
    X = TruncatedSVD(VECTOR_LENGTH, random_state=0).fit_transform(weights)
    return Table(X, table.listed, table.truth)


TEXTS: dict[str, Callable[[], Table]] = {
    **{name: partial(annotated, name) for name in ANNOTATED},
    **{f"debian_{noise}": partial(debian, noise) for noise in ("uniform", "frequency", "dropped")},
}
TABLES: dict[str, Callable[[], Table]] = {
    **TEXTS,
    **{f"{name}_vectors": partial(vectors, make) for name, make in TEXTS.items()},
    "emoji_keywords": emoji,
    **{name: partial(titles, **knobs) for name, knobs in TITLES.items()},
    **{f"digits_{noise}": partial(digits, noise) for noise in ("uniform", "feature", "dropped")},
    **{
        f"{name}_{noise}": partial(data_set, name, noise)
        for name in UNIFORM
        for noise in ("uniform", "label", "dropped")
    },
}
# More texts than a kernel matrix is made of.
MANY_TEXTS: dict[str, Callable[[], Table]] = {
    "debian_9000": partial(debian, "dropped", 9000),
    "titles_20000": partial(titles, 20_000, dropped=0.08, n_tags=500),
}
