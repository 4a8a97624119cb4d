"""What fifty answers are worth: removals, the share of wrong tags, and false certificates.

    SCHIRN_DATA=folder python -m benchmarks.answers --audits 10

Three kinds of tables:

- titles: generated product titles that mention most of their tags, with wrong tags, dropped tags
  and labels that the text never mentions;
- real: data sets with the mistakes of people (`yeast*_full`, three workers of `crowd_relations`,
  one annotator of `cmc`, `brighter_ron` and `brighter_ukr`), and others with added wrong tags (need
  SCHIRN_DATA);
- scores: no features, only log-odds of right and wrong tags from two normal distributions, some of
  the right ones indistinguishable from wrong ones.

The truth answers 25 questions in each of two steps. Precision and recall count only tags without an
answer; an audit that removes nothing has no precision. With `--kind missing`,
missing tags are added instead, and recall counts all tags that were dropped. `--plain` asks and
removes without learning from answers: the ranking stays as it is, the second step asks around the
limit that the first one suggests, and rows may lose all their tags. `--worklist` compares
200 questions about the most suspicious tags of the real tables, ranked again after every ten, with
the first 200 by the confidence of Sieve, as in version 0.2, and by the ranking without answers; and
the next 200 after fifty answers with how many of them the answers expect to be wrong.
`--certificates` runs certificates of sets with exactly 90% wrong tags instead: watched after every
answer, without the lines that speak against it, drawn again ten times, begun again with other
removals after each failure, with all answers or with those of a file of decisions; begun again
after the misses, but no other answers, were given back to the first ranking; and begun with fewer
or more removals while the answers so far are left out, which the program cannot notice.
"""

import argparse
import os
import warnings
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from threadpoolctl import threadpool_limits

from benchmarks.ranking_tables import annotated
from benchmarks.votes import FILE, draw
from schirn import Sieve, find_noisy_labels
from schirn.app.workflow import Decisions, RowContent
from schirn.cleaning import Certificate, NoisyLabels
from schirn.cleaning.certificate import e_values
from schirn.cleaning.posterior import RankPosterior, normal_scores
from schirn.datasets import add_noise, load
from schirn.exceptions import DataError, EmptyCandidatesWarning
from schirn.features.pipeline import make_method
from schirn.features.table import read_features

ADDED = (("medical", 2), ("enron", 3), ("emotions", 2), ("scene", 1), ("yeast", 3))
REAL = ("yeastmf_full", "yeastcc_full", "yeastbp_full")
ANNOTATED = ("cmc", "brighter_ron", "brighter_ukr")
COLUMNS = (
    *("wrong", "removals", "right", "found", "below 80", "covered", "width", "first 200"),
    "predicted",
)


class Table(NamedTuple):
    """A ranking and the truth about its cells."""

    name: str
    ranking: NoisyLabels
    truth: np.ndarray
    by_sieve: np.ndarray | None = None
    """The tags in the order of Sieve's confidence, as in version 0.2."""


def real_table(name: str, X: Any, C: Any, truth: np.ndarray) -> Table:
    """Rank a table, also by the confidence of Sieve alone."""
    ranking = find_noisy_labels(X, C)
    X, _, is_text = read_features(X)
    model = make_method(Sieve, scaled=is_text, sparse=sp.issparse(X)).fit(X, C)
    confidence = np.asarray(model.label_confidence_)[ranking.row, ranking.column]
    judged = np.flatnonzero(ranking.judged)
    return Table(name, ranking, truth, judged[np.argsort(confidence[judged], kind="stable")])


def titles(
    seed: int, *, wrong: float, mention: float, silent: float = 0, dropped: float = 0, n: int = 2000
) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, tags and true tags of product titles; a share `silent` of the labels is never told."""
    rng, l = np.random.default_rng(seed), 30
    frequency = rng.dirichlet(np.full(l, 0.7)) * 2.5 + 0.01
    truth = rng.random((n, l)) < np.minimum(frequency, 0.6)
    words = [[f"w{j}x{k}" for k in range(3)] for j in range(l)]
    silent_labels = rng.random(l) < silent
    noise = [f"n{k}" for k in range(400)]
    texts = []
    for tags in truth:
        own = [rng.choice(words[j]) for j in np.flatnonzero(tags & ~silent_labels)]
        said = [word for word in own if rng.random() < mention]
        texts.append(" ".join([*said, *rng.choice(noise, 4)]))
    listed = truth & (rng.random((n, l)) >= dropped)
    number = int(wrong / (1 - wrong) * listed.sum())
    cells = np.flatnonzero(~truth)
    weight = np.broadcast_to(truth.mean(axis=0) + 0.01, (n, l)).ravel()[cells]
    added = rng.choice(cells, number, replace=False, p=weight / weight.sum())
    listed.ravel()[added] = True
    return texts, listed.astype(np.uint8), truth.astype(np.uint8)


def scores(seed: int, *, wrong: float, apart: float, silent: float, m: int = 3000) -> Table:
    """A ranking of made-up log-odds; a share `silent` of the right tags looks like wrong ones."""
    rng = np.random.default_rng(seed)
    row, column = np.arange(m) // 3, rng.integers(0, 20, m)
    _, first = np.unique(row * 20 + column, return_index=True)
    row, column = row[first], column[first]
    right = rng.random(len(row)) >= wrong
    shows = right & (rng.random(len(row)) >= silent)
    z = rng.normal(size=len(row)) + np.where(shows, apart, 0.0)
    names = [f"tag {j}" for j in range(20)]
    confidence, judged = 1 / (1 + np.exp(-z)), np.ones(len(row), dtype=bool)
    ranking = NoisyLabels.from_arrays(
        int(row[-1]) + 1, names, row, column, confidence, judged, "scores"
    )
    truth = np.zeros((ranking.n_rows, 20), dtype=np.uint8)
    truth[row, column] = right
    return Table(f"scores, {wrong:.0%} wrong, {apart:g} apart, {silent:.0%} silent", ranking, truth)


def tables(kinds: list[str], names: Collection[str] | None = None) -> Iterator[Table]:
    """All tables whose data are there, or those of some names."""

    def is_asked_for(name: str) -> bool:
        return names is None or name in names

    if "scores" in kinds:
        for seed, (wrong, apart, silent) in enumerate(
            (wrong, apart, silent)
            for wrong in (0.0, 0.03, 0.1, 0.2, 0.4)
            for apart in (1, 2, 3, 5)
            for silent in (0, 0.05, 0.2)
        ):
            table = scores(seed, wrong=wrong, apart=apart, silent=silent)
            if is_asked_for(table.name):
                yield table
    if "titles" in kinds:
        for seed, (wrong, mention, silent) in enumerate(
            (wrong, mention, silent)
            for wrong in (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
            for mention, silent in ((0.98, 0), (0.94, 0), (0.9, 0), (0.98, 0.2), (0.98, 0.33))
        ):
            name = f"titles, {wrong:.0%} wrong, {mention:.0%} mentioned, {silent:.0%} silent"
            if is_asked_for(name):
                made = titles(seed, wrong=wrong, mention=mention, silent=silent, dropped=0.08)
                texts, listed, truth = made
                yield Table(name, find_noisy_labels(texts, listed), truth)
    if "real" in kinds and "SCHIRN_DATA" in os.environ:
        if is_asked_for("crowd_relations"):
            X, votes, truth = draw(Path(os.environ["SCHIRN_DATA"]) / FILE, 0)
            yield real_table("crowd_relations", X, votes.candidates, truth)
        for name in filter(is_asked_for, ANNOTATED):
            texts = annotated(name)
            yield real_table(name, texts.X, texts.listed, texts.truth)
        for name, r in (*((name, 0) for name in REAL), *ADDED):
            label = f"{name}, {r} wrong tags added" if r else name
            if not is_asked_for(label):
                continue
            try:
                data = load(name)
            except DataError as error:
                print(f"Without {name}: {error}")
                continue
            C: Any = data.candidates
            if r:
                C = add_noise(data.y_true, r, random_state=r)
            yield real_table(label, data.X, C, data.y_true)


def answer(table: Table, ranking: NoisyLabels, n: int, kind: str, seed: int) -> NoisyLabels:
    """Let the truth answer n questions."""
    asked = ranking.questions(n, kind=kind, random_state=seed)
    return ranking.answered(asked, table.truth[asked.row, asked.column] == 1)


def quality(
    is_hit: np.ndarray, acted: np.ndarray, unasked: np.ndarray, n_unranked: int = 0
) -> dict[str, float]:
    """Precision and recall of removals or additions among the tags without an answer."""
    acted, hits = acted & unasked, is_hit & unasked
    precision = float(hits[acted].mean()) if acted.any() else np.nan
    return {
        "wrong": float(is_hit.mean()),
        "removals": float(acted.mean()),
        "right": precision,
        "found": float(hits[acted].sum() / max(int(hits.sum()) + n_unranked, 1)),
        "below 80": np.nan if np.isnan(precision) else float(precision < 0.8),
    }


def audit(table: Table, n: int, kind: str, seed: int) -> dict[str, float]:
    """Two steps of questions, and what they bring."""
    ranking = answer(table, table.ranking, n // 2, kind, seed)
    ranking = answer(table, ranking, n - n // 2, kind, seed)
    tags: Any = ranking if kind == "listed" else ranking.missing
    acted = ranking.removed if kind == "listed" else ranking.added
    is_hit = table.truth[tags.row, tags.column] == (0 if kind == "listed" else 1)
    unasked = np.isnan(tags.worklist.answer)
    # Not all missing tags are ranked.
    n_unranked = 0
    if kind == "missing":
        n_unranked = int(table.truth.sum() - table.truth[ranking.row, ranking.column].sum())
        n_unranked -= int(is_hit.sum())
    low, high = ranking.wrong_share_interval
    share = float(is_hit[ranking.judged].mean()) if kind == "listed" else np.nan
    return {
        **quality(is_hit, acted, unasked, n_unranked),
        "covered": float(low <= share <= high) if kind == "listed" else np.nan,
        "width": high - low if kind == "listed" else np.nan,
        "first 200": float(is_hit[tags.worklist.order[:200]].mean()),
        "predicted": tags.worklist.posterior.expected_hits(200) / 200,
    }


def plain_audit(table: Table, n: int, seed: int) -> dict[str, float]:
    """Two steps of questions in the order of the ranking, which no answer changes."""
    ranking, rng = table.ranking, np.random.default_rng(seed)
    usable = np.flatnonzero(ranking.worklist.usable)
    score = normal_scores(ranking.model_confidence[usable])
    order, size = np.argsort(score), len(score)
    is_wrong = table.truth[ranking.row, ranking.column] == 0

    def draw(count: int, low: int, high: int) -> np.ndarray:
        position = low + (np.arange(count) + rng.random(count)) * (high - low) / count
        return np.asarray(order[np.minimum(position.astype(int), size - 1)])

    def posterior(asked: np.ndarray) -> RankPosterior:
        return RankPosterior(score[asked], is_wrong[usable[asked]], score[order])

    asked = draw(n // 2, 0, size)
    k = max(posterior(asked).limit(ranking.precision), int(0.03 * size))
    asked = np.r_[asked, draw(n - n // 2, k // 2, min(size, k + k // 2))]
    result = posterior(asked)
    removed, unasked = np.zeros(len(is_wrong), dtype=bool), np.ones(len(is_wrong), dtype=bool)
    removed[usable[order[: result.limit(ranking.precision)]]] = True
    unasked[usable[asked]] = False
    _, low, high = result.share_interval(size)
    return {
        **quality(is_wrong, removed, unasked),
        "covered": float(low <= is_wrong[ranking.judged].mean() <= high),
        "width": high - low,
        "first 200": float(is_wrong[usable[order[:200]]].mean()),
        "predicted": result.expected_hits(200) / 200,
    }


def worklist(table: Table, n_audits: int) -> list[float]:
    """Shares of wrong tags in 200 questions.

    By Sieve alone, without answers, ranked again after every ten answers, and after fifty answers
    in two steps, where the last number is what these expect.
    """
    ranking = table.ranking
    right = table.truth[ranking.row, ranking.column] == 1
    first = (table.by_sieve[:200], ranking.worklist.order[:200])
    shares = [*(float((~right[tags]).mean()) for tags in first), 0.0]
    for _ in range(20):
        asked = ranking.suspects(10)
        right = table.truth[asked.row, asked.column] == 1
        ranking = ranking.answered(asked, right)
        shares[2] += float((~right).sum() / 200)
    after = mean([audit(table, 50, "listed", seed) for seed in range(n_audits)])
    return [*shares, after["first 200"], after["predicted"]]


def certificates(runs: int) -> None:
    """Share of false certificates at the boundary, by several ways to stop."""
    rng = np.random.default_rng(0)
    ways = (
        *("every answer", "lines deleted", "draw again", "other removals", "decisions"),
        *("misses given back", "answers left out"),
    )
    false = dict.fromkeys(ways, 0)
    for run in range(runs):
        table = scores(int(rng.integers(2**31)), wrong=0.3, apart=1, silent=0, m=300)
        # Exactly 90% of the first 200 suspects are wrong, in random places.
        order = table.ranking.worklist.order
        right = np.zeros(len(order), dtype=bool)
        right[order[rng.permutation(200)[:20]]] = True
        right[order[200:]] = rng.random(len(order) - 200) < 0.5
        place = table.ranking.matrix(np.arange(len(right)))
        free = table.ranking.at(keep_one=False)

        ordered = free.remove(200)
        draws = [
            is_certified(ordered.certify(0.9, random_state=r), right, place) for r in range(10)
        ]
        false["every answer"] += draws[0]
        first = ordered.certify(0.9)
        n_before = int(np.argmax([*right[_members(first, place)], True]))
        false["lines deleted"] += is_certified(first, right, place, n_before)
        sizes = [free.remove(k) for k in range(100, 201, 20)]
        false["answers left out"] += any(
            right[each.removed].mean() >= 0.1 and is_certified(each.certify(0.9), right, place)
            for each in sizes
        )
        false["draw again"] += any(draws)
        # Slower, so only a tenth as often.
        if run % 10 == 0:
            false["other removals"] += 10 * other_removals(free, right, place)
            false["decisions"] += 10 * through_decisions(free, right, place)
            false["misses given back"] += 10 * misses_given_back(free, right, place)
    print("| way to stop | false certificates in % |\n|---|--:|")
    for way, count in false.items():
        print(f"| {way} | {100 * count / runs:.1f} |")


def is_certified(
    certificate: Certificate, right: np.ndarray, place: np.ndarray, most: int | None = None
) -> bool:
    """Whether the e-value reaches its limit within the first answers, watched after each."""
    is_miss = right[_members(certificate, place)][:most]
    values = e_values(is_miss, certificate.n_tags, certificate.n_tags * 0.1)
    return bool(values.max(initial=0) >= certificate.needed)


def _members(certificate: Certificate, place: np.ndarray) -> list[int]:
    """Tags of a certificate in the order of drawing."""
    names = certificate.ranking.label_names  # type: ignore[union-attr]
    return [place[row, names.index(label)] for row, label in certificate.order or ()]


def other_removals(ranking: NoisyLabels, right: np.ndarray, place: np.ndarray) -> bool:
    """Certify 30 answers at a time, and order the removals again after each failure."""
    for _ in range(6):
        certificate = ranking.remove(200 - ranking.n_answers).certify(0.9)
        asked = certificate.questions(30)
        if not len(asked):
            return False
        removed = certificate.ranking.removed & np.isnan(ranking.worklist.answer)  # type: ignore[union-attr]
        if is_certified(certificate, right, place, 30) and right[removed].mean() >= 0.1:
            return True
        ranking = ranking.answered(asked, right[place[asked.row, asked.column]])
    return False


def through_decisions(ranking: NoisyLabels, right: np.ndarray, place: np.ndarray) -> bool:
    """Like `other_removals`, but each attempt knows only what a file of decisions holds."""
    ids = [f"row {i}" for i in range(ranking.n_rows)]
    rows = RowContent(ids, {"id": ids}, ["id"])
    with TemporaryDirectory() as folder:
        for _ in range(6):
            store = Decisions(Path(folder, "decisions.jsonl"))
            known, _ = store.answer(forgetful(ranking), rows)
            certificate = known.remove(200 - known.n_answers).certify(0.9)
            if failed(certificate, right, place):
                return True
            certificate = answered(certificate, right, place)
            draws = dict.fromkeys(certificate.answers, certificate.draw)
            store.save(certificate.ranking or known, rows, draws=draws)
    return False


def misses_given_back(ranking: NoisyLabels, right: np.ndarray, place: np.ndarray) -> bool:
    """Begin again after each failure; only the misses leave the set."""
    ordered = ranking.remove(200).removed
    for _ in range(6):
        certificate = ranking.with_orders(ordered).certify(0.9)
        if failed(certificate, right, place):
            return True
        certificate = answered(certificate, right, place)
        misses = [tag for tag, is_right in certificate.answers.items() if is_right]
        ranking = ranking.answered(ranking.questions_about(misses), [True] * len(misses))
    return False


def forgetful(ranking: NoisyLabels) -> NoisyLabels:
    """The ranking as another run of the program makes it, which has seen no draw."""
    return replace(ranking, ranked=replace(ranking.ranked, draws={}))


def failed(certificate: Certificate, right: np.ndarray, place: np.ndarray) -> bool:
    """Whether 30 answers certify falsely."""
    is_false = right[_members(certificate, place)].mean() >= 0.1
    return bool(is_false and is_certified(certificate, right, place, 30))


def answered(certificate: Certificate, right: np.ndarray, place: np.ndarray) -> Certificate:
    """The certificate with the next 30 answers."""
    asked = certificate.questions(30)
    return certificate.answered(asked, right[place[asked.row, asked.column]])


def percent(name: str, values: Iterable[float]) -> str:
    """A line of the table, in percent."""
    cells = ("–" if np.isnan(value) else f"{100 * value:.1f}" for value in values)
    return f"| {name} | " + " | ".join(cells) + " |"


def line(name: str, values: dict[str, float]) -> str:
    """A line of the table of audits."""
    return percent(name, (values[column] for column in COLUMNS))


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    """Mean of every column over the rows that have one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return {name: float(np.nanmean([row[name] for row in rows])) for name in COLUMNS}


def main() -> None:
    """Print one line per table, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=10)
    parser.add_argument("--answers", type=int, default=50)
    parser.add_argument("--kind", choices=("listed", "missing"), default="listed")
    parser.add_argument("--tables", default="scores,titles,real")
    parser.add_argument("--precision", type=float, default=0.9)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--worklist", action="store_true")
    parser.add_argument("--certificates", type=int, metavar="RUNS")
    args = parser.parse_args()
    warnings.simplefilter("ignore", EmptyCandidatesWarning)
    if args.certificates:
        certificates(args.certificates)
        return
    if args.worklist:
        print("| table | Sieve alone | without answers | ranked again | next 200 | predicted |")
        print("|---|--:|--:|--:|--:|--:|")
        shares = []
        for table in tables(["real"]):
            shares.append(worklist(table, args.audits))
            print(percent(table.name, shares[-1]), flush=True)
        print(percent("**mean**", np.mean(shares, axis=0)))
        return
    print("| table | " + " | ".join(COLUMNS) + " |\n|---|" + "--:|" * len(COLUMNS))
    rows: dict[str, list[dict[str, float]]] = {}
    with threadpool_limits(1):
        for table in tables(args.tables.split(",")):
            table = table._replace(ranking=table.ranking.at(precision=args.precision))
            audits = [
                plain_audit(table, args.answers, seed)
                if args.plain
                else audit(table, args.answers, args.kind, seed)
                for seed in range(args.audits)
            ]
            rows.setdefault(table.name.partition(",")[0], []).extend(audits)
            print(line(table.name, mean(audits)), flush=True)
    groups = {name: audits for name, audits in rows.items() if name in ("scores", "titles")}
    real = [row for name, audits in rows.items() if name not in groups for row in audits]
    groups |= {"real": real} if real else {}
    everything = [row for audits in groups.values() for row in audits]
    for name, audits in {**groups, "all": everything}.items():
        print(line(f"**mean, {name}**", mean(audits)))
    noisy = [row for row in everything if row["wrong"] >= 0.05]
    if noisy:
        print(line("**mean, at least 5% wrong**", mean(noisy)))


if __name__ == "__main__":
    main()
