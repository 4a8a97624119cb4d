"""Proposals for a list of tags: what is proposed, what is not, and what is never asked again."""

import re

import numpy as np
import pytest
import scipy.sparse as sp

from benchmarks.vocabulary import plant, score, shop
from schirn.cleaning import Vocabulary, VocabularyLine, propose_vocabulary
from schirn.cleaning._merge_proposals import PairUse, _combined
from schirn.exceptions import InputError
from schirn.features import TextFeatures


def proposed(vocabulary, action):
    return {(line.tag, line.target) for line in vocabulary if line.action == action}


@pytest.fixture(scope="module")
def table():
    return shop(0, 3000)


def topic_rows(topics, rng):
    """Rows of tags and texts from a dict from a tag to the words of its texts."""
    tags, texts = [], []
    for tag, (words, count) in topics.items():
        for _ in range(count):
            tags.append(list(tag))
            texts.append(" ".join(rng.choice(words.split(), 4)))
    return tags, texts


FILLING = {
    (f"topic{j}", f"facet{k}"): (" ".join(f"w{j}x{m}" for m in range(6)), 12)
    for j in range(6)
    for k in range(3)
}
HTTP = "request server agent proxy tls header socket"


def test_levels_of_a_name_imply_each_other():
    rng = np.random.default_rng(0)
    plants = "leaf root stem seed petal"
    topics = {
        **FILLING,
        ("field::biology", "field::biology:botany"): (plants, 20),
        ("field::biology:botany",): (plants, 15),
        ("field::biology",): ("cell gene protein enzyme", 10),
        # Never beside each other: this table does not list both levels.
        ("hardware",): ("disk cable board power", 20),
        ("hardware/input",): ("mouse keyboard joystick pad", 20),
    }
    vocabulary = propose_vocabulary(*topic_rows(topics, rng))
    implied = [line for line in vocabulary if line.action == "imply"]
    assert [(line.tag, line.target) for line in implied].count(
        ("field::biology:botany", "field::biology")
    ) == 1
    assert "hardware/input" not in {line.tag for line in implied}
    line = next(line for line in implied if line.tag == "field::biology:botany")
    assert "its name begins with field::biology, which 57% of its rows have; 15 lack it" in (
        line.evidence
    )
    assert line.is_sure


def test_names_of_one_thing_are_merged_and_names_of_two_are_not():
    rng = np.random.default_rng(0)
    topics = {
        **FILLING,
        ("util",): ("helper tools common misc", 40),
        ("utils",): ("helper tools common misc", 20),
        ("window",): ("frame title resize border", 30),
        ("windows",): ("registry microsoft service desktop", 20),
        ("iot",): ("sensor device home mqtt", 30),
        ("io-ts",): ("codec type decode runtime", 20),
        ("axe",): ("wood chop tool blade", 30),
        ("axes",): ("plot scale tick chart", 20),
        ("http",): (HTTP, 60),
        ("https", "http"): (HTTP, 20),
    }
    vocabulary = propose_vocabulary(*topic_rows(topics, rng))
    sure = {(line.tag, line.target) for line in vocabulary if line.is_sure}
    assert ("utils", "util") in sure
    merges = {frozenset({line.tag, line.target}) for line in vocabulary if line.action == "merge"}
    sure_merges = {
        frozenset({line.tag, line.target})
        for line in vocabulary
        if line.action == "merge" and line.is_sure
    }
    assert frozenset({"iot", "io-ts"}) not in merges
    questions = [("window", "windows"), ("http", "https"), ("axe", "axes")]
    assert sure_merges.isdisjoint(map(frozenset, questions))


def lines_of(topics):
    vocabulary = propose_vocabulary(*topic_rows(topics, np.random.default_rng(0)))
    return {frozenset({line.tag, line.target}): line for line in vocabulary if line.target}


def test_a_plural_is_a_question_unless_its_use_shows_that_it_is_another_word():
    topics = {
        **FILLING,
        # Neither rare nor alike: two projects that describe other things.
        ("module", "topic2"): ("import export bundle loader", 15),
        ("modules", "topic3"): ("star planet orbit moon", 15),
        ("plugin",): ("extend hook register option", 45),
        ("plugins",): ("cat dog bird fish", 1),
        # Listed together on purpose.
        ("http",): (HTTP, 40),
        ("https", "http"): (HTTP, 20),
        # Evidently two kinds of rows.
        ("window", "topic0"): ("frame title resize border", 200),
        ("windows", "topic1"): ("registry microsoft service desktop", 200),
    }
    lines = lines_of(topics)
    for pair in (("module", "modules"), ("plugin", "plugins")):
        line = lines[frozenset(pair)]
        assert not line.is_sure
        assert line.confidence >= 0.2
        assert line.evidence.startswith("plural; ")
    assert lines.keys().isdisjoint(map(frozenset, [("http", "https"), ("window", "windows")]))


def test_a_common_stem_is_no_question_about_a_tag_of_one_row():
    rng = np.random.default_rng(0)
    tags = []
    texts = []
    for k in range(300):
        topic = k % 20
        tags.append([f"t{topic}a{j}" for j in rng.choice(6, 3, replace=False)])
        texts.append(" ".join(f"w{topic}b{j}" for j in rng.choice(30, 6, replace=False)))
    pairs = [("project", "projection"), ("prefer", "prefix"), ("state", "status")]
    for topic, (rare, frequent) in enumerate(pairs):
        # Tags of one topic, on rows that have no more in common than others of the topic.
        for j, name in enumerate([frequent, frequent, frequent, rare]):
            tags[20 * j + topic].append(name)
    merges = {frozenset(pair) for pair in proposed(propose_vocabulary(tags, texts), "merge")}
    assert merges.isdisjoint(map(frozenset, pairs))


def test_equally_frequent_spellings_all_have_one_target():
    rows = [["data structure"], ["data-structure"], ["datastructure"], ["tree"], ["map"]]
    merges = proposed(propose_vocabulary(rows * 2), "merge")
    assert len(merges) == 2
    assert len({target for _, target in merges}) == 1


@pytest.mark.parametrize("seed", [0, 1])
def test_planted_faults(seed):
    result = score(shop(seed, 3000), seed)
    hits = [hit for kind in result.recall.values() for hit in kind]
    assert np.mean(result.relations[:50]) >= 0.9
    assert np.mean(result.others) >= 0.75
    assert np.mean(hits) >= 0.7
    assert result.sure_in_clean <= 5


def test_best_first_and_at_most_as_many_as_asked(table):
    planted = plant(table, 0)
    vocabulary = propose_vocabulary(planted.tags, table.texts, max_proposals=10)
    assert len(vocabulary) == 10
    assert all(line.is_sure for line in vocabulary)
    assert len(propose_vocabulary(planted.tags, table.texts, max_proposals=0)) == 0


def test_counts_are_those_of_the_table(table):
    planted = plant(table, 0)
    for line in propose_vocabulary(planted.tags, table.texts):
        rows = [set(row) for row in planted.tags]
        assert line.rows == sum(line.tag in row for row in rows)
        if line.target:
            assert line.rows_target == sum(line.target in row for row in rows)
            assert line.both == sum({line.tag, line.target} <= row for row in rows)


@pytest.mark.slow
def test_nothing_that_was_rejected_comes_back(table):
    planted = plant(table, 0)
    features = TextFeatures(max_characters=0).fit_transform(table.texts)
    rng = np.random.default_rng(0)
    vocabulary = Vocabulary()
    asked = set()
    for _ in range(20):
        vocabulary = propose_vocabulary(
            planted.tags, features, vocabulary=vocabulary, max_proposals=6
        )
        questions = {(line.action, frozenset({line.tag, line.target})) for line in vocabulary.open}
        assert len(questions) == len(vocabulary.open)
        assert asked.isdisjoint(questions)
        asked |= questions
        answered = len(vocabulary.answered)
        answers = {answered + k: bool(rng.random() < 0.5) for k in range(len(vocabulary.open))}
        vocabulary = vocabulary.answer(answers)
    assert len(asked) >= 40


def test_accepted_lines_apply_before_anything_is_proposed():
    rows = [["pan", "kitchen"], ["Pan"], ["lamp"], ["lamp", "light"]] * 10
    accepted = VocabularyLine("merge", "Pan", "pan", accept="yes")
    vocabulary = propose_vocabulary(rows, vocabulary=Vocabulary([accepted]))
    assert vocabulary[0] == accepted
    assert all("Pan" not in (line.tag, line.target) for line in vocabulary.lines[1:])
    assert all(line.rows == 20 for line in vocabulary.lines[1:] if line.tag == "pan")


def test_all_proposals_may_be_accepted_together(table):
    planted = plant(table, 0)
    vocabulary = propose_vocabulary(planted.tags, table.texts)
    accepted = vocabulary.answer(dict.fromkeys(range(len(vocabulary)), True))
    applied = accepted.apply(planted.tags)
    assert accepted.apply(applied.rows).changes == []


def test_sparse_and_dense_features_agree(table):
    features = TextFeatures(max_characters=0).fit_transform(table.texts)
    features = sp.csr_array(features[:800])
    sparse = propose_vocabulary(table.tags[:800], features)
    dense = propose_vocabulary(table.tags[:800], features.toarray())
    assert [str(line) for line in sparse] == [str(line) for line in dense]


def test_results_do_not_depend_on_the_order_of_tags(table):
    planted = plant(table, 1)
    lines = propose_vocabulary(planted.tags, table.texts)
    turned = propose_vocabulary([row[::-1] for row in planted.tags], table.texts)
    assert proposed(lines, "merge") == proposed(turned, "merge")
    assert proposed(lines, "imply") == proposed(turned, "imply")


@pytest.mark.parametrize(
    "rows",
    [
        [["a"], ["b"]],
        [["a"]] * 30,
        [[], ["a"]],
        [["a", "b"]] * 40,
        [["a"] * 1 + [f"t{i}"] for i in range(50)],
    ],
)
@pytest.mark.parametrize("with_texts", [False, True])
def test_degenerate_tables(rows, with_texts):
    texts = ["one word"] * len(rows) if with_texts else None
    vocabulary = propose_vocabulary(rows, texts)
    assert all(line.action != "merge" or not line.is_sure for line in vocabulary)


def test_a_parent_of_two_children_is_not_split():
    rng = np.random.default_rng(0)
    topics = {
        **FILLING,
        ("coat", "clothing"): ("warm winter hood sleeve", 60),
        ("shoe", "clothing"): ("sole lace heel leather", 60),
        ("bank",): ("river shore water flood", 50),
    }
    rows, texts = topic_rows(topics, rng)
    more, words = topic_rows({("bank",): ("money credit account interest", 50)}, rng)
    splits = proposed(propose_vocabulary(rows + more, texts + words), "split")
    assert splits == {("bank", "")}


def test_bad_input():
    with pytest.raises(InputError, match="X has 1 rows"):
        propose_vocabulary([["a"], ["b"]], ["text"])
    with pytest.raises(InputError, match="the text of every row"):
        propose_vocabulary([["a"], ["b"]], "text")
    with pytest.raises(InputError, match="max_proposals"):
        propose_vocabulary([["a"]], max_proposals=-1)


def javascript(n_rows):
    """One language in two spellings on unlike rows, a quarter of them with capital letters."""
    rng = np.random.default_rng(0)
    tags, texts = topic_rows(FILLING, rng)
    for k in range(n_rows):
        side = int(k < n_rows // 4)
        name = ("javascript", "JavaScript")[side]
        tags.append([name, f"topic{side + 2 * rng.integers(3)}"])
        texts.append(" ".join(f"{'ab'[side]}{j}" for j in rng.integers(40, size=4)))
    for k in range(150):
        tags[k].append(f"once{k}word")
    return tags, texts


def test_two_spellings_of_a_frequent_name_are_certain_unless_many_rows_clearly_differ():
    for n_rows, is_sure in ((80, True), (400, False)):
        lines = propose_vocabulary(*javascript(n_rows))
        assert [line.is_sure for line in lines if line.tag == "JavaScript"] == [is_sure]


def test_tags_used_once_come_last_and_only_if_asked_for():
    table = javascript(400)
    lines = propose_vocabulary(*table, used_once=True, max_proposals=200).lines
    used_once = [line for line in lines if line.is_used_once]
    assert len(used_once) == 150
    assert list(lines[-150:]) == used_once
    vocabulary = propose_vocabulary(*table, max_proposals=200)
    assert vocabulary.lines == lines[:-150]
    assert sum(line.is_used_once for line in vocabulary.unlisted) == 150


def test_all_spellings_of_a_name_go_to_the_most_frequent_one():
    rng = np.random.default_rng(0)
    tags, texts = topic_rows(FILLING, rng)
    words = "table column row cell"
    names = ["data"] * 30 + ["Data", "DATA"] + ["json"] * 40 + ["JSON"] * 12 + ["e mail", "E-Mail"]
    tags += [[name] for name in names]
    texts += [" ".join(rng.choice(words.split(), 3)) for _ in names]
    tags += [["once"]]
    texts += ["plate fork"]
    lines = list(propose_vocabulary(tags, texts, used_once=True))
    merges = {line.tag: line.target for line in lines if line.action == "merge" and line.is_sure}
    assert (merges["Data"], merges["DATA"], merges["JSON"]) == ("data", "data", "json")
    assert len(merges.keys() & {"e mail", "E-Mail"}) == 1
    spellings = [line.tag for line in lines if line.is_spelling]
    assert spellings[0] == "JSON"
    # A name that is merged is not dropped as well.
    assert [line.tag for line in lines if line.action == "drop"] == ["once"]


def test_proposals_that_are_not_listed_are_counted():
    rng = np.random.default_rng(0)
    tags, texts = topic_rows(FILLING, rng)
    for k in range(30):
        tags[k].append(f"once{k}word")
    everything = propose_vocabulary(tags, texts, max_proposals=1000, used_once=True)
    some = propose_vocabulary(tags, texts, max_proposals=7)
    assert not everything.unlisted
    assert {*some, *some.unlisted} == {*everything}


def test_a_likeness_far_above_one_is_no_certainty():
    values = np.array([1.0, 3.0])
    error = np.array([0.4, 0.4])
    pairs = PairUse(
        np.zeros(2, int),
        np.ones(2, int),
        np.zeros(2, int),
        ["ending"] * 2,
        values,
        error,
        values,
        error,
    )
    _, lower, cautious, _ = _combined(pairs)
    assert lower[1] > 1
    assert cautious[1] == pytest.approx(cautious[0])
    assert cautious[0] == pytest.approx(lower[0])


def test_of_many_parents_the_one_that_the_name_contains_comes_first():
    rng = np.random.default_rng(0)
    shares = {"nation": 0.95, "country": 0.95, "banner": 0.95, "flag": 0.8}
    rows = [["face", "smile"]] * 450
    rows += [list(shares) for _ in range(75)]
    for _ in range(75):
        listed = [tag for tag, share in shares.items() if rng.random() < share]
        rows.append([*listed, "island-flag"])
    lines = propose_vocabulary(rows).lines
    parents = [line.target for line in lines if (line.action, line.tag) == ("imply", "island-flag")]
    assert "flag" in parents


def test_evidence_that_says_nothing_is_left_out():
    rng = np.random.default_rng(0)
    tags, texts = topic_rows({**FILLING, ("http",): (HTTP, 40), ("HTTP",): (HTTP, 2)}, rng)
    (line,) = [line for line in propose_vocabulary(tags, texts) if line.tag == "HTTP"]
    assert line.evidence.startswith("case; ")
    assert line.evidence.endswith("together in 0% of its rows")
    for low, high in re.findall(r"([\d.]+) to ([\d.]+) alike", line.evidence):
        assert float(high) - float(low) <= 0.5
    assert "cannot be compared" not in line.evidence
