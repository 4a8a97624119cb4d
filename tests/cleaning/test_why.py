"""Explanations against brute force, in degenerate tables, and whether they are faithful."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from schirn import Sieve, find_noisy_labels
from schirn.cleaning import MissingTags, NoisyLabels, Reasons
from schirn.exceptions import InputError
from schirn.features import TextFeatures
from schirn.scale import RowFile

TOPICS = {
    "sea": ["wave", "sand", "shell", "surf", "tide", "boat", "coast"],
    "office": ["desk", "printer", "paper", "meeting", "folder", "clerk", "phone"],
    "forest": ["pine", "moss", "deer", "trail", "bark", "fern", "owl"],
    "kitchen": ["pan", "oven", "spoon", "flour", "sieve", "kettle", "stove"],
}
FILLER = ["old", "new", "big", "tiny", "red", "blue", "green", "cheap", "rare", "plain", "good"]


def make_texts(n=300, seed=0):
    """Texts of one or two topics each; a quarter of the rows carries one wrong tag more."""
    rng = np.random.default_rng(seed)
    names, texts, tags, wrong = list(TOPICS), [], [], []
    for i in range(n):
        topics = list(rng.choice(names, rng.integers(1, 3), replace=False))
        words = [w for topic in topics for w in rng.choice(TOPICS[topic], 4, replace=False)]
        words += list(rng.choice(FILLER, 6, replace=False))
        rng.shuffle(words)
        texts.append(" ".join(words))
        if i % 4 == 0:
            extra = rng.choice([name for name in names if name not in topics])
            wrong.append((i, str(extra)))
            topics.append(extra)
        tags.append([str(name) for name in topics])
    return texts, tags, wrong


@pytest.fixture(scope="module")
def texts():
    return make_texts()


@pytest.fixture(scope="module")
def ranking(texts):
    return find_noisy_labels(texts[0], texts[1], method="Sieve").remove(below=0.5)


@pytest.fixture(scope="module")
def reasons(texts, ranking):
    return ranking.reasons(texts[0])


def verdicts(listed, confidence=None, judged=None, **more):
    """Verdicts on a 0/1 matrix."""
    listed = np.asarray(listed)
    row, column = np.nonzero(listed)
    values = np.ones(len(row)) if confidence is None else np.asarray(confidence)[row, column]
    known = np.ones(len(row), dtype=bool) if judged is None else np.asarray(judged)[row, column]
    names = [f"t{j}" for j in range(listed.shape[1])]
    ranking = NoisyLabels.from_arrays(
        len(listed), names, row, column, values, known, "Sieve", keep_one=False, **more
    )
    return ranking.remove(below=0.5)


def test_the_words_of_the_topic_decide(texts, ranking, reasons):
    caught = [cell for cell in texts[2] if reasons.explain(*cell).verdict == "removed"]
    assert len(caught) >= 0.8 * len(texts[2])
    topical = 0
    for row, label in caught[:20]:
        why = reasons.explain(row, label)
        against = [word.name for word in why.words if word.contribution < 0]
        others = {w for topic, words in TOPICS.items() if topic != label for w in words}
        topical += bool(others & set(" ".join(against[:2]).split()))
        assert why.near < why.usual * why.n_near + 2
        assert f"“{label}” is removed" in why.summary
        assert "against it" in why.summary
    assert topical >= 17
    row = next(i for i, tags in enumerate(texts[1]) if i % 4 and "sea" in tags)
    kept = reasons.explain(row, "sea")
    assert kept.verdict == "kept"
    assert "for it" in kept.summary
    assert set(kept.words[0].name.split()) & set(TOPICS["sea"])


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_contributions_are_those_of_a_ridge_without_the_row(container, dtype):
    rng = np.random.default_rng(0)
    # Rows have unit length, so nothing is scaled if X is sparse.
    X = rng.normal(size=(60, 12)) * (rng.random((60, 12)) < 0.4)
    X[:, 0] += 0.1
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(dtype)
    listed = rng.random((60, 3)) < 0.5
    confidence = rng.random((60, 3))
    names = [f"x{f}" for f in range(12)]
    reasons = Reasons(container(X), verdicts(listed, confidence), feature_names=names)
    Z = X.astype(np.float64)
    if container is np.asarray:
        Z = (X - X.mean(axis=0)) / (X.std(axis=0) * np.sqrt(12))
    others = np.setdiff1d(np.arange(60), [5])
    q = np.where(listed, confidence, 0)[others, 1]
    centred = Z[others] - Z[others].mean(axis=0)
    lam = 0.1 * (Z[others] ** 2).sum(axis=1).mean()
    w = np.linalg.solve(centred.T @ centred + lam * np.eye(12), centred.T @ (q - q.mean()))
    expected = Z[5] * w
    order = [f for f in np.argsort(-np.abs(expected))[:8] if expected[f]]
    words = reasons.explain(5, 1).words
    assert [word.name for word in words] == [f"x{f}" for f in order]
    values = [word.contribution for word in words]
    np.testing.assert_allclose(values, expected[order], rtol=0.02)


def test_many_rows_are_sampled_and_rare_tags_keep_theirs(monkeypatch):
    monkeypatch.setattr("schirn.cleaning.why._SAMPLE", 50)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3)).astype(np.float32)
    listed = np.zeros((2000, 2), dtype=int)
    listed[:, 0] = X[:, 0] > 0
    rare = np.flatnonzero(X[:, 1] > 2.6)
    listed[rare, 1] = 1
    assert 3 <= len(rare) <= 20
    reasons = verdicts(listed).reasons(X, feature_names=["x0", "x1", "x2"])
    for row in (int(rare[0]), int(X[:, 1].argmin())):
        words = reasons.explain(row, "t1").words
        assert words[0].name == "x1"
        assert (words[0].contribution > 0) == (row == rare[0])
    # Similar rows are those of the whole table.
    assert {n.row for n in reasons.explain(int(rare[0]), "t1").with_tag} <= set(rare.tolist())


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_neighbours_are_the_most_similar_settled_rows(container):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 5))
    listed = rng.random((80, 2)) < 0.5
    confidence = np.where(rng.random((80, 2)) < 0.2, 0.1, 0.9)
    free = np.flatnonzero(~listed[:, 0])[:4]
    missing = MissingTags(free, np.zeros(4, dtype=int), np.full(4, 0.9), ["t0", "t1"])
    reasons = Reasons(container(X), verdicts(listed, confidence, missing=missing))
    shift = X.mean(axis=0) if container is np.asarray else 0
    Z = (X - shift) / (X.std(axis=0) * np.sqrt(5))
    distance = ((Z[7] - Z) ** 2).sum(axis=1)
    right, doubtful = (
        listed[:, 0] & (confidence[:, 0] > 0.5),
        listed[:, 0] & (confidence[:, 0] < 0.5),
    )
    doubtful[free] = True
    why = reasons.explain(7, "t0")
    order = [i for i in np.argsort(distance) if i != 7 and not doubtful[i]]
    assert [n.row for n in why.with_tag] == [i for i in order if right[i]][:5]
    assert [n.row for n in why.without_tag] == [i for i in order if not right[i]][:5]
    assert (why.near, why.n_near) == (right[order[:20]].sum(), 20)
    # The share of rows that list the tag counts doubtful ones too.
    assert why.usual == pytest.approx(np.delete(listed[:, 0], 7).mean())
    pairs = ((Z[:, None] - Z) ** 2).sum(axis=2)[np.triu_indices(80, 1)]
    nearest = why.with_tag[0]
    expected = np.exp(-distance[nearest.row] / np.median(pairs))
    assert nearest.similarity == pytest.approx(expected)


def test_the_explanation_is_json(reasons, texts):
    row, label = texts[2][0]
    document = json.loads(json.dumps(reasons.explain(row, label).to_dict(), allow_nan=False))
    assert document["row"] == row
    assert document["label"] == label
    assert set(document["words"][0]) == {"name", "contribution"}
    assert set(document["with_tag"][0]) == {"row", "similarity"}


def test_together_is_the_same_as_one_by_one(texts, ranking):
    features = TextFeatures().fit(texts[0])
    names = [*features.words_, *[""] * features.n_characters]
    X = features.transform(texts[0])
    cells = [(0, "sea"), (4, "forest"), (4, "sea"), (0, 2)]
    together = ranking.reasons(X, feature_names=names).explain_all(cells)
    single = ranking.reasons(texts[0])
    for cell, one in zip(cells, together, strict=True):
        assert single.explain(*cell).with_tag == one.with_tag
        # Here the ridge also learns from the other rows.
        assert single.explain(*cell).words[0].name == one.words[0].name
    assert together[3].label == ranking.label_names[2]
    assert single.explain_all([]) == []


def test_dense_columns_have_the_names_of_a_table():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame(rng.normal(size=(60, 2)), columns=["width", "height"])
    listed = np.c_[X["width"] > 0, np.ones(60)].astype(int)
    why = verdicts(listed).reasons(X).explain(int(X["width"].argmax()), "t0")
    assert why.words[0].name == "width"
    assert why.words[0].contribution > 0
    assert "“width” speaks for it" in why.summary


def test_without_names_the_sentence_names_no_features():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    reasons = verdicts((X > 0).astype(int)).reasons(X)
    why = reasons.explain(int(X[:, 0].argmax()), "t0")
    assert reasons.feature_names is None
    assert why.words == []
    assert "speak" not in why.summary


def test_a_tag_that_is_suspicious_but_not_removed():
    listed = np.ones((3, 1), dtype=int)
    ranking = verdicts(listed, 0.001 * listed).remove(0)
    summary = ranking.reasons(np.eye(3)).explain(0, "t0").summary
    assert "“t0” is suspicious (the model gives it less than 1%)" in summary


def test_features_with_empty_names_are_not_listed():
    X = np.random.default_rng(0).normal(size=(60, 2))
    ranking = verdicts((X > 0).astype(int))
    row = int(X[:, 0].argmax())
    one = ranking.reasons(X, feature_names=["", "height"]).explain(row, "t0")
    assert [word.name for word in one.words] == ["height"]


def test_rows_that_are_scaled_already_are_taken_as_they_are():
    X = np.random.default_rng(0).normal(size=(60, 2)) * [1, 100]
    ranking = verdicts((X > 0).astype(int))
    plain = ranking.reasons(X, scaled=True).explain(0, "t1").with_tag[0].row
    same = [i for i in range(1, 60) if X[i, 1] > 0]
    assert plain == min(same, key=lambda i: ((X[i] - X[0]) ** 2).sum())
    equal = ranking.reasons(X / [1, 100]).explain(0, "t1")
    assert ranking.reasons(X).explain(0, "t1").with_tag[0].row == equal.with_tag[0].row


def test_a_tag_in_all_rows():
    X = np.random.default_rng(0).normal(size=(30, 3))
    listed = np.ones((30, 1), dtype=int)
    why = verdicts(listed, 0.5 * listed, 0 * listed == 1).reasons(X).explain(3, "t0")
    assert (why.verdict, why.without_tag, why.words) == ("unjudged", [], [])
    assert (why.near, why.n_near, why.usual) == (20, 20, 1)
    assert "not judged" in why.summary


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_rows(container, n):
    ranking = verdicts(np.eye(n, 2, dtype=int) | 1)
    why = ranking.reasons(container(np.eye(n, 4))).explain(0, "t1")
    assert len(why.with_tag) == n - 1
    assert why.without_tag == []
    json.dumps(why.to_dict(), allow_nan=False)


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_rows_that_are_all_alike(container):
    ranking = verdicts(np.arange(40)[:, None] % 2)
    why = ranking.reasons(container(np.ones((40, 3))), feature_names="abc").explain(1, "t0")
    assert why.with_tag[0].similarity == 1
    assert why.words == []
    json.dumps(why.to_dict(), allow_nan=False)


def test_a_row_without_words(ranking, texts):
    lines = list(texts[0])
    lines[2] = ""
    why = ranking.reasons(lines).explain(2, texts[1][2][0])
    assert why.words == []


def test_features_without_columns():
    why = verdicts(np.arange(10)[:, None] % 2).reasons(np.zeros((10, 0))).explain(1, "t0")
    assert why.words == []
    assert len(why.with_tag) == 4


def test_features_in_a_file_stay_there(monkeypatch, tmp_path):
    monkeypatch.setattr("schirn.linalg.arrays.BLOCK_CELLS", 100)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 7)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    ranking = verdicts((rng.random((90, 2)) < 0.5).astype(int))
    cells = [(0, "t0"), (3, "t1"), (0, "t1"), (89, "t0")]
    names = list("abcdefg")
    expected = ranking.reasons(X, feature_names=names).explain_all(cells)
    for source in (np.load(tmp_path / "x.npy", mmap_mode="r"), RowFile(tmp_path / "x.npy")):
        got = ranking.reasons(source, feature_names=names).explain_all(cells)
        assert [one.summary for one in got] == [one.summary for one in expected]
        for one, other in zip(got, expected, strict=True):
            assert one.with_tag[0].row == other.with_tag[0].row
            values = [word.contribution for word in one.words]
            assert values == pytest.approx([word.contribution for word in other.words], abs=1e-5)


def test_whole_numbers_are_features():
    X = np.arange(40).reshape(20, 2)
    listed = (np.arange(20) > 9).astype(int)[:, None]
    reasons = verdicts(listed).reasons(X, feature_names=["a", "b"])
    assert reasons.explain(19, "t0").words[0].contribution > 0


def test_what_does_not_fit_is_an_error(ranking, reasons, texts):
    with pytest.raises(InputError, match="but 300 rows are ranked"):
        ranking.reasons(texts[0][:10])
    with pytest.raises(InputError, match="NaN"):
        ranking.reasons(np.full((300, 3), np.nan))
    with pytest.raises(InputError, match="2 names for 3 features"):
        ranking.reasons(np.zeros((300, 3)), feature_names=["a", "b"])
    with pytest.raises(InputError, match="from 0 to 299, not 300"):
        reasons.explain(300, "sea")
    with pytest.raises(InputError, match=r"no label 'see'.*sea"):
        reasons.explain(0, "see")
    with pytest.raises(InputError, match="there is no label '4'"):
        reasons.explain(0, 4)


def test_answers_count(ranking, texts):
    asked = ranking.suspects(20)
    checked = ranking.answered(asked, np.ones(20, dtype=bool)).reasons(texts[0])
    told = checked.explain(int(asked.row[0]), asked.label[0])
    assert (told.verdict, told.confidence) == ("kept", 1)


def test_taking_the_words_away_changes_the_score_of_sieve(texts, ranking, reasons):
    """The words that are named are those that the kernel method listens to."""
    features = TextFeatures().fit(texts[0])
    X = features.transform(texts[0])
    asked = texts[2][:40]
    rest = np.setdiff1d(np.arange(len(texts[0])), [row for row, _ in asked])
    model = Sieve(features="none", kernel="linear", estimate_noise=False).fit(
        X[rest], ranking.matrix(ranking.confidence > 0)[rest]
    )
    rng = np.random.default_rng(0)

    def score(row, column, words):
        z = X[[row]].toarray()
        # A word goes together with its character sequences.
        z[0, features.transform(words).indices] = 0
        return model.decision_function(sp.csr_array(z))[0, column]

    named, chance = [], []
    for row, label in asked:
        every, column = texts[0][row].split(), ranking.label_names.index(label)
        against = [w.name for w in reasons.explain(row, label).words if w.contribution < 0]
        words = [name for name in against if " " not in name][:3]
        before = score(row, column, [""])
        named.append(score(row, column, words) - before)
        draws = (rng.choice(every, len(words), replace=False) for _ in range(5))
        chance.append(np.mean([score(row, column, out) for out in draws]) - before)
    named, chance = np.array(named), np.array(chance)
    assert np.mean(named > chance) > 0.8
    assert named.mean() > 1.2 * chance.mean()


def test_rows_without_features_are_neighbours_of_none(texts):
    lines = texts[0] + [""] * 30
    tags = texts[1] + [["kitchen"]] * 30
    reasons = find_noisy_labels(lines, tags).reasons(lines)
    for row, label in texts[2][:5]:
        why = reasons.explain(row, label)
        listed = [n.row for n in why.with_tag + why.without_tag]
        assert len(listed) == 10
        assert max(listed) < 300
        assert why.n_near == 20
    why = reasons.explain(310, "kitchen")
    assert (why.with_tag, why.without_tag, why.near, why.n_near) == ([], [], 0, 0)
    assert "its row has no features, so no row is similar" in why.summary


@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_only_sparse_rows_of_zeros_are_without_features(container):
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:5] = 0
    why = verdicts(np.ones((40, 1), dtype=int)).reasons(container(X)).explain(0, "t0")
    # Where columns have a zero of their own, such as temperatures, it is a value.
    assert why.n_near == (20 if container is np.asarray else 0)


def test_the_sentence_agrees_with_the_rank():
    listed = np.ones((30, 1), dtype=int)
    confidence = np.linspace(0.6, 0.9, 30)[:, None]
    reasons = verdicts(listed, confidence).reasons(np.eye(30))
    first = reasons.explain(0, "t0").summary
    assert "“t0” is among the most suspicious 10% (the model gives it 60%)" in first
    assert "“t0” looks right (the model gives it 90%)" in reasons.explain(29, "t0").summary
    # None is more suspicious than the others.
    alike = verdicts(listed, 0 * confidence + 0.6).reasons(np.eye(30))
    assert "“t0” looks right" in alike.explain(0, "t0").summary
