"""Look at a table before judging it: the time it takes, and which spellings it finds.

python -m benchmarks.look

The second table plants one typing error into a hundredth of the rows of each tag of delicious
(`SCHIRN_DATA`), one tag after the other.
"""

import os
import random
import string
import time
from collections import Counter

from schirn.app.tables import look_at_table, propose_merges
from schirn.datasets import load
from schirn.features import TextFeatures
from schirn.labels.matrix import label_lists

ROWS = (10_000, 30_000, 100_000)
LEAST_ROWS = 100


def main() -> None:
    """Print the two tables."""
    print("rows and tags  look_at_table  tf-idf of the same texts   (processor seconds)")
    for n in ROWS:
        tags, texts = table(n)
        seconds = timed(look_at_table, tags, texts=texts)
        print(f"{n:13,}  {seconds:13.1f}  {timed(TextFeatures().fit_transform, texts):24.1f}")
    if "SCHIRN_DATA" in os.environ:
        counts = typing_errors()
        print("letters    typing errors planted  found")
        for letters, (planted, found) in sorted(counts.items()):
            print(f"{letters:>9}  {planted:21,}  {found / planted:5.0%}")


def table(n: int) -> tuple[list[list[str]], list[str]]:
    """Rows with five tags of n and sixty words of 20,000, the first ones far more often."""
    rng = random.Random(0)
    names = ["".join(rng.choices(string.ascii_lowercase, k=rng.randint(4, 16))) for _ in range(n)]
    words = names[:20_000]

    def draw(some: list[str], k: int) -> list[str]:
        return [some[int(rng.paretovariate(0.5)) % len(some)] for _ in range(k)]

    tags = [[*draw(names, 4), names[i]] for i in range(n)]
    return tags, [" ".join(draw(words, 60)) for _ in range(n)]


def typing_errors() -> dict[str, tuple[int, int]]:
    """Numbers of planted and of found errors, by the length of the tag."""
    rng = random.Random(0)
    data = load("delicious")
    rows = label_lists(data.y_true, [name.removeprefix("TAG_") for name in data.label_names])
    with_tag: dict[str, list[int]] = {}
    for i, tags in enumerate(rows):
        for tag in tags:
            with_tag.setdefault(tag, []).append(i)
    proposed = {(merge.before, merge.after) for merge in propose_merges(rows)}
    print(f"\ndelicious: {len(with_tag):,} tags, {len(proposed):,} proposed merges")
    planted: Counter[str] = Counter()
    found: Counter[str] = Counter()
    changed = [list(tags) for tags in rows]
    errors = {}
    for tag, own in with_tag.items():
        if len(own) < LEAST_ROWS or not tag.isalpha():
            continue
        wrong = mistyped(tag, rng)
        if wrong in with_tag or wrong in errors:
            continue
        errors[wrong] = tag
        for i in rng.sample(own, max(1, len(own) // 100)):
            changed[i][changed[i].index(tag)] = wrong
    merges = {merge.before: merge.after for merge in propose_merges(changed)}
    root = dict(proposed)
    for wrong, tag in errors.items():
        letters = "5 to 7" if 5 <= len(tag) < 8 else "8 or more" if len(tag) > 7 else "up to 4"
        planted[letters] += 1
        found[letters] += merges.get(wrong) in {tag, root.get(tag, tag)}
    others = {pair for pair in merges.items() if pair[0] not in errors} - proposed
    print(f"{len(errors):,} errors planted, {len(others):,} more merges of other tags")
    return {letters: (planted[letters], found[letters]) for letters in planted}


def mistyped(tag: str, rng: random.Random) -> str:
    """The tag with a letter more, less, in place of another, or swapped with its neighbour."""
    k, letter = rng.randrange(len(tag) - 1), rng.choice(string.ascii_lowercase)
    kinds = (
        tag[:k] + letter + tag[k:],
        tag[:k] + tag[k + 1 :],
        tag[:k] + letter + tag[k + 1 :],
        tag[:k] + tag[k + 1] + tag[k] + tag[k + 2 :],
    )
    wrong = rng.choice(kinds)
    return wrong if wrong != tag else mistyped(tag, rng)


def timed(work, *args, **options) -> float:  # type: ignore[no-untyped-def]
    """Processor time of a call."""
    start = time.process_time()
    work(*args, **options)
    return time.process_time() - start


if __name__ == "__main__":
    main()
