"""Write one small model file per case with the current code: `python tests/golden/write.py`.

Run it for every release and after adding a method. Files go into a folder named after the version.
Existing files are never overwritten: later versions must load what earlier ones wrote.
"""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import schirn
from schirn import lab
from schirn.cleaning import votes_to_candidates
from schirn.datasets import make_partial_multilabel
from schirn.features import TagPipeline

HERE = Path(__file__).parent


def data():
    """Training rows, candidates and new rows."""
    found = make_partial_multilabel(n_samples=48, n_features=6, n_labels=4, r=1, random_state=0)
    return found.X[:36], found.candidates[:36], found.X[36:]


def votes(Y):
    """Three annotators who leave out every fifth candidate, each another one."""
    cells = [(i, w, j) for i, j in np.argwhere(Y) for w in range(3) if (i + 2 * j + w) % 5]
    items, workers, labels = zip(*cells, strict=True)
    return votes_to_candidates(items, workers, map(str, labels), order=range(len(Y)))


def cases():
    """Map each file name to a model to fit, and whether X is sparse."""
    short = {
        "Schirn": {"max_iter": 20},
        "PAKS": {"max_iter": 5},
        "PARD": {"max_iter": 5, "hidden": 4},
        "GLC": {"max_iter": 20},
        "PMLLENFN": {"max_iter": 10},
    }
    found = {}
    for name, cls in schirn.methods().items():
        if name == "PLAIN" and find_spec("torch") is None:
            print("PLAIN is left out: PyTorch is not installed")
            continue
        allowed = cls().get_params()
        found[name] = cls(**{k: v for k, v in short.get(name, {}).items() if k in allowed}), False
    sieve, plain = schirn.Sieve, schirn.Schirn
    return found | {
        "Sieve-linear": (sieve(kernel="linear"), False),
        "Sieve-landmarks": (sieve(max_kernel_rows=20, n_landmarks=12), False),
        "Sieve-linear-many": (sieve(kernel="linear", max_kernel_rows=20), False),
        "Sieve-sparse": (sieve(), True),
        "Sieve-clean": (sieve(estimate_noise=False), False),
        "Sieve-votes": (sieve(), False),
        "Schirn-intercept": (plain(fit_intercept=True, max_iter=20), False),
        "Schirn-cuts": (plain(threshold=[0.1, 0.2, 0.3, 0.4], max_iter=20), False),
        "CandidateRidge-sparse": (schirn.CandidateRidge(), True),
        "PMLPLR-sparse": (lab.PMLPLR(n_anchors=20), True),
    }


def main(folder=None):
    """Write the files that this version does not have yet; by default into its golden folder."""
    folder = HERE / schirn.__version__ if folder is None else folder
    folder.mkdir(exist_ok=True)
    X, Y, X_new = data()
    expected = {"X_new": X_new, "X": X, "candidates": Y}
    if (folder / "expected.npz").exists():
        with np.load(folder / "expected.npz") as stored:
            expected = dict(stored)
    missing = {k: v for k, v in cases().items() if not (folder / f"{k}.schirn").exists()}
    for name, (model, sparse) in missing.items():
        given = {"votes": votes(Y)} if "votes" in name else {}
        model.fit(sp.csr_array(X) if sparse else X, Y, **given)
        schirn.save(model, folder / f"{name}.schirn")
        expected[f"{name}/proba"] = model.predict_proba(sp.csr_array(X_new) if sparse else X_new)
        expected[f"{name}/verdict"] = model.disambiguate(sp.csr_array(X) if sparse else X, Y)
    if missing:
        np.savez_compressed(folder / "expected.npz", **expected)
    if not (folder / "taggers").exists():
        write_taggers(folder / "taggers")
    if not (folder / "DeepSieve.safetensors").exists():
        try:
            write_deep(folder, X, Y, X_new)
        except ImportError:
            print("DeepSieve is left out: PyTorch is not installed")


def table():
    """Return columns of text and of numbers, and tags."""
    things, looks = ("pan", "chair", "lamp", "sofa"), ("red", "blue", "old", "new", "big")
    pairs = [(look, thing) for look in looks for thing in things]
    return {
        "title": [f"{look} {thing}s" for look, thing in pairs],
        "price": [f"{10 * things.index(thing) + len(look)}" for look, thing in pairs],
        "vector": [[things.index(thing), looks.index(look)] for look, thing in pairs],
        "tags": [f"{thing};{look}" if look != "old" else thing for look, thing in pairs],
    }


def write_taggers(folder):
    """Write one tagger per kind of feature, and what it says about the rows of its table."""
    folder.mkdir()
    cases = {"text": {"text": "title"}, "columns": {"columns": ["price"]}}
    expected = {}
    for name, learn in (cases | {"vectors": {"vectors": "vector"}}).items():
        tagger = TagPipeline(**learn).fit(table(), table()["tags"])
        schirn.save(tagger, folder / f"{name}.schirn", include_training=False)
        expected[name] = tagger.predict_proba(table())
    np.savez_compressed(folder / "expected.npz", **expected)


def write_deep(folder, X, Y, X_new):
    """Write a network, in its own file format."""
    from schirn.deep import DeepSieve

    model = DeepSieve(hidden_sizes=(8,), max_iter=2, device="cpu", random_state=0).fit(
        X.astype(np.float32), Y
    )
    model.save(folder / "DeepSieve.safetensors")
    np.save(folder / "DeepSieve.npy", model.predict_proba(X_new.astype(np.float32)))


if __name__ == "__main__":
    main()
