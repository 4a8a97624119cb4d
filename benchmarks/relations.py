"""What the other tags of a row add to a ranking: implications and exclusions as evidence.

    SCHIRN_DATA=folder python -m benchmarks.relations
    python -m benchmarks.relations --only shop_tree,titles_tree

Every table is ranked by its features, and then with `RelationRanker`; the truth is used for
measuring only. AUC tells wrong listed tags from correct ones, and missing tags from those that are
rightly not listed. "accepted" is the difference if somebody also accepts every implication and
exclusion that `propose_vocabulary` proposes with confidence.

Tables whose names end in `_tree` have a hierarchy: packages of Debian with the facets of their tags
(`works-with` for `works-with::video`), emoji with group and subgroup besides their keywords, a
generated shop with departments, and generated titles with parents; the texts of the last two state
70% of their tags. A tenth of the correct tags is dropped, and a tenth as many wrong ones are added,
by frequency; titles have those of `benchmarks.titles`. The others are tables of
`benchmarks.ranking_tables` that lack tags.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks import vocabulary as lists
from benchmarks.ranking import auc
from benchmarks.ranking_tables import TABLES, Table, titles
from schirn import find_noisy_labels
from schirn.cleaning import Evidence, Ranker, RankingTask, RelationRanker, propose_vocabulary
from schirn.cleaning.find import choose_ranker, has_unit_rows
from schirn.cleaning.vocabulary import Vocabulary
from schirn.exceptions import DataError, InputError

Array = np.ndarray

N_ROWS = 3000
DROPPED = 0.1
WRONG = 0.1
# Share of the words of the shop, and of the tags of titles, that no text states: where every tag
# is stated, hardly any missing tag is left to find.
UNSTATED = 0.3
# Rows of a tag that is kept.
MIN_COUNT = 10
# Tables that lack tags.
LACKING = (
    *("cmc", "brighter_ron", "brighter_ukr", "crowd_relations", "debian_dropped"),
    *("cmc_vectors", "brighter_ron_vectors", "brighter_ukr_vectors", "crowd_relations_vectors"),
    *("debian_dropped_vectors", "emoji_keywords", "titles_confusable", "titles_dropped"),
    *("titles_mixed", "digits_dropped", "scene_dropped", "birds_dropped", "medical_dropped"),
    *("enron_dropped", "yeastmf_dropped"),
)
# What must hold: points of the AUC of missing tags, with a hierarchy and on every table.
GAIN = 1.0
LOSS = -0.2


class NamedTable(NamedTuple):
    """A table and the names of its labels."""

    table: Table
    names: list[str]


def with_faults(tags: list[list[str]], texts: list[str], min_count: int = MIN_COUNT) -> NamedTable:
    """Drop correct tags of rows and add wrong ones."""
    rng = np.random.default_rng(0)
    counts = Counter(tag for row in tags for tag in set(row))
    names = sorted(tag for tag, count in counts.items() if count >= min_count)
    place = {name: j for j, name in enumerate(names)}
    truth = np.zeros((len(tags), len(names)), dtype=np.uint8)
    for i, row in enumerate(tags):
        truth[i, [place[tag] for tag in row if tag in place]] = 1
    rows = np.flatnonzero(truth.any(axis=1))
    truth = truth[rows]
    listed = truth.copy()
    listed[rng.random(truth.shape) < DROPPED] = 0
    n_wrong = round(WRONG * int(truth.sum()))
    frequency = truth.sum(axis=0) / truth.sum()
    row = rng.integers(len(truth), size=n_wrong)
    listed[row, rng.choice(len(names), n_wrong, p=frequency)] = 1
    is_empty = ~listed.any(axis=1)
    listed[is_empty] = truth[is_empty]
    return NamedTable(Table([texts[i] for i in rows], listed, truth), names)


def debian_tree() -> NamedTable:
    """Return packages of Debian with the facets of their tags."""
    table = lists.debian()
    rows = np.random.default_rng(1).permutation(len(table.tags))[:N_ROWS]
    facets = [sorted({tag.partition("::")[0] for tag in table.tags[i]}) for i in rows]
    tags = [[*table.tags[i], *parents] for i, parents in zip(rows, facets, strict=True)]
    return with_faults(tags, [table.texts[i] for i in rows])


def emoji_tree() -> NamedTable:
    """Return the keywords of emoji with their group and subgroup, as npm delivers them."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "emojibase-data"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
        archive = next(Path(folder).glob("*.tgz"))
        emoji = json.loads(lists.member(archive, "package/en/data.json"))
        kinds = json.loads(lists.member(archive, "package/meta/groups.json"))
    emoji = [each for each in emoji if each.get("group") is not None]
    tags = [
        [
            *each.get("tags", []),
            kinds["groups"][str(each["group"])],
            kinds["subgroups"][str(each["subgroup"])],
        ]
        for each in emoji
    ]
    return with_faults(tags, [each["label"] for each in emoji], min_count=5)


def shop_tree() -> NamedTable:
    """Return the generated shop, whose texts state no department."""
    table = lists.shop(n_rows=N_ROWS)
    assert table.truth is not None
    rng = np.random.default_rng(0)
    texts = [
        " ".join(word for word in text.split() if rng.random() >= UNSTATED) for text in table.texts
    ]
    return with_faults(table.truth, texts)


def titles_tree() -> NamedTable:
    """Return generated titles whose kinds have parents; titles hardly ever state a parent."""
    table = titles(hierarchy=True, dropped=DROPPED, unstated=UNSTATED, n_tags=60)
    return _numbered(table)


def _numbered(table: Table) -> NamedTable:
    return NamedTable(table, [f"tag {j}" for j in range(table.listed.shape[1])])


TREES: dict[str, Callable[[], NamedTable]] = {
    "debian_tree": debian_tree,
    "emoji_tree": emoji_tree,
    "shop_tree": shop_tree,
    "titles_tree": titles_tree,
}


class Ranked(Ranker):
    """The default ranker with the log-odds of every unlisted cell, and with relations."""

    def __init__(self, is_text: bool, vocabulary: Vocabulary) -> None:
        self.is_text = is_text
        self.vocabulary = vocabulary
        self.evidence: list[Evidence] = []

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Judge by features, with relations, and with accepted lines as well."""
        task = replace(task, n_unlisted=task.tags.n_rows * len(task.columns))
        sparse = sp.issparse(X)
        scaled = self.is_text or (sparse and has_unit_rows(X))
        judged = _Judged(choose_ranker(None, task, scaled=scaled, sparse=sparse).rank(X, task))
        rankers = [judged, RelationRanker(judged), RelationRanker(judged, self.vocabulary)]
        self.evidence = [ranker.rank(X, task) for ranker in rankers]
        return self.evidence[0]


class _Judged(Ranker):
    """Returns evidence that was found before."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence

    def rank(self, X: Any, task: RankingTask) -> Evidence:
        """Return the evidence."""
        return self.evidence


def accepted_relations(table: NamedTable) -> Vocabulary:
    """Accept every implication and exclusion that is proposed with confidence."""
    X = table.table.X
    proposed = propose_vocabulary(
        table.table.listed, X, label_names=table.names, max_proposals=1000
    )
    vocabulary = Vocabulary()
    for line in proposed:
        if line.action in ("imply", "exclude") and line.is_sure:
            # Two lines that contradict each other cannot both be accepted.
            try:
                lines = [*vocabulary.lines, line]
                vocabulary = Vocabulary(lines).answer({len(lines) - 1: True})
            except InputError:
                continue
    return vocabulary


def measure(table: NamedTable) -> list[tuple[float, float]]:
    """AUC of wrong and of missing tags in percent: features, relations, accepted lines."""
    ranker = Ranked(table.table.is_text, accepted_relations(table))
    listed = table.table.listed
    truth = table.table.truth
    ranking = find_noisy_labels(
        table.table.X, listed, method=ranker, label_names=table.names, random_state=0
    )
    pairs = []
    for evidence in ranker.evidence:
        assert evidence.unlisted is not None
        # Cells of labels that no ranker judges come last.
        Z = np.full(listed.shape, -1e3)
        Z[ranking.row, ranking.column] = evidence.log_odds
        Z[evidence.unlisted.row, evidence.unlisted.column] = evidence.unlisted.log_odds
        is_listed = listed == 1
        wrong = auc(truth[is_listed] == 0, -Z[is_listed])
        missing = auc(truth[~is_listed], Z[~is_listed])
        pairs.append(tuple(np.nan if each is None else 100 * each for each in (wrong, missing)))
    return pairs


def report(names: list[str]) -> None:
    """Print a line per table, and whether the bounds hold."""
    columns = ("table", "tags", "AUC, wrong", "relations", "accepted")
    columns += ("AUC, missing", "relations", "accepted")
    print(f"| {' | '.join(columns)} |\n|---|{'--:|' * 7}")
    gains: dict[str, float] = {}
    for name in names:
        try:
            table = TREES[name]() if name in TREES else _numbered(TABLES[name]())
        except (DataError, SystemExit, OSError, subprocess.CalledProcessError) as error:
            print(f"{name}: left out ({error})")
            continue
        (wrong, missing), counted, accepted = measure(table)
        gains[name] = counted[1] - missing
        cells = [name, str(len(table.names))]
        cells += [f"{wrong:.1f}", f"{counted[0] - wrong:+.2f}", f"{accepted[0] - wrong:+.2f}"]
        cells += [f"{missing:.1f}", f"{gains[name]:+.2f}", f"{accepted[1] - missing:+.2f}"]
        print(f"| {' | '.join(cells)} |", flush=True)
    trees = [gains[name] for name in gains if name in TREES]
    print()
    if trees:
        verdict = "holds" if min(trees) >= GAIN else "FAILS"
        least = f"{min(trees):+.2f}, {np.mean(trees):+.2f} on average"
        print(f"- {verdict}: missing tags with a hierarchy at least {GAIN:+.1f} points: {least}")
    if gains:
        worst = min(gains, key=gains.__getitem__)
        verdict = "holds" if gains[worst] >= LOSS else "FAILS"
        print(f"- {verdict}: nowhere below {LOSS:+.1f}: {gains[worst]:+.2f} on {worst}")


def main() -> None:
    """Print the figures."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names of tables, with commas")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else [*TREES, *LACKING]
    with threadpool_limits(1):
        report(names)


if __name__ == "__main__":
    main()
