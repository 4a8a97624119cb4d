"""Clean, fit, predict, apply and undo on workbooks, Arrow files and folders."""

import json
from pathlib import Path

import pytest

from schirn.app.cli import main
from schirn.app.tables._files import open_table

pd = pytest.importorskip("pandas", reason="the tables are made with pandas")
pytest.importorskip("pyarrow", reason="Arrow tables need pyarrow")

# Texts, most of whose tags are right.
ITEMS = Path(__file__).parents[1] / "tables" / "items.json"


@pytest.fixture
def frame():
    items = open_table(ITEMS)
    years = [2024 + i % 2 for i in range(items.n_rows)]
    cells = {"text": items.column("text"), "tags": items.column("tags"), "year": years}
    return pd.DataFrame(cells)


def workbook(frame, path):
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    frame.assign(tags=frame.tags.str.join(";")).to_excel(path, index=False)


WRITERS = {
    "items.xlsx": workbook,
    "items.json": lambda frame, path: frame.to_json(path, orient="records"),
    "parquet": lambda frame, path: frame.to_parquet(path, partition_cols=["year"]),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_whole_road(name, frame, tmp_path, capsys):
    source = tmp_path / name
    WRITERS[name](frame, source)
    before = open_table(source).column("tags")
    # The copy of a folder is one file.
    suffix, changes = source.suffix or ".parquet", str(tmp_path / "changes.csv")
    paths = {
        word: str(tmp_path / f"{word}{suffix}") for word in ("clean", "done", "back", "tagged")
    }
    argv = ["clean", str(source), "--text", "text", "-o", paths["clean"], "--changes", changes]
    assert main([*argv, "--remove", "8", "--json"]) == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    clean = open_table(paths["clean"])
    assert removed >= 7
    assert {"tags_removed", "tags_confidence"} <= set(clean.columns)
    assert main(["apply", changes, str(source), "-o", paths["done"]]) == 0
    assert open_table(paths["done"]).column("tags") == clean.column("tags") != before
    assert main(["undo", changes, paths["done"], "-o", paths["back"]]) == 0
    back = open_table(paths["back"])
    assert back.columns == open_table(source).columns
    assert [back.column(each) for each in back.columns] == [
        open_table(source).column(each) for each in back.columns
    ]
    model = str(tmp_path / "m.schirn")
    assert main(["fit", paths["clean"], "--text", "text", "-o", model]) == 0
    assert main(["predict", model, str(source), "-o", paths["tagged"]]) == 0
    tagged = open_table(paths["tagged"])
    found = [[cell] if isinstance(cell, str) else cell for cell in tagged.column("tags_predicted")]
    wanted = [cell.split(";") if isinstance(cell, str) else cell for cell in clean.column("tags")]
    assert sum(a == b for a, b in zip(found, wanted, strict=True)) >= 90
    capsys.readouterr()


def test_outputs_of_another_kind_are_refused(frame, tmp_path, capsys):
    WRITERS["parquet"](frame, tmp_path / "items")
    for out, words in (
        (tmp_path / "items" / "new", "is inside the input folder"),
        (tmp_path / "folder", "must end as that of a table"),
    ):
        assert main(["clean", str(tmp_path / "items"), "--text", "text", "-o", str(out)]) == 2
        assert words in capsys.readouterr().err
    WRITERS["items.json"](frame, tmp_path / "i.json")
    argv = ["clean", str(tmp_path / "i.json"), "--text", "text", "-o", str(tmp_path / "c.ods")]
    assert main(argv) == 2
    assert "must end as that of a table: .csv, .tsv" in capsys.readouterr().err
