"""What the other tags of a row say about a tag."""

import numpy as np
import pytest
from scipy.special import logit

from schirn import find_noisy_labels
from schirn.cleaning import (
    CentroidRanker,
    Evidence,
    Ranker,
    RankingTask,
    RelationRanker,
    TextRanker,
    Vocabulary,
    VocabularyLine,
)
from schirn.cleaning._relation_proposals import share_interval
from schirn.cleaning.relation_ranker import Relations
from schirn.labels.tags import read_tags


class Undecided(Ranker):
    """Knows nothing: every cell is as likely as any other."""

    takes_votes = True

    def rank(self, X, task):
        shape = (task.tags.n_rows, len(task.tags.names))
        return Evidence.from_matrix(task, np.zeros(shape))


def kennel(n_rows=200, seed=0):
    """Rows with a child and its parent; dogs are no cats."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(n_rows):
        kind = rng.choice(["dog", "cat"])
        breed = {"dog": "poodle", "cat": "siamese"}[kind]
        rows.append([kind, breed, *(["old"] if rng.random() < 0.5 else [])])
    return rows


def relations(rows, vocabulary=None, fold=None):
    tags = read_tags(rows, None)
    task = RankingTask(tags, np.arange(len(tags.names)), np.zeros(len(tags.row), int), min_count=1)
    evidence = Evidence(np.full(len(tags.row), 20.0), np.ones(len(tags.row), bool))
    fold = np.arange(len(rows)) % 10 if fold is None else fold
    return Relations(task, evidence, vocabulary or Vocabulary(), fold), tags


def of(pair, tags, row, name):
    return float(pair.of(np.array([row]), np.array([tags.names.index(name)]))[0])


def test_a_missing_parent_is_the_likeliest_missing_tag():
    rows = kennel()
    rows[7] = ["poodle", "old"]
    ranking = find_noisy_labels(np.eye(200), rows, method=Undecided(), vocabulary=Vocabulary())
    missing = ranking.missing
    first = np.argmax(missing.confidence)
    assert (missing.row[first], missing.label_names[missing.column[first]]) == (7, "dog")
    plain = find_noisy_labels(np.eye(200), rows, method=Undecided())
    assert len(np.unique(plain.missing.confidence)) == 1


def test_two_exclusive_tags_make_each_other_suspicious():
    rows = kennel()
    rows[3] = ["old", "dog", "siamese"]
    ranking = find_noisy_labels(np.eye(200), rows, method=Undecided(), vocabulary=Vocabulary())
    suspects = ranking.suspects(2)
    assert {(int(i), str(name)) for i, name in zip(suspects.row, suspects.label, strict=True)} == {
        (3, "dog"),
        (3, "siamese"),
    }


def test_evidence_is_the_formula_on_the_other_folds():
    rows = kennel(40)
    pair, tags = relations(rows)
    row = next(i for i, names in enumerate(rows) if names == ["dog", "poodle"])
    others = [names for i, names in enumerate(rows) if i % 10 != row % 10]
    n_child = sum("poodle" in names for names in others)
    n_both = sum({"poodle", "dog"} <= set(names) for names in others)
    chance = sum("dog" in names for names in others) / len(others)
    low, _ = share_interval(np.array([n_both]), np.array([n_child]))
    expected = 0.5 * (np.log(low[0] / (1 - low[0])) - np.log(chance / (1 - chance)))
    assert of(pair, tags, row, "dog") == pytest.approx(expected, rel=1e-6)


def test_no_row_takes_part_in_its_own_verdict():
    rows = kennel(60)
    before, tags = relations(rows)
    # Row 5 is judged by the rows of other folds: what its own fold lists does not matter.
    value = of(before, tags, 5, "dog")
    other = [list(names) for names in rows]
    for i in range(15, 60, 10):
        other[i] = ["poodle", "siamese", "dog", "cat", "old"]
    after, tags = relations(other)
    assert of(after, tags, 5, "dog") == value


def test_a_copy_does_not_judge_its_original():
    X = np.vstack([np.eye(60), np.eye(60)[:3]])
    rows = [*kennel(60), ["dog", "siamese"], ["dog", "poodle"], ["cat", "siamese"]]
    before = find_noisy_labels(X, rows, method=Undecided(), vocabulary=Vocabulary())
    rows[60] = ["cat", "poodle"]
    after = find_noisy_labels(X, rows, method=Undecided(), vocabulary=Vocabulary())
    # Others are judged by it, and their scores move by its count.
    changes = (before.confidence != after.confidence) & (before.row < 60)
    assert changes[before.row != 0].any()
    own = before.row == 0
    shift = logit(after.confidence[own]) - logit(before.confidence[own])
    assert np.ptp(shift) == pytest.approx(0, abs=1e-9)


def test_few_rows_say_little():
    many, tags = relations(kennel(400))
    few, few_tags = relations(kennel(30))
    row = next(i for i, names in enumerate(kennel(30)) if names == ["dog", "poodle"])
    assert 0 < of(few, few_tags, row, "dog") < of(many, tags, row, "dog")


def test_accepted_lines_count_in_full_and_rejected_ones_not_at_all():
    rows = kennel(60)
    row = next(i for i, names in enumerate(rows) if names == ["dog", "poodle"])
    values = []
    for accept in ("no", "", "yes"):
        vocabulary = Vocabulary([VocabularyLine("imply", "poodle", "dog", accept=accept)])
        pair, tags = relations(rows, vocabulary)
        values.append(of(pair, tags, row, "dog"))
    assert values[0] == 0
    assert values[0] < values[1] < values[2]
    exclusion = VocabularyLine("exclude", "old", "dog", accept="yes")
    row = next(i for i, names in enumerate(rows) if names == ["dog", "poodle", "old"])
    plain, tags = relations(rows)
    strict, _ = relations(rows, Vocabulary([exclusion]))
    assert of(strict, tags, row, "old") < of(plain, tags, row, "old")


@pytest.mark.parametrize("ranker", [CentroidRanker(), TextRanker()])
def test_relations_change_the_order_and_leave_the_mean(ranker):
    rng = np.random.default_rng(0)
    rows = kennel(300)
    words = {"dog": "bark", "cat": "purr", "poodle": "curl", "siamese": "blue", "old": "grey"}
    texts = [
        " ".join(words[tag] for tag in row if rng.random() < 0.7) + f" {rng.integers(50)}"
        for row in rows
    ]
    plain = find_noisy_labels(texts, rows, method=ranker)
    ranking = find_noisy_labels(texts, rows, method=ranker, vocabulary=Vocabulary())
    assert ranking.method == plain.method
    assert ranking.confidence.mean() == pytest.approx(plain.confidence.mean(), abs=1e-6)
    assert not np.allclose(ranking.confidence, plain.confidence)
    assert len(ranking.missing.row) == len(plain.missing.row)
    again = find_noisy_labels(texts, rows, method=RelationRanker(ranker))
    np.testing.assert_array_equal(again.confidence, ranking.confidence)


def test_without_a_tag_that_can_be_judged_nothing_changes():
    ranking = find_noisy_labels(np.eye(3), [["a"], ["b"], ["c"]], vocabulary=Vocabulary())
    assert not ranking.removed.any()


def test_cells_are_compared_in_parts(monkeypatch):
    pair, tags = relations(kennel(50))
    whole = pair.of(tags.row, tags.column)
    monkeypatch.setattr("schirn.cleaning.relation_ranker._MOST_PAIRS", 5)
    np.testing.assert_array_equal(pair.of(tags.row, tags.column), whole)
