"""Faults planted into lists of tags: which proposals find them, and which are wrong.

    python -m benchmarks.vocabulary                    # shop; Debian and emoji if they can be had
    python -m benchmarks.vocabulary --lists shop --seeds 3
    python -m benchmarks.vocabulary --scale            # 10,000 tags on 100,000 rows: CPU and memory

Into each list go other spellings, plurals, glued words, codes for a tag, children that lack their
parent, tags on random rows, and two tags under one name. A proposal is right if it names a planted
fault; an implication also if it holds in 95% of the rows before planting. What is proposed for the
list before planting as well concerns its own faults, and is counted as neither; in the generated
shop, whose truth is known, it counts as wrong unless it holds.
"""

import argparse
import json
import resource
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.tagger import EXAMPLE, load_example
from schirn.cleaning import Vocabulary, VocabularyLine, propose_vocabulary

Array = np.ndarray

SYLLABLES = [c + v for c in "bdfgklmnprstvwz" for v in "aeiou"]
FACET_SIZES = {"colour": 12, "material": 12, "audience": 4, "season": 4, "feature": 14}
SHARES = {"colour": 0.8, "material": 0.6, "audience": 0.5, "season": 0.3, "feature": 0.5}
DEBIAN_FACETS = (
    *("admin", "culture", "devel", "field", "game", "implemented-in", "interface", "mail"),
    *("made-of", "network", "protocol", "role", "scope", "science", "security", "sound", "suite"),
    *("uitoolkit", "use", "web", "works-with", "works-with-format", "x11"),
)
# Rows of a tag into which a fault is planted, at least.
MIN_ROWS = 30


@dataclass
class TagList:
    """Tags and texts of rows, and the correct tags where they are known."""

    tags: list[list[str]]
    texts: list[str]
    truth: list[list[str]] | None = None


@dataclass
class Planted:
    """A list of tags with faults, and what they are."""

    tags: list[list[str]]
    same: dict[str, str] = field(default_factory=dict)
    kind_of: dict[str, str] = field(default_factory=dict)
    implies: set[tuple[str, str]] = field(default_factory=set)
    vacuous: set[str] = field(default_factory=set)
    merged: dict[str, tuple[str, str]] = field(default_factory=dict)


def make_word(rng: np.random.Generator, used: set[str], low: int = 2, high: int = 4) -> str:
    """Return a word that was not used before."""
    while True:
        word = "".join(rng.choice(SYLLABLES, int(rng.integers(low, high + 1))))
        if word not in used:
            used.add(word)
            return word


def shop(seed: int = 0, n_rows: int = 8000) -> TagList:
    """Return a generated shop: kinds in departments, facets, and names that only look alike."""
    rng = np.random.default_rng(seed)
    used: set[str] = set()
    departments = [make_word(rng, used) for _ in range(12)]
    kinds: list[tuple[str, str]] = []
    for department in departments:
        for number in range(10):
            name = make_word(rng, used, 2, 3)
            if number % 3 == 0:
                name += f"-{make_word(rng, used, 2, 3)}"
            kinds.append((name, department))
    # Other kinds whose names differ by an ending or a letter.
    for position in range(0, 16, 2):
        name, _ = kinds[position * 7 + 1]
        other = position * 7 + 13
        decoy = name + "s" if position % 4 == 0 else name[:-1] + chr(ord(name[-1]) + 1)
        kinds[other % len(kinds)] = (decoy, kinds[other % len(kinds)][1])
    facets = {
        facet: [make_word(rng, used, 2, 3) for _ in range(size)]
        for facet, size in FACET_SIZES.items()
    }
    names = [name for name, _ in kinds]
    phrases = {name: [make_word(rng, used) for _ in range(3)] for name in names}
    for values in facets.values():
        phrases |= {name: [make_word(rng, used) for _ in range(3)] for name in values}
    fillers = [make_word(rng, used) for _ in range(60)]
    weights = 1 / np.arange(1, len(kinds) + 1) ** 0.5
    weights = rng.permutation(weights / weights.sum())
    truth = []
    texts = []
    for _ in range(n_rows):
        name, department = kinds[rng.choice(len(kinds), p=weights)]
        row = [name, department]
        for facet, values in facets.items():
            if rng.random() < SHARES[facet]:
                row.append(str(rng.choice(values)))
        stated = [str(rng.choice(phrases[tag])) for tag in row if tag in phrases]
        words = stated + [str(word) for word in rng.choice(fillers, 5)]
        truth.append(row)
        texts.append(" ".join(rng.permutation(words)))
    everything = sorted({tag for row in truth for tag in row})
    tags = []
    for row in truth:
        listed = [tag for tag in row if rng.random() > 0.03]
        if rng.random() < 0.1:
            listed.append(str(rng.choice(everything)))
        tags.append(list(dict.fromkeys(listed)))
    return TagList(tags, texts, truth)


def debian(seed: int = 0) -> TagList:
    """Return a sample of Debian's packages and their tags, from the lists of apt."""
    packages = load_example(EXAMPLE).packages(None, DEBIAN_FACETS)
    if not packages:
        raise SystemExit("apt has no list of packages with tags here; run apt-get update")
    chosen = np.random.default_rng(seed).choice(len(packages), min(12_000, len(packages)), False)
    rows = [packages[i] for i in np.sort(chosen)]
    texts = [f"{row['name']} {row['description']}" for row in rows]
    return TagList([list(row["tags"]) for row in rows], texts)


def emoji(seed: int = 0) -> TagList:
    """Return the keywords that people gave to emoji, as npm delivers them."""
    with tempfile.TemporaryDirectory() as folder:
        for package in ("emojilib", "emojibase-data"):
            subprocess.run(["npm", "pack", package], cwd=folder, capture_output=True, check=True)
        files = sorted(Path(folder).glob("*.tgz"))
        names = json.loads(member(files[0], "package/en/data.json"))
        lists = json.loads(member(files[1], "package/dist/emoji-en-US.json"))
    name_of = {each["emoji"]: each["label"] for each in names}
    tags = [words[1:] for words in lists.values()]
    texts = [name_of.get(sign, words[0]).replace("_", " ") for sign, words in lists.items()]
    return TagList(tags, texts)


def member(path: Path, name: str) -> bytes:
    """Return the content of a file of an archive."""
    with tarfile.open(path) as archive:
        stream = archive.extractfile(name)
        assert stream is not None
        return stream.read()


LISTS: dict[str, Callable[[int], TagList]] = {"shop": shop, "debian": debian, "emoji": emoji}


class Planter:
    """Plants faults into a list of tags, each into tags of its own."""

    def __init__(self, table: TagList, seed: int) -> None:
        self.rng = np.random.default_rng(seed + 1000)
        self.texts = table.texts
        self.result = Planted([list(row) for row in table.tags])
        counts = Counter(tag for row in table.tags for tag in row)
        self.names = set(counts)
        most = 0.25 * len(table.tags)
        free = sorted(tag for tag, count in counts.items() if MIN_ROWS <= count <= most)
        self.free = [str(tag) for tag in self.rng.permutation(free)]

    def take(self, test: Callable[[str], bool] = lambda name: True) -> str | None:
        """Return a tag without a fault, None if there is none left."""
        for position, name in enumerate(self.free):
            if test(name):
                return self.free.pop(position)
        return None

    def rows_of(self, tag: str) -> list[int]:
        """Return the rows of a tag."""
        return [i for i, row in enumerate(self.result.tags) if tag in row]

    def rename(self, tag: str, name: str, share: float, kind: str) -> None:
        """Give some rows of a tag another name for it."""
        if name in self.names:
            return
        self.names.add(name)
        for i in self.rows_of(tag):
            if self.rng.random() < share:
                row = self.result.tags[i]
                row[row.index(tag)] = name
        self.result.same[name] = tag
        self.result.kind_of[name] = kind

    def spellings(self, count: int) -> None:
        """Plant other cases, typing errors, plurals, glued words and codes."""
        for number in range(count):
            share = float(self.rng.uniform(0.15, 0.4))
            tag = self.take(lambda name: sum(map(str.isalpha, name)) >= 6)
            if tag is not None:
                other = tag.upper() if number % 2 else _typo(tag, self.rng)
                self.rename(tag, other, share, "renamed")
            tag = self.take(lambda name: name[-1:].isalpha())
            if tag is not None:
                plural = tag[:-1] if tag.endswith("s") else tag + "s"
                self.rename(tag, plural, share, "plural")
            tag = self.take(lambda name: any(mark in name for mark in " -_"))
            if tag is not None:
                glued = tag.replace(" ", "").replace("-", "").replace("_", "")
                self.rename(tag, glued, share, "glued")
            tag = self.take()
            if tag is not None:
                self.rename(tag, f"q{self.rng.integers(1000, 9999)}", 0.4, "code")

    def children(self, count: int) -> None:
        """Plant children that lack their parent in a third of their rows."""
        for number in range(count):
            tag = self.take(lambda name: len(self.rows_of(name)) >= 2 * MIN_ROWS)
            if tag is None:
                return
            rows = self.rows_of(tag)
            child = f"{tag}-{make_word(self.rng, self.names)}"
            if number % 2:
                child = make_word(self.rng, self.names)
            chosen = self._alike(rows, max(MIN_ROWS, len(rows) // 3))
            for i in chosen:
                row = self.result.tags[i]
                row.append(child)
                if self.rng.random() < 0.25:
                    row.remove(tag)
            self.result.implies.add((child, tag))
            self.result.kind_of[child] = "child"

    def _alike(self, rows: list[int], count: int) -> list[int]:
        """Return the rows whose texts share most words with one of them."""
        words = [set(self.texts[i].split()) for i in rows]
        seed = words[int(self.rng.integers(len(words)))]
        order = sorted(range(len(rows)), key=lambda k: -len(words[k] & seed) / len(words[k] | seed))
        return [rows[k] for k in order[:count]]

    def vacuous(self, shares: tuple[float, ...]) -> None:
        """Plant tags on random rows."""
        for share in shares:
            name = make_word(self.rng, self.names)
            for row in self.result.tags:
                if self.rng.random() < share:
                    row.append(name)
            self.result.vacuous.add(name)

    def is_apart(self, rows: set[int], name: str) -> bool:
        """Whether a tag stands on none of the rows."""
        return rows.isdisjoint(self.rows_of(name))

    def merged(self, count: int) -> None:
        """Give two tags that never meet one name."""
        for _ in range(count):
            one = self.take()
            if one is None:
                return
            rows = set(self.rows_of(one))
            other = self.take(partial(self.is_apart, rows))
            if other is None:
                return
            name = make_word(self.rng, self.names)
            for row in self.result.tags:
                for tag in (one, other):
                    if tag in row:
                        row[row.index(tag)] = name
            self.result.merged[name] = (one, other)


def _typo(name: str, rng: np.random.Generator) -> str:
    """Swap two neighbouring letters inside the last word."""
    places = [
        k
        for k in range(2, len(name) - 1)
        if name[k - 1 : k + 1].isalpha() and name[k] != name[k - 1]
    ]
    if not places:
        return name.upper()
    k = int(rng.choice(places))
    return name[: k - 1] + name[k] + name[k - 1] + name[k + 1 :]


def plant(table: TagList, seed: int) -> Planted:
    """Return the list with about forty faults, fewer if it has few frequent tags."""
    planter = Planter(table, seed)
    planter.merged(4)
    planter.children(8)
    planter.spellings(6)
    planter.vacuous((0.95, 0.3, 0.1))
    return planter.result


def holds(line: VocabularyLine, planted: Planted, rows: list[list[str]]) -> bool:
    """Whether an implication or exclusion is true of the rows before planting."""
    tags = before_planting(line.tag, planted)
    targets = before_planting(line.target, planted)
    with_tag = [row for row in rows if not tags.isdisjoint(row)]
    n_both = sum(not targets.isdisjoint(row) for row in with_tag)
    if line.action == "imply":
        return n_both >= 0.95 * len(with_tag) > 0
    return line.action == "exclude" and n_both == 0


def before_planting(name: str, planted: Planted) -> set[str]:
    """Return what a tag was called before faults were planted."""
    name = planted.same.get(name, name)
    return set(planted.merged.get(name, (name,)))


def is_right(line: VocabularyLine, planted: Planted, table: TagList) -> bool:
    """Whether a proposal names a fault, or holds."""
    same = planted.same
    if line.action == "merge":
        return same.get(line.tag, line.tag) == same.get(line.target, line.target)
    if line.action == "drop":
        return line.tag in planted.vacuous
    if line.action == "split":
        return line.tag in planted.merged
    tag = same.get(line.tag, line.tag)
    parents = {same.get(line.target, line.target)}
    is_planted = any(child == tag and parent in parents for child, parent in planted.implies)
    if line.action == "imply" and is_planted:
        return True
    # What holds for a parent holds for its planted child.
    known = {child: parent for child, parent in planted.implies}
    through = VocabularyLine(line.action, known.get(tag, tag), line.target)
    return holds(through, planted, table.truth or table.tags)


@dataclass
class Score:
    """Right and wrong proposals of one list."""

    relations: list[bool] = field(default_factory=list)
    others: list[bool] = field(default_factory=list)
    recall: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    sure_in_clean: int = 0
    wrong: list[str] = field(default_factory=list)


def key(line: VocabularyLine) -> tuple[str, frozenset[str]]:
    """What a proposal is about."""
    return line.action, frozenset({line.tag, line.target})


def is_old(line: VocabularyLine, planted: Planted, old: set[tuple[str, frozenset[str]]]) -> bool:
    """Whether the list had the fault before others were planted."""
    return any(
        (line.action, frozenset({tag, target})) in old
        for tag in before_planting(line.tag, planted)
        for target in before_planting(line.target, planted)
    )


def score(table: TagList, seed: int) -> Score:
    """Plant faults, propose, and count."""
    planted = plant(table, seed)
    before = propose_vocabulary(table.tags, table.texts, max_proposals=1000)
    lines = propose_vocabulary(planted.tags, table.texts).lines
    own = set() if table.truth else {key(line) for line in before}
    result = Score()
    result.sure_in_clean = sum(line.action == "merge" and line.is_sure for line in before)
    hits = set()
    for line in lines:
        right = is_right(line, planted, table)
        if right:
            hits |= {line.tag, (line.tag, line.target)}
        elif is_old(line, planted, own):
            continue
        else:
            result.wrong.append(str(line))
        if line.action in ("merge", "imply"):
            result.relations.append(right)
        else:
            result.others.append(right)
    targets = {line.target for line in lines if line.action == "merge"}
    for name, kind in planted.kind_of.items():
        if kind == "child":
            parent = next(p for c, p in planted.implies if c == name)
            result.recall[kind].append((name, parent) in hits)
        else:
            result.recall[kind].append(
                name in hits or (name in targets and planted.same[name] in hits)
            )
    result.recall["vacuous"] = [name in hits for name in sorted(planted.vacuous)]
    result.recall["merged"] = [name in hits for name in sorted(planted.merged)]
    return result


def percent(values: list[bool]) -> str:
    """Share of right ones, and their number."""
    return f"{np.mean(values):.0%} of {len(values)}" if values else "– of 0"


def report(names: list[str], seeds: int, verbose: bool) -> None:
    """Print a line per list and seed."""
    names_of_columns = ("list", "seed", "first 50 merges, implications", "other kinds", "recall")
    print(f"| {' | '.join((*names_of_columns, 'sure, clean', 'by kind'))} |")
    print("|---|--:|--:|--:|--:|--:|---|")
    for name in names:
        for seed in range(seeds):
            result = score(LISTS[name](seed), seed)
            every = [hit for hits in result.recall.values() for hit in hits]
            kinds = ", ".join(f"{kind} {percent(hits)}" for kind, hits in result.recall.items())
            first = percent(result.relations[:50])
            shares = (first, percent(result.others), percent(every))
            row = (name, str(seed), *shares, str(result.sure_in_clean), kinds)
            print(f"| {' | '.join(row)} |", flush=True)
            if verbose:
                print("\n".join(f"    wrong: {line}" for line in result.wrong))


def scale(n_tags: int = 10_000, n_rows: int = 100_000) -> None:
    """Propose for a large table, and print processor time and memory."""
    rng = np.random.default_rng(0)
    tags, texts = large_table(rng, n_tags, n_rows)
    start = time.process_time()
    vocabulary: Vocabulary = propose_vocabulary(tags, texts)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    n_names = len({tag for row in tags for tag in row})
    print(
        f"{n_names:,} tags, {n_rows:,} rows: {seconds:.1f} CPU s, {peak:.2f} GB at most, ", end=""
    )
    print(f"{len(vocabulary)} proposals")


def large_table(
    rng: np.random.Generator, n_tags: int, n_rows: int
) -> tuple[list[list[str]], list[str]]:
    """Return rows with six tags on average and texts of twenty words, by topic."""
    used: set[str] = set()
    names = [make_word(rng, used, 3, 5) for _ in range(n_tags)]
    # A tenth are other spellings.
    for j in range(0, n_tags, 10):
        names[j] = names[j + 1] + "s"
    words = [make_word(rng, used, 3, 5) for _ in range(30_000)]
    n_topics = 200
    topic = rng.integers(n_topics, size=n_rows)
    popular = 1 / np.arange(1, n_tags // n_topics + 1)
    popular /= popular.sum()
    tags = []
    texts = []
    for i in range(n_rows):
        local = rng.choice(n_tags // n_topics, int(rng.integers(2, 10)), p=popular)
        row = [names[topic[i] + n_topics * j] for j in local.tolist()]
        tags.append(list(dict.fromkeys(row)))
        own = topic[i] * 150 + (rng.random(12) ** 2 * 150).astype(int)
        common = (rng.random(8) ** 3 * len(words)).astype(int)
        texts.append(" ".join(words[k % len(words)] for k in (*own, *common)))
    return tags, texts


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lists", default="shop,debian,emoji", help="names, with commas")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scale", action="store_true", help="measure time and memory instead")
    parser.add_argument("--verbose", action="store_true", help="print wrong proposals")
    args = parser.parse_args()
    if args.scale:
        scale()
        return
    names = [name for name in args.lists.split(",") if name]
    if "debian" in names and shutil.which("apt-cache") is None:
        names.remove("debian")
    if "emoji" in names and shutil.which("npm") is None:
        names.remove("emoji")
    report(names, args.seeds, args.verbose)


if __name__ == "__main__":
    main()
