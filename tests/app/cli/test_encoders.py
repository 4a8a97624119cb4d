"""clean, fit and predict with encoders, pictures and groups."""

import csv
import json

import numpy as np
import pytest
from app.cli.clean_helpers import read_csv, refused
from features.tiny_models import SYNONYMS, clip_folder, static_folder, write_pictures

import schirn
from schirn.app.cli import main

KINDS = ["pan", "chair", "lamp"]


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def kinds():
    return np.random.default_rng(0).integers(3, size=70).tolist()


@pytest.fixture(scope="module")
def static(tmp_path_factory):
    return f"model2vec:{static_folder(tmp_path_factory.mktemp('static'))}"


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    return f"sentence-transformers:{clip_folder(tmp_path_factory.mktemp('clip'))}"


def write(path, columns):
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return str(path)


def wrong(kinds):
    """A wrong tag of every sixth row, now the next kind and now the one after."""
    return ["" if i % 6 else KINDS[(k + 1 + i // 6 % 2) % 3] for i, k in enumerate(kinds)]


def tags(kinds):
    pairs = zip([KINDS[k] for k in kinds], wrong(kinds), strict=True)
    return [";".join(filter(None, pair)) for pair in pairs]


def check_cleaned(path, kinds):
    """Most of the wrong tags are gone, and no others."""
    removed = [row["tags_removed"] for row in read_csv(path)]
    right = [each == bad for each, bad in zip(removed, wrong(kinds), strict=True) if each]
    assert all(right)
    assert len(right) > 0.5 * sum(map(bool, wrong(kinds)))


def titles(kinds):
    return [f"a {KINDS[k]} of steel number{i}" for i, k in enumerate(kinds)]


def test_texts_with_an_encoder_from_table_to_tags(static, kinds, tmp_path, capsys):
    table = write(tmp_path / "items.csv", {"title": titles(kinds), "tags": tags(kinds)})
    new = write(tmp_path / "new.csv", {"title": [f"one {word} for you" for word in SYNONYMS]})
    cleaned, model, out = (str(tmp_path / name) for name in ("c.csv", "m.schirn", "t.csv"))
    chosen = ["--text", "title", "--encoder", static]
    assert main(["clean", table, *chosen, "--remove-below", "0.5", "-o", cleaned]) == 0
    assert f"learned from  title with tf-idf and {static} (TextRanker" in capsys.readouterr().out
    check_cleaned(cleaned, kinds)
    assert main(["fit", cleaned, *chosen, "-o", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["encoder"] == static
    assert main(["predict", model, new, "-o", out]) == 0
    assert [row["tags_predicted"] for row in read_csv(out)] == list(SYNONYMS.values())


def test_an_encoder_picks_the_text_beside_numbers(static, kinds, tmp_path, capsys):
    columns = {"title": titles(kinds), "price": [k % 7 for k in range(70)], "tags": tags(kinds)}
    table = write(tmp_path / "items.csv", columns)
    assert main(["fit", table, "--encoder", static, "-o", str(tmp_path / "m"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learned_from"].startswith("title with tf-idf and ")
    assert report["left_out"] == ["price"]
    err = refused(capsys, "clean", table, "--columns", "price", "--encoder", static)
    assert "turns texts or pictures into vectors" in err


def test_an_encoder_that_moved_is_named_again(kinds, tmp_path, capsys, monkeypatch):
    static_folder(tmp_path / "words")
    monkeypatch.chdir(tmp_path)
    table = write(tmp_path / "items.csv", {"title": titles(kinds), "tags": tags(kinds)})
    model, out = str(tmp_path / "m.schirn"), str(tmp_path / "out.csv")
    assert main(["fit", table, "--encoder", "model2vec:words", "-o", model]) == 0
    # The file holds the whole path.
    monkeypatch.chdir(tmp_path.parent)
    assert main(["predict", model, table, "-o", out]) == 0
    first = read_csv(out)
    (tmp_path / "words").rename(tmp_path / "moved")
    capsys.readouterr()
    err = refused(capsys, "predict", model, table)
    assert "items.csv: the model" in err
    assert "--encoder" in err
    moved = ["--encoder", f"model2vec:{tmp_path / 'moved'}"]
    assert main(["predict", model, table, *moved, "-o", out]) == 0
    assert read_csv(out) == first
    other = ["--encoder", f"model2vec:{static_folder(tmp_path / 'other', scale=2.0)}"]
    capsys.readouterr()
    assert "has other weights than in training" in refused(capsys, "predict", model, table, *other)


def test_predict_names_the_columns_of_training(static, kinds, tmp_path, capsys):
    table = write(tmp_path / "items.csv", {"title": titles(kinds), "tags": tags(kinds)})
    model = str(tmp_path / "m.schirn")
    assert main(["fit", table, "--text", "title", "-o", model]) == 0
    assert main(["predict", model, table]) == 0
    capsys.readouterr()
    err = refused(capsys, "predict", model, table, "--encoder", static)
    assert "was trained without an encoder" in err


def test_pictures_from_table_to_tags(clip, kinds, tmp_path, capsys):
    photos = tmp_path / "photos"
    photos.mkdir()
    columns = {"file": write_pictures(photos, kinds), "tags": tags(kinds)}
    table = write(tmp_path / "items.csv", columns)
    new = write(tmp_path / "new.csv", {"file": write_pictures(photos, [0, 1, 2], seed=1)})
    cleaned, model, out = (str(tmp_path / name) for name in ("c.csv", "m.schirn", "t.csv"))
    chosen = ["--image", "file", "--image-root", str(photos)]
    learn = [*chosen, "--encoder", clip]
    page = str(tmp_path / "report.html")
    assert (
        main(["clean", table, *learn, "--remove-below", "0.5", "-o", cleaned, "--report", page])
        == 0
    )
    assert f"learned from     file with {clip}" in capsys.readouterr().out
    check_cleaned(cleaned, kinds)
    assert main(["fit", cleaned, *learn, "-o", model]) == 0
    assert main(["predict", model, new, *chosen, "-o", out]) == 0
    assert [row["tags_predicted"] for row in read_csv(out)] == KINDS
    # The folder of the table is the folder of the pictures, unless another one is named.
    capsys.readouterr()
    err = refused(capsys, "predict", model, new)
    assert "new.csv: row 1: the image file" in err
    assert "cannot be read" in err


def test_bad_pictures_are_named(clip, kinds, tmp_path, capsys):
    names = write_pictures(tmp_path, kinds)
    learn = ["--image", "file", "--encoder", clip, "-o", str(tmp_path / "m")]
    (tmp_path / names[4]).write_bytes(b"GIF89a but not really")
    table = write(tmp_path / "items.csv", {"file": names, "tags": tags(kinds)})
    err = refused(capsys, "fit", table, *learn)
    assert f"{names[4]}' is damaged or not an image" in err
    assert "items.csv: row 5: " in err
    (tmp_path / names[4]).unlink()
    assert "row 5: the image file" in refused(capsys, "fit", table, *learn)
    names[4] = "../secret.png"
    table = write(tmp_path / "items.csv", {"file": names, "tags": tags(kinds)})
    assert "not in the folder of images" in refused(capsys, "fit", table, *learn)
    # A row without a picture is kept; nothing is known about it.
    names[4] = ""
    table = write(tmp_path / "items.csv", {"file": names, "tags": tags(kinds)})
    assert main(["fit", table, *learn]) == 0


def test_pictures_need_no_encoder_and_are_only_shown_beside_texts(kinds, tmp_path, capsys):
    names = write_pictures(tmp_path, kinds)
    only = write(tmp_path / "only.csv", {"file": names, "tags": tags(kinds)})
    new = write(tmp_path / "new.csv", {"file": write_pictures(tmp_path, [0, 1, 2], seed=1)})
    model, cleaned, out = (str(tmp_path / name) for name in ("m", "c.csv", "t.csv"))
    assert main(["clean", only, "--image", "file", "--remove-below", "0.5", "-o", cleaned]) == 0
    said = capsys.readouterr()
    assert "learned from  file (Sieve" in said.out
    assert "note: file: the pictures are described by their colours and edges" in said.err
    assert 'pip install "schirn[networks]"' in said.err
    check_cleaned(cleaned, kinds)
    assert main(["fit", cleaned, "--image", "file", "-o", model]) == 0
    assert main(["predict", model, new, "-o", out]) == 0
    assert [row["tags_predicted"] for row in read_csv(out)] == KINDS
    capsys.readouterr()
    columns = {"title": titles(kinds), "file": names, "tags": tags(kinds)}
    both = write(tmp_path / "both.csv", columns)
    assert main(["clean", both, "--image", "file", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learned_from"] == "title"
    assert report["left_out"] == ["file"]


def test_empty_texts_are_rows_like_any_other(static, kinds, tmp_path):
    found = titles(kinds)
    found[3] = found[9] = ""
    table = write(tmp_path / "items.csv", {"title": found, "tags": tags(kinds)})
    model, out = str(tmp_path / "m.schirn"), str(tmp_path / "out.csv")
    learn = ["--text", "title", "--encoder", static]
    assert main(["clean", table, *learn, "-o", out]) == 0
    assert main(["fit", table, *learn, "-o", model]) == 0
    new = write(tmp_path / "new.csv", {"title": ["", "a pan"]})
    assert main(["predict", model, new, "-o", str(tmp_path / "o.csv")]) == 0
    assert read_csv(tmp_path / "o.csv")[1]["tags_predicted"] == "pan"


def test_an_unknown_encoder_is_one_sentence(kinds, tmp_path, capsys):
    table = write(tmp_path / "items.csv", {"title": titles(kinds), "tags": tags(kinds)})
    learn = ["--text", "title", "--encoder", "wordlama"]
    for argv in (["clean", table, *learn], ["fit", table, *learn, "-o", str(tmp_path / "m")]):
        err = refused(capsys, *argv)
        assert "there is no encoder 'wordlama'; did you mean 'wordllama'" in err
        assert "--encoder" in err


def test_groups_are_left_out_together_in_fit_as_in_clean(kinds, tmp_path, capsys):
    columns = {"title": titles(kinds), "source": [k // 2 for k in range(70)], "tags": tags(kinds)}
    table, model = write(tmp_path / "items.csv", columns), tmp_path / "m.schirn"
    argv = ["fit", table, "--text", "title", "-o", str(model)]
    assert main(argv) == 0
    alone = schirn.load(model).method_.label_confidence_
    assert main([*argv, "--group", "source"]) == 0
    grouped = schirn.load(model).method_
    assert not np.array_equal(grouped.label_confidence_, alone)
    tagger = schirn.features.TagPipeline(text="title")
    rows = {name: [str(cell) for cell in cells] for name, cells in columns.items()}
    tagger.fit(rows, rows["tags"], groups=rows["source"])
    np.testing.assert_allclose(tagger.method_.label_confidence_, grouped.label_confidence_)
    capsys.readouterr()
    assert "there is no column 'sorce'" in refused(capsys, *argv, "--group", "sorce")
    err = refused(capsys, *argv, "--group", "source", "--method", "CandidateRidge")
    assert "other methods do not leave rows out" in err


def test_options_of_tables_need_a_table(tmp_path, capsys):
    argv = ["fit", "digits_attributes", "-o", str(tmp_path / "m")]
    for option in ("--image", "--encoder", "--group"):
        err = refused(capsys, *argv, option, "x")
        assert f"{option} needs a table with one column of tags" in err
