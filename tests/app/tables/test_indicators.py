"""Tables with one 0/1 column per tag."""

import json

import pytest
from app.cli.clean_helpers import make_items, make_project, read_csv

from schirn.app.cli import main
from schirn.app.review import open_session
from schirn.app.tables._files import open_table, write_copy
from schirn.app.tables._indicators import with_tag_column
from schirn.exceptions import InputError

NAMES = ["beach", "dog", "sunset", "city"]


@pytest.fixture
def wide(tmp_path):
    lines = [",".join(["id", "text", *NAMES])]
    for i, (text, tags, _) in enumerate(make_items()):
        cells = ["1" if name in tags else "0" for name in NAMES]
        lines.append(",".join([f"{1000 - i}", text, *cells]))
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_clean_apply_undo_and_review(wide, tmp_path, capsys):
    labels = ",".join(NAMES)
    clean, done, back, changes, project, final = (
        str(tmp_path / name) for name in ("c.csv", "d.csv", "b.csv", "ch.csv", "project", "f.csv")
    )
    argv = ["clean", str(wide), "--labels", labels, "--text", "text", "--remove-below", "0.5"]
    argv += ["-o", clean, "--changes", changes, "--json"]
    assert main(argv) == 0
    removed = json.loads(capsys.readouterr().out)["removed"]
    before, after = read_csv(wide), read_csv(clean)
    lost = [
        [name for name in NAMES if (old[name], new[name]) == ("1", "0")]
        for old, new in zip(before, after, strict=True)
    ]
    assert sum(map(len, lost)) == removed > 20
    assert [";".join(tags) for tags in lost] == [row["tags_removed"] for row in after]
    after = [{k: cell for k, cell in row.items() if not k.startswith("tags_")} for row in after]
    assert main(["apply", changes, str(wide), "-o", done]) == 0
    assert read_csv(done) == after
    assert main(["undo", changes, done, "-o", back]) == 0
    assert (tmp_path / "b.csv").read_bytes() == wide.read_bytes()
    assert make_project(wide, project, "--labels", labels, "--text", "text") == 0
    session = open_session(project)
    current = session.view()["current"]
    session.decide("drop", current["item"], current["label"], 0)
    session.write_table(final)
    session.journal.close()
    row = int(current["item"]) - 1
    before[row] = {**before[row], current["label"]: "0"}
    assert read_csv(final) == before


def test_fit_learns_from_the_text(wide, tmp_path, capsys):
    model, out = str(tmp_path / "m.schirn"), str(tmp_path / "p.csv")
    argv = ["fit", str(wide), "--labels", ",".join(NAMES), "--text", "text", "-o", model, "--json"]
    assert main(argv) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["learned_from"] == "text"
    assert report["labels"] == 4
    assert main(["predict", model, str(wide), "-o", out]) == 0
    assert {tag for row in read_csv(out) for tag in row["tags_predicted"].split(";") if tag} == set(
        NAMES
    )


@pytest.mark.parametrize(
    ("one", "zero"), [("1", "0"), ("True", "False"), ("1.0", "0.0"), ("1", "")]
)
def test_cells_are_written_as_the_others_are(one, zero, tmp_path):
    source, copy = tmp_path / "t.csv", tmp_path / "c.csv"
    source.write_text(f"a,b,x\n{one},{one},p\n{one},{zero},q\n")
    table = with_tag_column(open_table(source), "a,b")
    assert table.column("a,b") == [["a", "b"], ["a"]]
    write_copy(str(copy), table, {"a,b": [["b"], ["a", "b"]]}, {})
    off = zero or "0"
    assert copy.read_text() == f"a,b,x\n{off},{one},p\n{one},{one},q\n"


def test_columns_that_are_no_tags(tmp_path):
    source = tmp_path / "t.csv"
    source.write_text("a,b\n1,0\n2,1\n")
    with pytest.raises(InputError, match="row 2, column 'a': '2' is neither 0 nor 1"):
        with_tag_column(open_table(source), "a,b")
    source.write_text("a,b\n1,0\n0,x\n")
    with pytest.raises(InputError, match="row 2, column 'b': 'x' is neither 0 nor 1"):
        with_tag_column(open_table(source), "a,b")
    with pytest.raises(InputError, match="there is no column 'c'"):
        with_tag_column(open_table(source), "a,c")
    source.write_text("a,b\n1,0\n0,1\n")
    table = with_tag_column(open_table(source), '["a", "b"]')
    with pytest.raises(InputError, match="there is no column 'new', so no row can get this tag"):
        write_copy(str(tmp_path / "c.csv"), table, {'["a", "b"]': [["new"], []]}, {})
