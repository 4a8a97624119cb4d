"""Rows that a model was trained on, their copies and edits are judged without the row."""

import numpy as np
import pytest
import scipy.sparse as sp

import schirn
from schirn.datasets import make_partial_multilabel
from schirn.estimators import TrainingRows
from schirn.features import TagPipeline, TextFeatures

WORDS = np.array([f"word{k}" for k in range(60)])


def make_texts(n, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, size=8, replace=False)) for _ in range(n)]


@pytest.fixture(scope="module")
def memorised():
    """Random texts with random tags: whatever a model says about new rows, it has no reason to."""
    texts = make_texts(150, 0)
    tags = np.random.default_rng(1).integers(0, 2, size=(150, 4)).astype(np.uint8)
    tags[tags.sum(axis=1) == 0, 0] = 1
    return texts, tags, TagPipeline(text="text").fit({"text": texts}, tags)


EDITS = {
    "copy": lambda text: text,
    "a word added": lambda text: f"{text} updated",
    "a word deleted": lambda text: text.partition(" ")[2],
    "capitals": str.upper,
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_edits_of_training_rows_are_judged_without_the_row(memorised, edit):
    texts, _, tagger = memorised
    rows = tagger.features_.transform({"text": [edit(text) for text in texts]})
    method = tagger.method_
    found = method.training_row_of(rows)
    assert (found == np.arange(len(texts))).mean() > 0.97
    known = found >= 0
    expected = method.decision_function(rows)[known] - method.training_influence_[found[known]]
    np.testing.assert_allclose(method.held_out_scores(rows)[known], expected, rtol=1e-5)


def test_training_rows_have_the_scores_of_the_fit(memorised):
    texts, tags, tagger = memorised
    method = tagger.method_
    rows = tagger.features_.transform({"text": texts})
    np.testing.assert_allclose(method.held_out_scores(rows), method.training_log_odds_, atol=1e-4)
    posterior = method.posterior_of_candidates(method.training_log_odds_, tags)
    np.testing.assert_allclose(method.disambiguate(rows, tags), posterior, atol=1e-4)


def test_a_model_alone_repeats_what_it_has_seen(memorised):
    """The reason for all this: scores of training rows agree with the tags they were taught."""
    texts, tags, _ = memorised
    tagger = TagPipeline(text="text", method=schirn.CandidateRidge(lam=0.01))
    tagger.fit({"text": texts}, tags)
    rows = tagger.features_.transform({"text": texts})
    seen = tagger.method_.decision_function(rows)
    unseen = tagger.method_.held_out_scores(rows)
    assert np.mean(seen[tags == 1]) - np.mean(seen[tags == 0]) > 0.9
    assert np.mean(unseen[tags == 1]) - np.mean(unseen[tags == 0]) < 0.1


def test_other_rows_are_judged_by_the_model(memorised):
    _, _, tagger = memorised
    rows = tagger.features_.transform({"text": make_texts(200, 7)})
    assert (tagger.method_.training_row_of(rows) < 0).mean() > 0.97
    far = tagger.features_.transform({"text": ["", "none of these", "zebra"]})
    assert tagger.method_.training_row_of(far).tolist() == [-1, -1, -1]


def test_judge_uses_the_scores_without_the_row(memorised):
    texts, tags, tagger = memorised
    names = tagger.label_names_
    listed = [[names[j] for j in np.flatnonzero(row)] for row in tags[:20]]
    judgements = tagger.judge({"text": [f"{t} new" for t in texts[:20]]}, listed)
    posterior = tagger.disambiguate({"text": texts[:20]}, tags[:20])
    for i, judgement in enumerate(judgements):
        for name, confidence in judgement.confidence.items():
            assert confidence == pytest.approx(posterior[i, names.index(name)], abs=0.02)


@pytest.mark.parametrize("name", ["Sieve", "CandidateRidge", "Schirn"])
def test_dense_rows_are_recognised(name):
    data = make_partial_multilabel(n_samples=120, n_features=30, n_labels=4, r=1, random_state=0)
    model = schirn.methods()[name]().fit(data.X[:100], data.candidates[:100])
    nearly = data.X + 1e-6
    assert model.training_row_of(nearly).tolist() == [*range(100), *[-1] * 20]
    expected = model.decision_function(data.X[:100]) - model.training_influence_
    np.testing.assert_allclose(model.held_out_scores(nearly)[:100], expected, atol=1e-4)
    np.testing.assert_array_equal(
        model.held_out_scores(data.X)[100:], model.decision_function(data.X)[100:]
    )


def test_a_model_without_its_training_rows_uses_itself(tmp_path):
    data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
    model = schirn.Sieve().fit(data.X, data.candidates)
    schirn.save(model, tmp_path / "all.schirn")
    schirn.save(model, tmp_path / "small.schirn", include_training=False)
    again = schirn.load(tmp_path / "all.schirn")
    np.testing.assert_array_equal(again.held_out_scores(data.X), model.held_out_scores(data.X))
    small = schirn.load(tmp_path / "small.schirn")
    assert (small.training_row_of(data.X) == -1).all()
    np.testing.assert_array_equal(small.held_out_scores(data.X), small.decision_function(data.X))


def jaccard(a, b):
    return len(a & b) / len(a | b)


def test_hashes_agree_as_often_as_sets_overlap():
    """Against the definition, on random sets."""
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random((40, 300)) < 0.3).astype(np.float32))
    rows = TrainingRows.of(X)
    sets = [set(X.indices[X.indptr[i] : X.indptr[i + 1]].tolist()) for i in range(40)]
    pairs = [(i, j) for i in range(40) for j in range(i)]
    exact = np.array([jaccard(sets[i], sets[j]) for i, j in pairs])
    estimate = np.array([(rows.hashes[i] == rows.hashes[j]).mean() for i, j in pairs])
    assert abs((estimate - exact).mean()) < 0.02
    assert np.abs(estimate - exact).max() < 0.3


def titles(n, seed):
    """Eight words each, of which a few are in most titles and most are rare; no two are equal."""
    rng = np.random.default_rng(seed)
    weights = 1 / np.arange(1, 3001)
    words = [rng.choice(3000, size=8, p=weights / weights.sum()) for _ in range(n)]
    return [" ".join([*(f"w{k}" for k in row), f"r{seed}x{i}"]) for i, row in enumerate(words)]


@pytest.mark.parametrize("ending", ["", "delivery in three days and free returns by post or shop"])
def test_rows_are_recognised_in_large_tables(ending):
    """The last rows as well as the first, and whatever ends every text."""
    texts = [f"{title} {ending}" for title in titles(12_000, 0)]
    features = TextFeatures()
    rows = TrainingRows.of(features.fit_transform(texts))
    last = np.arange(11_000, 12_000)
    np.testing.assert_array_equal(rows.find(features.transform(texts)), np.arange(12_000))
    edited = features.transform([f"updated {texts[i].partition(' ')[2]}" for i in last])
    assert (rows.find(edited) == last).mean() > 0.97
    unseen = features.transform([f"{title} {ending}" for title in titles(1000, 1)])
    assert (rows.find(unseen) < 0).mean() > 0.97


def test_degenerate_rows():
    empty = TrainingRows.of(sp.csr_array((5, 3), dtype=np.float32))
    assert empty.find(sp.csr_array((2, 3), dtype=np.float32)).tolist() == [-1, -1]
    constant = TrainingRows.of(np.ones((5, 3)))
    assert (constant.find(np.ones((2, 3))) >= 0).all()
    assert constant.find(np.zeros((2, 3))).tolist() == [-1, -1]
    single = TrainingRows.of(np.ones((1, 3)))
    assert single.find(np.ones((0, 3))).tolist() == []
    assert single.find(sp.csr_array(np.ones((2, 3)))).tolist() == [-1, -1]
