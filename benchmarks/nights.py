"""Nights: rows that a model has seen, and removals that were written back.

    python -m benchmarks.nights --rows 3000

A model judges the rows that it was trained on without them, also after an edit and as a copy.

Generates product titles with wrong tags and trains a tagger on them. Then the same rows come back:
unchanged, with a word added, with a word deleted, with a typing error, and as copies. Of the tags
that scores computed without the row call wrong, it prints how many `disambiguate` calls wrong, and
how many the model alone, which has seen the rows. The first line compares these scores with models
that were trained on nine tenths of the rows.

Then a tenth of the rows is in the training table twice, and another tenth a second time with a word
added, each with the same tags: it prints how many of the wrong tags are judged wrong in rows with a
double and in the others.

Last, two shops clean these titles every night with 25 perfect answers: one keeps its table, the
other writes the removals back, so that they leave the table. For both, it prints how many answers
count, how many tags are newly removed, how many wrong ones are left, and how many correct ones are
lost.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from benchmarks.titles import Titles, make_titles
from schirn.app.workflow import Decision, Decisions, RowContent, state_after_training, update_tags
from schirn.estimators import Sieve
from schirn.features import TagPipeline
from schirn.linalg.arrays import to_numpy

_NIGHTS = 4
# Share of new rows each night, in the number of rows at first.
_NEW = 0.05


def main() -> None:
    """Print the share of removals that each kind of row keeps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--method", default="Sieve")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    titles = make_titles(args.rows, random_state=args.seed)
    listed = titles.listed.astype(np.uint8)
    table = {"title": list(titles.texts)}
    tagger = TagPipeline(text="title", method=args.method).fit(table, listed)
    method = tagger.method_
    rows = tagger.features_.transform(table)
    is_wrong = (listed == 1) & (method.disambiguate(rows, listed) < 0.5)
    in_folds = (listed == 1) & (judged_without_the_row(table, listed, args) < 0.5)
    shared = (is_wrong & in_folds).sum() / in_folds.sum()
    print(f"{args.rows:,} titles, {is_wrong.sum():,} of {listed.sum():,} tags judged wrong without")
    print(f"the row; {shared:.1%} of the {in_folds.sum():,} that ten folds judge wrong")
    print(f"{'rows':20s}{'recognised':>12s}{'removals kept':>15s}{'by the model alone':>20s}")
    for name, texts in edits(titles.texts, args.seed).items():
        rows = tagger.features_.transform({"title": texts})
        recognised = (method.training_row_of(rows) >= 0).mean()
        remaining = (method.disambiguate(rows, listed) < 0.5)[is_wrong].mean()
        alone = (judged_by_the_model(method, rows, listed) < 0.5)[is_wrong].mean()
        print(f"{name:20s}{recognised:12.1%}{remaining:15.1%}{alone:20.1%}")
    fresh = make_titles(args.rows, random_state=args.seed + 1)
    rows = tagger.features_.transform({"title": list(fresh.texts)})
    print(f"{'other titles':20s}{(tagger.method_.training_row_of(rows) >= 0).mean():12.1%}")
    print_doubles(titles, args)
    print_loops(args)


def print_doubles(titles: Any, args: argparse.Namespace) -> None:
    """Print how many wrong tags are found in rows that have a double in the training table."""
    tenth = args.rows // 10
    doubled = np.arange(2 * tenth)
    texts = list(titles.texts)
    texts += texts[:tenth] + [f"{text} updated" for text in texts[tenth : 2 * tenth]]
    listed = np.r_[titles.listed, titles.listed[doubled]].astype(np.uint8)
    is_wrong = (listed == 1) & (np.r_[titles.truth, titles.truth[doubled]] == 0)
    tagger = TagPipeline(text="title", method=args.method).fit({"title": texts}, listed)
    rows = tagger.features_.transform({"title": texts})
    is_judged_wrong = tagger.method_.disambiguate(rows, listed) < 0.5
    has_double = np.isin(np.arange(len(listed)) % args.rows, doubled)
    for name, chosen in (("rows with a double", has_double), ("other rows", ~has_double)):
        share = is_judged_wrong[chosen][is_wrong[chosen]].mean()
        print(f"{name}: {share:.1%} of {is_wrong[chosen].sum():,} wrong tags are judged wrong")


def print_loops(args: argparse.Namespace) -> None:
    """Print what a shop that keeps its table removes, and one that writes the removals back."""
    n_new = int(_NEW * args.rows)
    titles = make_titles(args.rows + _NIGHTS * n_new, random_state=args.seed)
    ends = args.rows + n_new * np.arange(_NIGHTS + 1)
    loops = [nights(titles, ends, args.method, writes_back) for writes_back in (False, True)]
    names = ("answers", "removed", "wrong left", "lost")
    print(f"{'':8s}{'table kept':>44s}{'written back':>44s}")
    print(f"{'night':8s}" + 2 * "".join(f"{name:>11s}" for name in names))
    for night, figures in enumerate(zip(*loops, strict=True)):
        print(f"{night:<8d}" + "".join(f"{value:11,d}" for line in figures for value in line))


def nights(
    titles: Titles, ends: np.ndarray, method: str, writes_back: bool
) -> list[tuple[int, int, int, int]]:
    """Return answers that count, new removals, wrong tags left and correct ones lost, by night."""
    tags = [titles.names_of(row) for row in titles.listed]
    truth = [set(titles.names_of(row)) for row in titles.truth]

    def table(n: int) -> tuple[dict[str, list[str]], list[list[str]], RowContent]:
        columns = {"title": list(titles.texts[:n])}
        return columns, tags[:n], RowContent([str(i) for i in range(n)], columns, ["title"])

    columns, listed, rows = table(ends[0])
    tagger = TagPipeline(text="title", method=method).fit(columns, listed)
    X = tagger.features_.transform(columns)
    state = state_after_training(tagger.method_, rows, listed, X)
    figures = []
    n_lost = 0
    with tempfile.TemporaryDirectory() as folder:
        decisions = Decisions(Path(folder) / "decisions.jsonl")
        for n in ends:
            n_removed = 0
            # The first night begins with three rounds of questions.
            for _ in range(3 if n == ends[0] else 1):
                update = update_tags(tagger, *table(n), last=state, decisions=decisions)
                state = update.state
                n_removed += len(update.removed)
                asked = update.ranking.questions(25)
                for i, tag in zip(asked.row.tolist(), asked.label.tolist(), strict=True):
                    answer = "right" if tag in truth[i] else "wrong"
                    decisions.add([Decision(str(i), tag, answer)])
            ranking = update.ranking
            cells = list(zip(ranking.row.tolist(), ranking.label.tolist(), strict=True))
            is_right = np.array([tag in truth[i] for i, tag in cells])
            n_wrong = int((~is_right & ~ranking.removed).sum())
            n_lost_now = int((is_right & ranking.removed).sum())
            figures.append((ranking.n_answers, n_removed, n_wrong, n_lost + n_lost_now))
            if writes_back:
                n_lost += n_lost_now
                for k in np.flatnonzero(ranking.removed):
                    i, tag = cells[k]
                    tags[i] = [other for other in tags[i] if other != tag]
    return figures


def judged_by_the_model(method: Any, rows: Any, listed: np.ndarray) -> np.ndarray:
    """Return the confidence in the tags of rows that the model may have seen."""
    scores = to_numpy(method.decision_function(rows))
    if isinstance(method, Sieve):
        return method.posterior_of_candidates(scores, listed)
    return method.calibration_.confidence(scores, listed)


def judged_without_the_row(table: dict, listed: np.ndarray, args: argparse.Namespace) -> np.ndarray:
    """Return the confidence in the tags of each row, by models that have not seen the row."""
    confidence = np.zeros(listed.shape)
    texts = np.array(table["title"], dtype=object)
    for train, test in KFold(10, shuffle=True, random_state=args.seed).split(listed):
        tagger = TagPipeline(text="title", method=args.method)
        tagger.fit({"title": texts[train].tolist()}, listed[train])
        rows = tagger.features_.transform({"title": texts[test].tolist()})
        names = [int(name) for name in tagger.label_names_]
        confidence[np.ix_(test, names)] = tagger.method_.disambiguate(rows, listed[test][:, names])
    return confidence


def edits(texts: list[str], seed: int) -> dict[str, list[str]]:
    """Return the texts as they come back."""
    rng = np.random.default_rng(seed)

    def without_a_word(text: str) -> str:
        words = text.split()
        del words[rng.integers(len(words))]
        return " ".join(words)

    def with_a_typing_error(text: str) -> str:
        place = int(rng.integers(1, len(text) - 1))
        return text[: place - 1] + text[place] + text[place - 1] + text[place + 1 :]

    return {
        "unchanged, copies": list(texts),
        "a word added": [f"{text} updated" for text in texts],
        "a word deleted": [without_a_word(text) for text in texts],
        "a typing error": [with_a_typing_error(text) for text in texts],
    }


if __name__ == "__main__":
    main()
