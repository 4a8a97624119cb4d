import json
import re

import numpy as np
import pytest

from schirn import datasets
from schirn.app.cli import main


@pytest.fixture
def table(tmp_path):
    pytest.importorskip("pandas")
    path = tmp_path / "photos.csv"
    path.write_text("id,red,blue,tags,checked\na,0.9,0.1,beach|dog,dog\nb,0.2,0.7,dog,dog\n")
    return path


def test_list(capsys, tmp_path, monkeypatch):
    np.savez(tmp_path / "mine.npz", X=np.eye(2), Y=np.eye(2))
    monkeypatch.setenv("SCHIRN_DATA", str(tmp_path))
    assert main(["data", "list"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].split() == ["name", "where", "path"]
    assert f"folder        {tmp_path / 'mine.npz'}" in out
    assert main(["data", "list", "--json"]) == 0
    entries = {entry["name"]: entry for entry in json.loads(capsys.readouterr().out)}
    assert entries["digits_attributes"] == {
        "name": "digits_attributes",
        "where": "built-in",
        "path": None,
    }
    assert entries["mine"]["path"] == str(tmp_path / "mine.npz")


def test_card(capsys):
    assert main(["data", "card", "digits_attributes"]) == 0
    assert re.search(r"noisy per row +2\n", capsys.readouterr().out)
    assert main(["data", "card", "digits_attributes", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["noisy_per_row"] == 2.0


def test_card_reads_a_table_with_options(capsys, table):
    argv = ["data", "card", str(table), "--labels", "tags"]
    assert main([*argv, "--separator", "|", "--features", "red", "--json"]) == 0
    card = json.loads(capsys.readouterr().out)
    assert (card["n_features"], card["n_labels"]) == (1, 2)


def test_names_cannot_drive_the_terminal(capsys, tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(1), C=np.ones((1, 1)), description="\x1b[2Jgone")
    assert main(["data", "card", str(tmp_path / "x.npz")]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\\x1b[2Jgone" in out


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["digit_attributes"], "did you mean 'digits_attributes'?"),
        (["absent.csv"], "absent.csv: there is no such file"),
        (["photo.jpg/x"], "no reader for"),
        (["digits_attributes", "--labels", "q"], "cannot be read with these options"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_sentence(capsys, argv, sentence):
    assert main(["data", "card", *argv]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.count("\n") == 1


def test_a_wrong_label_column_is_named(capsys, table):
    assert main(["data", "card", str(table), "--labels", "tag"]) == 2
    assert "there is no column 'tag'; choose from id, red, blue" in capsys.readouterr().err


def test_messages_speak_of_options_of_the_program(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("SCHIRN_CACHE", str(tmp_path))
    monkeypatch.delenv("SCHIRN_DATA", raising=False)
    assert main(["data", "card", "emoji_keywords"]) == 2
    assert "in a terminal with: schirn data fetch emoji_keywords" in capsys.readouterr().err
    (tmp_path / "x.arff").write_text("@relation r\n@attribute a real\n@data\n1\n")
    assert main(["data", "card", str(tmp_path / "x.arff")]) == 2
    assert "(see --labels)" in capsys.readouterr().err


def test_fetch_hands_its_options_on(capsys, monkeypatch):
    asked = {}

    def fake(name, **options):
        asked.update(name=name, **options)
        return datasets.load_digits_attributes()

    monkeypatch.setattr("schirn.lab.cli._data.fetch", fake)
    assert main(["data", "fetch", "mine", "--url", "https://example.org/mine.npz"]) == 0
    assert asked["url"] == "https://example.org/mine.npz"
    assert "1,797 rows" in capsys.readouterr().err
    assert main(["data", "fetch", "mine", "--json"]) == 0
    assert asked["url"] is None
    assert json.loads(capsys.readouterr().out)["n_samples"] == 1797


def test_the_memory_of_ranks_can_be_set(tmp_path, capsys):
    ring = np.eye(9, dtype=np.uint8) | np.roll(np.eye(9, dtype=np.uint8), 1, axis=1)
    path = tmp_path / "ring.npz"
    np.savez(path, X=np.ones((9, 1)), Y=ring)
    assert main(["data", "card", str(path), "--memory", "100", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rank_true"] is None
    assert main(["data", "card", str(path), "--memory", "1M", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rank_true"] == 9
    assert main(["data", "card", str(path), "--memory", "much"]) == 2
    assert "must be a size such as 500M or 8G" in capsys.readouterr().err
