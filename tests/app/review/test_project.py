import json

import pytest
from app.review.review_helpers import change_tags, sign, write_project

from schirn.app.review import open_session
from schirn.app.review._project import read_project
from schirn.exceptions import DataError


def test_reads_items_and_tags(folder):
    project = read_project(folder)
    assert project.ids == ["a", "b", "c"]
    assert [project.labels[j] for j in project.column[3:]] == ["cat", "dog", "beach"]
    assert [list(project.tags_of_row(i)) for i in range(3)] == [[0, 1, 2], [3], [4, 5]]
    assert project.confidence.tolist() == [0.52, 0.1, 0.95, 0.49, 0.4, 0.2]
    assert project.kept.tolist() == [True, False, True, False, False, False]


def test_an_item_may_have_no_tags(tmp_path):
    items = [("a", "", {}), ("b", "", {"x": 0.5}), ("c", "", {})]
    project = read_project(write_project(tmp_path / "p", items, ["x"]))
    assert [list(project.tags_of_row(i)) for i in range(3)] == [[], [0], []]


def sentence(folder):
    with pytest.raises(DataError) as caught:
        read_project(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "does not describe a review project"),
        (
            {"version": 1},
            "(format 1, not 6); move the folder away, and start the review again from the table",
        ),
        ({"version": 3}, "made by another version of schirn (format 3, not 6)"),
        ({"version": True}, "(format True, not 6)"),
        ({"table": None}, "damaged or edited (wrong checksum); start the review again"),
        ({"labels": ["dog", "cat"]}, "damaged or edited"),
        ({"sha256": None}, "damaged or edited"),
    ],
)
def test_damaged_head(folder, change, says):
    path = folder / "project.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    assert says in sentence(folder)


@pytest.mark.parametrize("change", [{"row": None}, {"column": lambda x: x - 1}])
def test_damaged_tags(folder, change):
    change_tags(folder, **change)
    assert "project.json or tags.npz: damaged or edited" in sentence(folder)


def test_an_edited_table_is_refused(folder):
    path = folder / "table.csv"
    assert open_session(folder, write=False).table.table.n_rows == 3
    path.write_bytes(path.read_bytes().replace(b"beach", b"bench"))
    with pytest.raises(DataError, match=r"table\.csv: damaged or edited \(wrong checksum\)"):
        open_session(folder, write=False).write_table(folder.parent / "out.csv")


def test_no_table_outside_of_the_folder(folder):
    head = json.loads((folder / "project.json").read_text())
    (folder.parent / "table.csv").write_text("secret")
    sign(folder, {**head, "table": {**head["table"], "file": "../table.csv"}})
    assert open_session(folder, write=False).table.path == folder / "table.csv"
    sign(folder, {**head, "table": {**head["table"], "file": "table.tsv"}})
    assert "table.tsv: the table is missing" in sentence(folder)


def test_foreign_folders(tmp_path, folder):
    assert "schirn review TABLE" in sentence(tmp_path)
    (folder / "tags.npz").unlink()
    assert "tags.npz: the file is missing" in sentence(folder)
    (folder / "project.json").write_bytes(b"\xff\xfe")
    assert "not valid JSON" in sentence(folder)
    assert "nothing to review" in sentence(write_project(tmp_path / "n", [("a", "", {})], ["x"]))


def test_half_of_a_surrogate_pair_is_repaired(tmp_path):
    items = [("a\ud83d", "half \ud83d", {"x\ud83d": 0.4})]
    project = read_project(write_project(tmp_path / "p", items, ["x\ud83d"]))
    assert (project.labels, project.ids) == (["x\ufffd"], ["a\ufffd"])
    assert project.texts == ["half \ufffd"]
    json.dumps(open_session(tmp_path / "p", write=False).view(), ensure_ascii=False).encode()
