"""Tags of Debian's packages in two releases: what people revised, and whether it is found.

    python -m benchmarks.debian_releases                  # needs apt and a network
    python -m benchmarks.debian_releases --releases bookworm,trixie --rows 0

Packages in both releases with the facets of `examples/debian_tags.py`. The first table counts the
tags that the later release removed and added. The second looks at the packages whose tags changed,
since only there somebody looked: Sieve and logistic regression (out of fold) learn from the tags
and whole descriptions of the earlier release, of these packages and `--rows` others, and AUC tells
removed tags from kept ones, and added tags from those that neither release lists.
"""

import argparse
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score

from benchmarks.missing import logistic
from benchmarks.tagger import EXAMPLE, load_example
from schirn import Sieve
from schirn.features import TextFeatures

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
debian = load_example(EXAMPLE)


def release(name: str) -> dict[str, dict[str, Any]]:
    """Packages of a release by name, from the archive that apt uses on this machine."""
    target = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    asked = ["apt-get", "indextargets", "--format", target, "Created-By: Packages"]
    lines = [line.split() for line in debian.apt(asked, None).splitlines()]
    # Without those of security fixes and updates, such as "bookworm-updates".
    found = [line for line in lines if line[2:3] == ["main"] and "-" not in line[1]]
    if not found:
        raise SystemExit("apt has no list of a whole release here; run apt-get update")
    source = f"deb [signed-by={KEYRING}] {found[0][0]} {name} main\n"
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "lists", "partial").mkdir(parents=True)
        Path(folder, "sources.list").write_text(source)
        settings = f'Dir::Etc::SourceList "{folder}/sources.list";\nDir::Etc::SourceParts "-";\n'
        Path(folder, "apt.conf").write_text(settings)
        os.environ["APT_CONFIG"] = f"{folder}/apt.conf"
        try:
            debian.apt(["apt-get", "update"], folder)
            return {row["name"]: row for row in debian.packages(folder)}
        finally:
            del os.environ["APT_CONFIG"]


def auc(positive: np.ndarray, scores: np.ndarray) -> str:
    """AUC in percent, and how many cells of each kind it is from."""
    counts = f"{positive.sum():,} among {len(positive):,}"
    both = 0 < positive.sum() < len(positive)
    return f"{100 * roc_auc_score(positive, scores):.1f} ({counts})" if both else f"– ({counts})"


def main() -> None:
    """Print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--releases", default="bullseye,bookworm", help="earlier and later one")
    parser.add_argument("--rows", type=int, default=3000, help="unchanged packages (0: count only)")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    names = args.releases.split(",")
    before, after = (release(name) for name in names)
    both = sorted(before.keys() & after.keys())
    old = [{*before[name]["tags"]} for name in both]
    new = [{*after[name]["tags"]} for name in both]
    changed = np.array([a != b for a, b in zip(old, new, strict=True)])
    removed = sum(len(a - b) for a, b in zip(old, new, strict=True))
    added = sum(len(b - a) for a, b in zip(old, new, strict=True))
    print("| releases | packages in both | tags before | removed | added | packages changed |")
    print("|---|--:|--:|--:|--:|--:|")
    print(
        f"| {' to '.join(names)} | {len(both):,} | {sum(map(len, old)):,} | {removed:,} "
        f"| {added:,} | {changed.sum():,} |\n",
        flush=True,
    )
    if not args.rows or not changed.any():
        return
    rng = np.random.default_rng(0)
    others = np.flatnonzero(~changed)
    others = rng.choice(others, min(args.rows, len(others)), replace=False)
    rows = np.concatenate([np.flatnonzero(changed), np.sort(others)])
    counts: dict[str, int] = {}
    for i in rows:
        for tag in old[i]:
            counts[tag] = counts.get(tag, 0) + 1
    tags = sorted(tag for tag, count in counts.items() if count >= 10)
    C, T = (
        np.array([[tag in each[i] for tag in tags] for i in rows], dtype=np.uint8)
        for each in (old, new)
    )
    X = TextFeatures().fit_transform([before[both[i]]["description"] for i in rows])
    scores = {
        "Sieve": Sieve().fit(X, C).training_log_odds_,
        "logistic regression": logistic(X, C),
        # Without any text: what a ranking over all tags owes to their frequencies.
        "frequency of the tag": np.broadcast_to(C.mean(axis=0), C.shape),
    }
    looked = np.zeros(C.shape, dtype=bool)
    looked[: changed.sum()] = True
    listed, unlisted = looked & (C == 1), looked & (C == 0)
    print(f"{len(rows):,} packages, {len(tags)} tags\n")
    print("| who | AUC, removed tags among listed | AUC, added tags among unlisted |")
    print("|---|--:|--:|")
    for who, score in scores.items():
        print(
            f"| {who} | {auc(T[listed] == 0, -score[listed])} "
            f"| {auc(T[unlisted] == 1, score[unlisted])} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
