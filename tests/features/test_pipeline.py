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


def test_the_pipeline_is_its_features_and_its_method(table):
    rng = np.random.default_rng(1)
    words = ["".join(rng.choice(list("abcdefghijklmno"), 6)) for _ in range(80)]
    # Other words keep two titles from being versions of one, which would be judged as one row.
    others = [" ".join(rng.choice(words, 8)) for _ in table["title"]]
    titles = [f"{one} {other}" for one, other in zip(table["title"], others, strict=True)]
    table = {**table, "title": titles}
    tagger = TagPipeline(text="title").fit(table, table["tags"])
    X = TextFeatures().fit_transform(titles)
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


@pytest.mark.parametrize("edit", ["{}", "{} updated"], ids=["copies", "edits"])
def test_copies_in_the_training_table_do_not_confirm_each_other(edit):
    rng = np.random.default_rng(0)
    words = [f"word{i}" for i in range(300)]
    kind = rng.integers(8, size=200)
    titles = [f"kind{k} {' '.join(rng.choice(words, 5))}" for k in kind]
    tags = [[f"kind{k}"] for k in kind]
    wrong = rng.choice(200, 40, replace=False)
    for i in wrong:
        tags[i].append(f"kind{(kind[i] + rng.integers(1, 8)) % 8}")
    titles += [edit.format(titles[i]) for i in wrong]
    tags += [tags[i] for i in wrong]
    tagger = TagPipeline(text="title").fit({"title": titles}, tags)
    rows = np.r_[wrong, 200 + np.arange(40)]
    columns = [tagger.label_names_.index(tags[i][1]) for i in rows]
    assert (tagger.method_.label_confidence_[rows, columns] < 0.5).mean() > 0.9
    without_groups = schirn.Sieve(features="none", kernel="linear")
    without_groups.fit(tagger.features_.transform({"title": titles}), tags)
    assert (without_groups.label_confidence_[rows, columns] < 0.5).mean() < 0.5


def test_errors_say_what_is_wrong(table, tagger, tmp_path):
    with pytest.raises(NotFittedError):
        TagPipeline(text="title").predict(table)
    with pytest.raises(InputError, match="not fitted; call fit before save"):
        schirn.save(TagPipeline(text="title"), tmp_path / "t")
    with pytest.raises(InputError, match="the table has 60 rows, but there are tags for 1"):
        TagPipeline(text="title").fit(table, ["pan"])
    with pytest.raises(InputError, match="there is no column 'title'"):
        tagger.predict([{"name": "pan"}])


def test_parameters_of_the_method_need_a_method():
    with pytest.raises(InputError, match=r"method__lam is a parameter of .* but method is None"):
        TagPipeline().set_params(method__lam=1.0)
    pipeline = TagPipeline().set_params(method=schirn.Sieve(), method__lam=1.0)
    assert pipeline.method.lam == 1.0
