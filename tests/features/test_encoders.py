"""Encoders of texts and pictures."""

import pickle

import numpy as np
import pytest
from features.tiny_models import (
    SYNONYMS,
    clip_folder,
    sentence_folder,
    static_folder,
    write_pictures,
)
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import schirn
from schirn.exceptions import InputError, MissingExtraError
from schirn.features import Encoder, TableFeatures, TagPipeline, TextFeatures, encoders

KINDS = ["pan", "chair", "lamp"]


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return f"model2vec:{static_folder(tmp_path_factory.mktemp('static'))}"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return f"sentence-transformers:{clip_folder(tmp_path_factory.mktemp('clip'))}"


def test_vectors_have_unit_length_and_empty_texts_are_zero(static):
    found = Encoder(static).fit().transform(["red pan", "", None, "PAN  ", " "])
    assert found.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 0, 0, 1, 0], atol=1e-6)
    pan, skillet = Encoder(static).fit().transform(["pan", "skillet"])
    np.testing.assert_allclose(pan, skillet, atol=1e-6)


def test_no_texts_give_no_vectors(static):
    encoder = Encoder(static).fit()
    assert encoder.transform([]).shape == (0, encoder.n_features_)


def test_wordllama_needs_no_network():
    pytest.importorskip("wordllama", reason="the extra encoders is not installed")
    encoder = Encoder("wordllama").fit()
    assert encoder.n_features_ == 256
    text = "a frying pan made of steel"
    pan, again, chair = encoder.transform([text, text, "an armchair for the garden"])
    skillet = encoder.transform(["an iron skillet for the kitchen"])[0]
    np.testing.assert_array_equal(pan, again)
    assert pan @ skillet > pan @ chair


def test_a_sentence_transformer_is_read_from_its_folder(tmp_path, static):
    folder = sentence_folder(tmp_path / "model")
    texts = ["red pan", "blue stool", "nothing known", ""]
    found = Encoder(f"sentence-transformers:{folder}").fit().transform(texts)
    np.testing.assert_allclose(found, Encoder(static).fit().transform(texts), atol=1e-6)


def test_pictures_are_files_contents_or_images(clip, tmp_path):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    encoder = Encoder(clip, of="image").fit()
    paths = [tmp_path / name for name in write_pictures(tmp_path, [0, 2])]
    found = encoder.transform([*paths, None, str(paths[0]), paths[1].read_bytes()])
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1, 1, 0, 1, 1], atol=1e-5)
    assert np.abs(found[0] - found[1]).max() > 1e-3
    np.testing.assert_array_equal(found[[0, 1]], found[[3, 4]])
    opened = encoder.transform([image.open(paths[0])])
    np.testing.assert_allclose(opened, found[:1], atol=1e-5)


def test_a_bad_picture_is_named_with_its_row(clip, tmp_path):
    (good,) = write_pictures(tmp_path, [0])
    encoder = Encoder(clip, of="image").fit()
    (tmp_path / "text.png").write_text("not a picture")
    cut = tmp_path / "cut.png"
    cut.write_bytes((tmp_path / good).read_bytes()[:200])
    for bad, words in (
        ("text.png", "cannot be read"),
        ("cut.png", "cannot be read"),
        ("gone.png", "cannot be read"),
        ("", "cannot be read"),
        ("a\0b", "cannot be read"),
    ):
        with pytest.raises(InputError, match=rf"row 2: the image file .*{words}"):
            encoder.transform([tmp_path / good, tmp_path / bad])
    with pytest.raises(InputError, match=r"row 1: a picture is a path or .*not 3"):
        encoder.transform([3])


def test_a_picture_of_too_many_pixels_is_not_unpacked(clip, tmp_path, monkeypatch):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    (path,) = write_pictures(tmp_path, [0])
    monkeypatch.setattr(image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(InputError, match=r"row 1: .*pixels"):
        Encoder(clip, of="image").fit().transform([tmp_path / path])


def test_names_that_mean_nothing_get_a_hint(tmp_path):
    with pytest.raises(InputError, match="no encoder 'wordlama'; did you mean"):
        Encoder("wordlama").fit()
    with pytest.raises(InputError, match="such as model2vec:MODEL"):
        Encoder("model2vec").fit()
    with pytest.raises(InputError, match="there is no encoder 'wordllama:large'"):
        Encoder("wordllama:large").fit()
    with pytest.raises(
        InputError, match="does not encode images; for these, choose from pixels, sentence"
    ):
        Encoder("wordllama", of="image").fit()
    with pytest.raises(InputError, match="does not encode sounds"):
        Encoder("wordllama", of="sound").fit()
    with pytest.raises(NotFittedError):
        Encoder().transform(["a"])
    with pytest.raises(InputError, match="a sequence of texts or pictures, not one text"):
        Encoder("wordllama").fit().transform("a text")


def test_a_folder_that_is_damaged_is_named(tmp_path, static):
    pytest.importorskip("model2vec", reason="the extra encoders is not installed")
    (tmp_path / "config.json").write_text('{"model_type": "model2vec"}')
    with pytest.raises(InputError, match="of model2vec cannot be loaded"):
        Encoder(f"model2vec:{tmp_path}").fit()


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setattr(encoders, "find_spec", lambda name: None)
    kind = ("no_such_package", *encoders.KINDS["model2vec"][1:])
    monkeypatch.setitem(encoders.KINDS, "model2vec", kind)
    with pytest.raises(MissingExtraError, match=r'no_such_package.*pip install .*"wordllama>='):
        Encoder("model2vec:any").fit()


def test_encoders_are_cloned_and_pickled(static):
    encoder = Encoder(static).fit()
    assert clone(encoder).get_params() == encoder.get_params()
    again = pickle.loads(pickle.dumps(encoder))
    np.testing.assert_array_equal(again.transform(["pan"]), encoder.transform(["pan"]))
    assert encoder.get_feature_names_out().tolist() == [f"encoder{j}" for j in range(6)]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=60)
    colour = rng.choice(["red", "blue", "green"], 60)
    tags = [[KINDS[k]] for k in kind]
    for i in range(0, 60, 6):
        tags[i].append(KINDS[(kind[i] + 1) % 3])
    titles = [
        f"{c} {KINDS[k]} number{i}" for i, (c, k) in enumerate(zip(colour, kind, strict=True))
    ]
    return {"title": titles, "tags": tags, "kind": kind.tolist()}


def test_vectors_stand_beside_words(static, table):
    features = TableFeatures(text="title", encoder=static)
    found = features.fit_transform(table)
    words = TextFeatures().fit_transform(table["title"])
    vectors = Encoder(static).fit().transform(table["title"])
    np.testing.assert_allclose(
        found.toarray()[:, : words.shape[1]], words.toarray() / np.sqrt(2), atol=1e-7
    )
    np.testing.assert_allclose(
        found.toarray()[:, words.shape[1] :], vectors / np.sqrt(2), atol=1e-7
    )
    assert len(features.get_feature_names_out()) == found.shape[1] == features.n_features_
    assert features.source() == f"title with tf-idf and {static}"
    assert abs(features.transform(table) - found).max() < 1e-6
    # Texts of unknown words and no words at all.
    other = features.transform({"title": ["pan", "skillet", "zzz", ""]})
    np.testing.assert_allclose(np.sqrt(other.multiply(other).sum(axis=1)), [1, 1, 0, 0], rtol=1e-6)


def test_tfidf_is_the_name_of_the_default(table):
    named = TableFeatures(text="title", encoder="tf-idf").fit_transform(table)
    assert abs(named - TableFeatures(text="title").fit_transform(table)).max() == 0


def test_a_pipeline_knows_words_that_it_was_not_trained_on(static, table, tmp_path):
    tagger = TagPipeline(text="title", encoder=static).fit(table, table["tags"])
    new = {"title": [f"{word} number{i}" for i, word in enumerate(SYNONYMS)]}
    assert tagger.predict_labels(new) == [[word] for word in SYNONYMS.values()]
    schirn.save(tagger, tmp_path / "t.schirn", include_training=False)
    again = schirn.load(tmp_path / "t.schirn")
    assert again.encoder == static
    np.testing.assert_array_equal(again.predict_proba(new), tagger.predict_proba(new))


def test_a_model_file_tells_when_the_encoder_is_gone_or_another(table, tmp_path):
    folder = static_folder(tmp_path / "static")
    tagger = TagPipeline(text="title", encoder=f"model2vec:{folder}").fit(table, table["tags"])
    schirn.save(tagger, tmp_path / "t.schirn")
    static_folder(tmp_path / "static", scale=2.0)
    again = schirn.load(tmp_path / "t.schirn")
    with pytest.raises(InputError, match="has other weights than in training"):
        again.predict(table)
    (tmp_path / "static").rename(tmp_path / "moved")
    with pytest.raises(InputError, match="of model2vec cannot be loaded"):
        again.predict(table)


def test_pictures_can_be_all_there_is(clip, table, tmp_path):
    names = write_pictures(tmp_path, table["kind"])
    files = {"file": [str(tmp_path / name) for name in names]}
    tagger = TagPipeline(image="file", encoder=clip).fit(files, table["tags"])
    new = write_pictures(tmp_path, [0, 1, 2], seed=1)
    found = tagger.predict_labels({"file": [str(tmp_path / name) for name in new]})
    assert found == [[kind] for kind in KINDS]


def test_an_encoder_is_for_texts_and_pictures():
    for learn in ({"columns": ["a"]}, {"vectors": "a"}):
        with pytest.raises(InputError, match="turns texts or pictures into vectors"):
            TableFeatures(**learn, encoder="wordllama").fit({"a": [1]})
    with pytest.raises(InputError, match="no encoder 'tf-idf'"):
        TableFeatures(image="a", encoder="tf-idf").fit({"a": ["b.png"]})
