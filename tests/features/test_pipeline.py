"""From a table to tags, in one object and one file."""

import json
import zipfile

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import schirn
from schirn.exceptions import InputError
from schirn.features import TagPipeline, TextFeatures

KINDS = ["pan", "chair", "lamp"]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=60)
    colour = rng.choice(["red", "blue", "green"], 60)
    tags = [[KINDS[k]] for k in kind]
    for i in range(0, 60, 6):
        tags[i].append(KINDS[(kind[i] + 1) % 3])
    return {
        "title": [f"{c} {KINDS[k]} number{i}" for i, (c, k) in enumerate(zip(colour, kind))],  # noqa: B905
        "size": (kind * 10 + rng.random(60)).tolist(),
        "shop": rng.choice(["north", "south"], 60).tolist(),
        "vector": [[float(k == j) + 0.1 * rng.random() for j in range(3)] for k in kind],
        "tags": [";".join(each) for each in tags],
        "truth": [KINDS[k] for k in kind],
    }


@pytest.fixture(scope="module")
def tagger(table):
    return TagPipeline(text="title").fit(table, table["tags"])


def test_the_pipeline_is_its_features_and_its_method(table, tagger):
    X = TextFeatures().fit_transform(table["title"])
    tags = [each.split(";") for each in table["tags"]]
    alone = schirn.Sieve(features="none", kernel="linear").fit(X, tags)
    assert tagger.label_names_ == alone.label_names_
    np.testing.assert_allclose(tagger.predict_proba(table), alone.predict_proba(X), rtol=1e-5)
    scores = alone.decision_function(X)
    np.testing.assert_allclose(tagger.decision_function(table), scores, rtol=1e-5)


def test_new_rows_get_tags(tagger):
    new = [{"title": "purple pan"}, {"title": "an old lamp"}]
    assert tagger.predict_labels(new) == [["pan"], ["lamp"]]
    assert tagger.predict(new).sum() == 2
    assert tagger.predict_labels(new, threshold="top-2")[0][-1] == "pan"
    judged = tagger.disambiguate(new, ["pan;chair", "lamp"])
    assert judged[0, tagger.label_names_.index("pan")] > 0.5
    assert judged[0, tagger.label_names_.index("chair")] < 0.5
    assert judged[1, tagger.label_names_.index("pan")] == 0


@pytest.mark.parametrize(
    "learn",
    [
        {"text": ["title"]},
        {"columns": ["size"]},
        {"categories": "shop"},
        {"vectors": "vector"},
        {"text": "title", "columns": ["size"], "categories": ["shop"], "vectors": "vector"},
    ],
)
def test_a_pipeline_is_kept_in_one_file(learn, table, tmp_path):
    tagger = TagPipeline(**learn, method=schirn.CandidateRidge(lam=0.1, fit_intercept=True))
    tagger.fit(table, table["tags"])
    path = tmp_path / "tagger.schirn"
    schirn.save(tagger, path, include_training=False)
    again = schirn.load(path)
    assert type(again) is TagPipeline
    assert again.label_names_ == ["chair", "lamp", "pan"]
    np.testing.assert_array_equal(again.predict_proba(table), tagger.predict_proba(table))
    assert not hasattr(again.method_, "noise_")
    assert hasattr(tagger.method_, "noise_")
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("header.json"))
    assert header["schirn"] == schirn.__version__


def test_methods_are_given_by_name_class_or_estimator(table):
    for method in ("candidateridge", schirn.CandidateRidge, schirn.CandidateRidge(lam=1.0)):
        tagger = TagPipeline(text="title", method=method).fit(table, table["tags"])
        assert type(tagger.method_) is schirn.CandidateRidge
        assert clone(tagger).method is method or isinstance(method, schirn.CandidateRidge)
    with pytest.raises(InputError, match="there is no method 'Seive'; did you mean 'Sieve'"):
        TagPipeline(text="title", method="Seive").fit(table, table["tags"])
    with pytest.raises(InputError, match="must be a method of this library"):
        TagPipeline(text="title", method=TextFeatures()).fit(table, table["tags"])


def test_score_is_the_average_precision_of_the_truth(table, tagger):
    assert tagger.score(table, table["truth"]) == pytest.approx(1.0)


def test_matrices_and_lists_of_tags_are_read_as_well(table, tagger):
    lists = [each.split(";") for each in table["tags"]]
    matrix = np.array([[name in each for name in tagger.label_names_] for each in lists])
    for given, names in ((lists, None), (matrix, tagger.label_names_)):
        found = TagPipeline(text="title").fit(table, given, label_names=names)
        np.testing.assert_array_equal(found.predict_proba(table), tagger.predict_proba(table))


def test_errors_say_what_is_wrong(table, tagger, tmp_path):
    with pytest.raises(NotFittedError):
        TagPipeline(text="title").predict(table)
    with pytest.raises(InputError, match="not fitted; call fit before save"):
        schirn.save(TagPipeline(text="title"), tmp_path / "t")
    with pytest.raises(InputError, match="the table has 60 rows, but there are tags for 1"):
        TagPipeline(text="title").fit(table, ["pan"])
    with pytest.raises(InputError, match="there is no column 'title'"):
        tagger.predict([{"name": "pan"}])
