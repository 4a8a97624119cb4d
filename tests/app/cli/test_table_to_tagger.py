"""clean, fit and predict: from a table of noisy tags to tags of new rows."""

import csv
import json

import numpy as np
import pytest
from app.cli.clean_helpers import read_csv, refused

import schirn
from schirn.app.cli import main
from schirn.features import TagPipeline

KINDS = ["pan", "chair", "lamp"]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    found = []
    for i in range(90):
        k = int(rng.integers(3))
        tags = [KINDS[k]] + [KINDS[(k + 1) % 3]] * (i % 6 == 0)
        vector = [float(k == j) + 0.1 * float(rng.random()) for j in range(3)]
        colour = rng.choice(["red", "blue", "green"])
        title = f"a {colour} {KINDS[k]} of steel"
        row = {"title": title, "tags": tags, "truth": KINDS[k], "vector": vector}
        found.append({**row, "size": vector[0], "weight": vector[1]})
    return found


def write(path, rows, columns, separator=";"):
    """Write a CSV or a JSONL table of some columns."""
    if path.suffix == ".jsonl":
        lines = [json.dumps({name: row[name] for name in columns}) for row in rows]
        path.write_text("".join(line + "\n" for line in lines))
        return str(path)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for row in rows:
            cells = [row[name] for name in columns]
            writer.writerow([separator.join(c) if isinstance(c, list) else c for c in cells])
    return str(path)


def test_clean_fit_and_predict_with_texts(rows, tmp_path, capsys):
    table = write(tmp_path / "items.csv", rows[:70], ["title", "tags"])
    new = write(tmp_path / "new.csv", rows[70:], ["title"])
    cleaned, model, out = (str(tmp_path / name) for name in ("c.csv", "m.schirn", "t.csv"))
    assert main(["clean", table, "--text", "title", "-o", cleaned]) == 0
    assert main(["fit", cleaned, "--text", "title", "-o", model]) == 0
    assert "learned from  title" in capsys.readouterr().out
    assert main(["predict", model, new, "-o", out]) == 0
    tagged = read_csv(out)
    assert [row["title"] for row in tagged] == [row["title"] for row in rows[70:]]
    assert [row["tags_predicted"] for row in tagged] == [row["truth"] for row in rows[70:]]
    assert all(float(row["tags_probability"].split("=")[1]) > 0.5 for row in tagged)


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_numbers_are_learned_from_their_columns(rows, tmp_path, capsys, suffix):
    columns = ["size", "weight", "tags"]
    table = write(tmp_path / f"items{suffix}", rows[:70], columns)
    # In another order, with one more column.
    new = write(tmp_path / f"new{suffix}", rows[70:], ["truth", "weight", "size"])
    model, out = str(tmp_path / "m.schirn"), tmp_path / f"out{suffix}"
    assert main(["fit", table, "-o", model]) == 0
    assert "learned from  size, weight" in capsys.readouterr().out
    assert main(["predict", model, new, "-o", str(out)]) == 0
    if suffix == ".csv":
        found = [row["tags_predicted"].split(";") for row in read_csv(out)]
    else:
        found = [json.loads(line)["tags_predicted"] for line in out.read_text().splitlines()]
    assert found == [[row["truth"]] for row in rows[70:]]


def test_embeddings_are_a_column_or_a_file(rows, tmp_path, capsys):
    table = write(tmp_path / "items.jsonl", rows[:70], ["vector", "tags"])
    new = write(tmp_path / "new.jsonl", rows[70:], ["vector"])
    model, out = str(tmp_path / "m.schirn"), tmp_path / "out.jsonl"
    assert main(["fit", table, "--features", "vector", "-o", model]) == 0
    assert main(["predict", model, new, "-o", str(out)]) == 0
    column = [json.loads(line)["tags_predicted"] for line in out.read_text().splitlines()]
    assert column == [[row["truth"]] for row in rows[70:]]
    matrix = np.array([row["vector"] for row in rows])
    np.save(tmp_path / "train.npy", matrix[:70])
    np.save(tmp_path / "new.npy", matrix[70:])
    tags = write(tmp_path / "tags.csv", rows[:70], ["truth", "tags"])
    titles = write(tmp_path / "titles.csv", rows[70:], ["title"])
    argv = ["fit", tags, "--features", str(tmp_path / "train.npy"), "-o", model]
    assert main(argv) == 0
    beside = ["--features", str(tmp_path / "new.npy")]
    assert main(["predict", model, titles, *beside, "-o", str(tmp_path / "o.csv")]) == 0
    found = [[row["tags_predicted"]] for row in read_csv(tmp_path / "o.csv")]
    assert found == column
    # A model of a file can be given a column, and is not fed other columns of a table.
    assert main(["predict", model, new, "--features", "vector", "-o", str(out)]) == 0
    lines = out.read_text().splitlines()
    assert [json.loads(line)["tags_predicted"] for line in lines] == column
    capsys.readouterr()
    numbers = write(tmp_path / "numbers.csv", rows[70:], ["size", "weight"])
    assert "was trained on 3" in refused(capsys, "predict", model, numbers)
    wrong = ["--features", str(tmp_path / "train.npy")]
    assert "titles.csv has 20 rows" in refused(capsys, "predict", model, titles, *wrong)


def test_the_file_is_a_pipeline_in_python(rows, tmp_path):
    table = write(tmp_path / "items.csv", rows, ["title", "tags"])
    model = tmp_path / "m.schirn"
    assert main(["fit", table, "--text", "title", "--drop-training", "-o", str(model)]) == 0
    tagger = schirn.load(model)
    assert type(tagger) is TagPipeline
    assert tagger.predict_labels([{"title": "one more lamp"}]) == [["lamp"]]


def test_a_new_table_can_be_judged_and_printed(rows, tmp_path, capsys):
    table = write(tmp_path / "items.csv", rows, ["title", "tags"])
    model = str(tmp_path / "m.schirn")
    assert main(["fit", table, "--text", "title", "-o", model]) == 0
    capsys.readouterr()
    assert main(["predict", model, table, "--disambiguate", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    found = {(r["row"] - 1, r["label"]): r["confidence"] for r in results}
    listed = [(i, tag) for i, row in enumerate(rows) for tag in row["tags"]]
    assert list(found) == [(i, tag) for i, tag in sorted(listed)]
    right = [found[i, tag] for i, tag in listed if tag == rows[i]["truth"]]
    wrong = [found[i, tag] for i, tag in listed if tag != rows[i]["truth"]]
    assert max(wrong) < min(right)
    assert main(["predict", model, table, "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["results"][0]
    assert first == {"row": 1, "labels": [rows[0]["truth"]]}


def test_all_probabilities_on_request(rows, tmp_path, capsys):
    table = write(tmp_path / "items.csv", rows, ["title", "tags"])
    model, out = str(tmp_path / "m.schirn"), str(tmp_path / "o.csv")
    assert main(["fit", table, "--text", "title", "-o", model]) == 0
    assert main(["predict", model, table, "--proba", "-o", out]) == 0
    first = read_csv(out)[0]
    assert [cell.split("=")[0] for cell in first["tags_probability"].split(";")] == sorted(KINDS)
    again = str(tmp_path / "again.csv")
    capsys.readouterr()
    message = refused(capsys, "predict", model, out, "-o", again)
    assert "already has a column 'tags_predicted'" in message


@pytest.mark.parametrize("command", ["clean", "fit"])
def test_doubtful_guesses_are_errors(rows, tmp_path, capsys, command):
    output = ["-o", str(tmp_path / "o.csv")]
    several = [{**row, "tags": [*row["tags"], "shop"]} for row in rows]
    table = write(tmp_path / "commas.csv", several, ["title", "tags"], separator=", ")
    message = refused(capsys, command, table, "--text", "title", *output)
    assert "most cells of 'tags' contain ',' and none ';'" in message
    argv = [command, table, "--text", "title", "--separator", ",", *output, "--json"]
    assert main(argv) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == 4


def shop_rows(rows):
    """Titles of which a quarter says nothing, prices with commas and gaps, and a brand."""
    brands = {"pan": "Tefo", "chair": "Holz", "lamp": "Lux"}
    for i, row in enumerate(rows):
        price = f"{20 * KINDS.index(row['truth']) + i / 50:.2f}".replace(".", ",")
        yield {
            "title": row["title"] if i % 4 != 1 else "one of our best things",
            "price": "" if i % 10 == 3 else price,
            "weight": i * 7 % 5,
            "brand": "Other" if i % 5 == 2 else brands[row["truth"]],
            "tags": row["tags"],
            "truth": row["truth"],
        }


@pytest.mark.parametrize("chosen", [[], ["--text", "title", "--features", "price, weight"]])
def test_texts_numbers_and_categories_are_learned_from_together(rows, tmp_path, capsys, chosen):
    names = ["title", "price", "weight", "brand", "tags"]
    shop = list(shop_rows(rows))
    table = write(tmp_path / "shop.csv", shop, names)
    chosen = [*chosen, "--categories", "brand"] if chosen else []
    cleaned, model, out = (str(tmp_path / name) for name in ("c.csv", "m.schirn", "t.csv"))
    assert main(["clean", table, *chosen, "-o", cleaned]) == 0
    said = capsys.readouterr()
    assert "learned from  title, price, weight, brand (TextRanker" in said.out
    assert "left out" not in said.out
    assert "note: price: 9 missing values were filled with the median" in said.err
    assert "note: price: commas were read as decimal points, as in " in said.err
    doubts = [
        min((float(p), tag) for tag, p in (pair.split("=") for pair in cell.split(";")))[1]
        for cell in (row["tags_confidence"] for row in read_csv(cleaned)[::6])
    ]
    assert np.mean(np.array(doubts) != [row["truth"] for row in rows[::6]]) > 0.9
    assert main(["fit", table, *chosen, "-o", model]) == 0
    new = write(tmp_path / "new.csv", shop[30:60], ["brand", "weight", "price", "title"])
    capsys.readouterr()
    assert main(["predict", model, new, "-o", out]) == 0
    assert "price: 3 missing values were filled" in capsys.readouterr().err
    right = [
        row["tags_predicted"] == wanted["truth"]
        for row, wanted in zip(read_csv(out), shop[30:60], strict=True)
    ]
    assert np.mean(right) > 0.9
    assert schirn.load(model).features_.kinds == ["text", "columns", "categories"]
    message = refused(capsys, "predict", model, new, "--features", "price")
    assert "learned from title, price, weight, brand, and finds these columns" in message


def test_embeddings_and_texts_are_learned_from_together(rows, tmp_path, capsys):
    table = write(tmp_path / "both.jsonl", rows, ["title", "vector", "tags"])
    model = str(tmp_path / "m.schirn")
    learn = ["--text", "title", "--features", "vector"]
    assert main(["fit", table, *learn, "-o", model]) == 0
    assert "learned from  title, vector" in capsys.readouterr().out
    assert main(["predict", model, table]) == 0
    capsys.readouterr()
    message = refused(capsys, "fit", table, *learn, "--columns", "size", "-o", model)
    assert "there is no column 'size'" in message


def test_the_only_column_of_sentences_is_learned_from_and_named(rows, tmp_path, capsys):
    table = write(tmp_path / "items.csv", rows, ["title", "tags"])
    assert main(["fit", table, "-o", str(tmp_path / "m")]) == 0
    assert "learned from  title" in capsys.readouterr().out
    table = write(tmp_path / "more.csv", rows, ["title", "size", "tags"])
    assert main(["fit", table, "--columns", "size", "-o", str(tmp_path / "m"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left_out"] == ["title"]


def test_a_table_without_the_columns_of_training_is_named(rows, tmp_path, capsys):
    table = write(tmp_path / "items.csv", rows, ["title", "tags"])
    model = str(tmp_path / "m.schirn")
    assert main(["fit", table, "--text", "title", "-o", model]) == 0
    capsys.readouterr()
    new = write(tmp_path / "new.csv", rows, ["truth", "size"])
    assert "new.csv: there is no column 'title'" in refused(capsys, "predict", model, new)


@pytest.mark.parametrize("command", ["clean", "fit"])
def test_features_may_name_columns_of_numbers(rows, tmp_path, capsys, command):
    table = write(tmp_path / "items.csv", rows, ["title", "size", "weight", "tags"])
    argv = [command, table, "--features", "size, weight", "-o", str(tmp_path / "o.csv")]
    assert main([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["learned_from"], report["left_out"]) == ("size, weight", ["title"])


def test_predicted_tags_are_joined_as_in_training(rows, tmp_path):
    both = [{**row, "tags": [*row["tags"], "shop"]} for row in rows]
    table = write(tmp_path / "items.csv", both, ["title", "tags"], separator=",")
    model, out = str(tmp_path / "m.schirn"), tmp_path / "o.csv"
    assert main(["fit", table, "--text", "title", "--separator", ",", "-o", model]) == 0
    assert main(["predict", model, table, "--threshold", "top-2", "-o", str(out)]) == 0
    assert all("," in row["tags_predicted"] for row in read_csv(out))


def test_predicted_tags_have_the_spaces_of_the_table(rows, tmp_path):
    both = [{**row, "tags": [*row["tags"], "shop"]} for row in rows]
    table = write(tmp_path / "items.csv", both, ["title", "tags"], separator=" | ")
    model, out = str(tmp_path / "m.schirn"), tmp_path / "o.csv"
    assert main(["fit", table, "--text", "title", "--separator", "|", "-o", model]) == 0
    assert main(["predict", model, table, "--threshold", "top-2", "-o", str(out)]) == 0
    lines = read_csv(out)
    assert all(" | " in row["tags_predicted"] for row in lines)
    assert all(" | " in row["tags_probability"] for row in lines)
    assert main(["predict", model, table, "--threshold", "top-2", "--separator", ";"]) == 0
