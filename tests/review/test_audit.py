"""Audits and suggestions in a review session."""

import json

import numpy as np
import pytest
from review.review_helpers import Server, write_project

from schirn.cleaning import Certificate
from schirn.cli import main
from schirn.exceptions import DataError, InputError
from schirn.review import open_session
from schirn.review._state import DROP, KEEP
from schirn.review._training import new_confidence

LABELS = ["dog", "cat", "beach", "sea"]


@pytest.fixture
def folder(tmp_path):
    """120 items whose tags are wrong where their confidence is low, and two suggestions."""
    rng = np.random.default_rng(0)
    items = []
    for i in range(120):
        chosen = rng.choice(LABELS, size=3, replace=False)
        tags = {label: float(np.clip(rng.beta(0.3, 0.3), 0.001, 0.999)) for label in chosen}
        items.append((f"item {i}", f"Text {i}", tags))
    for i, q in ((3, 0.97), (8, 0.7)):
        missing = next(label for label in LABELS if label not in items[i][2])
        items[i] = (*items[i], {missing: q})
    return write_project(tmp_path / "project", items, LABELS)


@pytest.fixture
def session(folder):
    session = open_session(folder)
    yield session
    session.journal.close()


def answer(session, times, action=None):
    """Answer what is asked: drop what the project would drop, unless told otherwise."""
    asked = []
    for _ in range(times):
        view = session.view()
        pair = view["current"]["item"], view["current"]["label"]
        tag = session.find(*pair)
        does = action or ("keep" if session.project.kept[tag] else "drop")
        session.decide(does, *pair, view["seq"])
        asked.append(tag)
    return asked


def undo(session):
    last = session.view()["last"]
    session.decide("undo", last["item"], last["label"], session.sequence)


def test_the_sample_is_asked_first_and_certifies(session, folder):
    session.start_audit(50)
    tags = answer(session, 31)
    view = session.view()["audit"]
    assert (view["answered"], view["size"], view["done"]) == (31, 50, False)
    assert view["words"].startswith("31 of 50 checked; at least ")
    assert session.certificate is None
    assert not (folder / "certificate.json").exists()
    tags += answer(session, 19)
    assert tags == session.audit.tags
    # The same as in the library.
    found = session.project.verdicts()
    cells = found.audit_sample(50)
    right = found.confidence[cells.index] >= 0.5
    expected = found.audited(cells, right, date=session.certificate.date).certificate
    assert session.certificate == expected
    assert expected.n_answers == expected.n_wrong == 30
    assert Certificate.from_json((folder / "certificate.json").read_text()) == expected
    view = session.view()["audit"]
    assert view["done"]
    assert view["certificate"] == str(expected)
    # Then the most doubtful tag.
    assert session.view()["current"]["confidence"] is not None


def test_the_bound_grows(session):
    session.start_audit(50)
    bounds = []
    for _ in range(50):
        answer(session, 1)
        bounds.append(session.view()["audit"]["at_least"] or 0)
    assert bounds[-1] > bounds[25] > bounds[8]
    assert bounds[-1] > 0.88


def test_the_audit_hides_what_the_model_thinks(session):
    session.start_audit(20)
    for _ in range(20):
        current = session.view()["current"]
        assert current["audit"]
        assert current["confidence"] is current["kept"] is None
        for tag in current["tags"]:
            assert tag["confidence"] is tag["decision"] is None
            assert tag["kept"]
            assert not tag["suggested"]
        answer(session, 1)
    assert session.view()["current"]["confidence"] is not None


def test_decisions_in_the_order_of_doubt_do_not_count(session, folder):
    before = answer(session, 200, "keep")
    session.start_audit(50)
    # What was decided before is asked again: only answers to the sample count.
    asked = answer(session, 50)
    assert set(asked) & set(before)
    certificate = session.certificate
    answer(session, 60, "keep")
    assert session.certificate == certificate
    records = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]
    marked = [record["seq"] for record in records if record.get("audit")]
    assert marked == list(range(202, 252))
    assert records[201]["action"] == "audit"


def test_a_restart_in_the_middle(session, folder):
    session.start_audit(50)
    answer(session, 20)
    answer(session, 1, "skip")
    undo(session)
    view = session.view()
    session.journal.close()
    again = open_session(folder)
    assert again.view() == view
    # The same request goes on, without one too.
    again.start_audit(50)
    assert again.view() == view
    answer(again, 30)
    certificate = again.certificate
    again.journal.close()
    (folder / "certificate.json").unlink()
    assert open_session(folder, write=False).certificate == certificate
    assert not (folder / "certificate.json").exists()
    open_session(folder).journal.close()
    assert (folder / "certificate.json").exists()


def test_undo_takes_an_answer_back(session, folder):
    session.start_audit(20)
    before = []
    for _ in range(20):
        before.append(session.view())
        answer(session, 1)
    assert (folder / "certificate.json").exists()
    for view in reversed(before):
        undo(session)
        now = session.view()
        assert now["current"] == view["current"]
        assert now["audit"] == view["audit"]
        assert not (folder / "certificate.json").exists()
    assert not session.status.any()


def test_undo_beyond_the_start_of_the_audit(session):
    [tag] = answer(session, 1, "drop")
    session.start_audit(20)
    answer(session, 1)
    undo(session)
    undo(session)
    assert session.view()["audit"]["answered"] == 0
    assert session.status[tag] == 0
    # It is asked at once, and is an answer only if it is in the sample.
    answer(session, 1)
    assert session.view()["audit"]["answered"] == int(tag in session.audit)


def test_tags_that_nobody_can_tell(session):
    session.start_audit(50)
    answer(session, 10, "skip")
    answer(session, 40)
    certificate = session.certificate
    assert certificate.n_untold > 0
    assert certificate.n_answers + certificate.n_untold == 30
    # Skipped tags come back at the end, and then count after all.
    while session.view()["progress"]["decided"] < len(session.status) - 10:
        answer(session, 1)
    answer(session, 10)
    assert session.certificate.n_untold == 0
    assert session.certificate.n_answers == 30


def test_removals_stay_those_that_were_certified(session):
    session.start_audit(50)
    answer(session, 50)
    found = session.project.verdicts()
    cells = found.audit_sample(50)
    checked = found.audited(cells, found.confidence[cells.index] >= 0.5)
    listed = session.project.listed
    np.testing.assert_array_equal(session.final()[listed], ~checked.removed)
    tags = list(session.final_tags())
    # A new model changes the order of the questions, not the removals.
    session.use_confidence(1 - session.project.confidence, session.sequence)
    assert list(session.final_tags()) == tags
    [tag] = answer(session, 1, "drop")
    record = list(session.final_tags())[session.row[tag]]
    assert session.name(tag) in record["removed"]


def test_a_second_audit_draws_other_tags(session):
    # One that nobody has answered yet is replaced.
    session.start_audit(9)
    session.start_audit(20)
    first = answer(session, 5)
    with pytest.raises(InputError, match=r"audit of 20 tags has begun, of which 5 are answered"):
        session.start_audit(30)
    first += answer(session, 15)
    session.start_audit(30)
    assert session.certificate is None
    assert not (session.project.folder / "certificate.json").exists()
    second = answer(session, 30)
    assert len(set(second) - set(first)) > 15
    assert session.certificate.n_answers == 18
    session.start_audit(30)
    assert session.certificate is not None


def test_a_certificate_that_cannot_be_written_loses_nothing(session, folder):
    # Such as on a full disk; here a folder is in its place.
    (folder / "certificate.json").mkdir()
    session.start_audit(20)
    answer(session, 20)
    assert session.certificate.n_answers == 12
    (folder / "certificate.json").rmdir()
    session.journal.close()
    session = open_session(folder)
    assert json.loads((folder / "certificate.json").read_text())["n_answers"] == 12
    session.journal.close()


def test_nothing_to_audit(tmp_path):
    folder = write_project(tmp_path / "p", [("a", "", {"x": 0.5})], ["x"])
    session = open_session(folder)
    with pytest.raises(InputError, match="no tag was judged"):
        session.start_audit(50)
    assert session.sequence == 0
    session.journal.close()


def damage(folder, **change):
    path = folder / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for record in lines:
        record.pop("sum", None)
        if all(key in record for key in change):
            record.update(change)
    path.write_text("".join(json.dumps(record) + "\n" for record in lines))


@pytest.mark.parametrize(
    "change",
    [{"sample": "0" * 64}, {"size": 0}, {"size": "x"}, {"seed": -1}, {"seed": 1}, {"audit": False}],
)
def test_a_journal_that_does_not_fit_the_sample(session, folder, change):
    session.start_audit(20)
    answer(session, 5)
    session.journal.close()
    damage(folder, **change)
    with pytest.raises(DataError, match=r"the audit of record 1 was drawn|does not fit"):
        open_session(folder)


def test_suggestions_are_asked_and_added(session):
    project = session.project
    assert session.view()["progress"]["suggested"] == 2
    sure = session.find("item 3", next(iter(set(LABELS) - _listed(project, "item 3"))))
    order = session._order.tolist()
    # A sure suggestion comes early, as does a doubtful tag; listed sure tags come last.
    assert order.index(sure) < 30
    assert not session.final()[~project.listed].any()
    for tag in np.flatnonzero(~project.listed).tolist():
        item, label = project.items[project.row[tag]].id, session.name(tag)
        session.decide("keep" if tag == sure else "drop", item, label, session.sequence)
    records = {record["id"]: record for record in session.final_tags()}
    added, rejected = records["item 3"], records["item 8"]
    assert added["added"] == [session.name(sure)]
    assert added["added"][0] in added["tags"]
    assert added["added"][0] in added["checked"]
    assert rejected["added"] == []
    assert len(rejected["checked"]) == 1
    assert not set(rejected["checked"]) & {*rejected["tags"], *rejected["removed"]}
    assert session.view()["progress"]["suggested"] == 0
    undo(session)
    assert session.view()["current"]["suggested"]


def _listed(project, item):
    return {
        project.labels[project.column[k]]
        for k in range(len(project.row))
        if project.listed[k] and project.items[project.row[k]].id == item
    }


def test_training_learns_from_added_tags(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    items = [
        (f"i{i}", "", {"a": 0.6, "b": 0.4}, {"c": 0.9}) if i < 40 else (f"i{i}", "", {"c": 0.6})
        for i in range(60)
    ]
    folder = write_project(tmp_path / "p", items, ["a", "b", "c"], X)
    session = open_session(folder)
    status = np.zeros(len(session.status), dtype=np.uint8)
    suggested = np.flatnonzero(~session.project.listed)
    status[suggested[0]], status[suggested[1]] = KEEP, DROP
    confidence = new_confidence(session.project, status)
    assert confidence[suggested[0]] == 1
    np.testing.assert_array_equal(confidence[suggested[1:]], 0.9)
    session.use_confidence(confidence, 0)
    # A suggestion is never added by itself, however likely it is.
    assert not session.final()[~session.project.listed].any()
    session.journal.close()


def test_program(folder, tmp_path, capsys):
    with Server(folder, "--audit", "12", "--retrain-every", "0") as server:
        for _ in range(5):
            server.decide("drop")
        state = server.request("/api/state")
        assert state["audit"]["words"].startswith("5 of 12 checked")
    export = tmp_path / "tags.csv"
    assert main(["review", str(folder), "--export", str(export)]) == 0
    assert "audit is not complete" in capsys.readouterr().err
    with Server(folder, "--retrain-every", "0") as server:
        for _ in range(7):
            server.decide("drop")
        certificate = server.request("/certificate.json")
        assert certificate["n_wrong"] == certificate["n_answers"]
    assert main(["review", str(folder), "--export", str(export)]) == 0
    path = f"{export}.certificate.json"
    assert f"wrote the certificate to {path}" in capsys.readouterr().err
    assert main(["certificate", "check", path]) == 0
    assert json.loads((folder / "certificate.json").read_text()) == certificate
    capsys.readouterr()
    assert main(["review", str(folder), "--export", str(export), "--audit", "9"]) == 2
    assert "only one of --audit and --export" in capsys.readouterr().err


def test_a_project_of_clean_draws_the_sample_of_clean(tmp_path, capsys):
    pytest.importorskip("sklearn")
    from cli.clean_helpers import make_items, read_csv, write_csv

    table = write_csv(tmp_path / "items.csv", make_items(200))
    sample, project = tmp_path / "check.csv", tmp_path / "project"
    argv = ["clean", table, "--text", "description", "--precision", "0.8"]
    assert main([*argv, "--audit-sample", str(sample), "--project", str(project)]) == 0
    session = open_session(project)
    session.start_audit(50)
    asked = [
        (session.project.items[session.row[tag]].id, session.name(tag))
        for tag in session.audit.tags
    ]
    assert asked == [(row["row"], row["tag"]) for row in read_csv(sample)]
    answer(session, 50)
    assert session.certificate.precision == 0.8
    session.journal.close()
    path = str(project / "certificate.json")
    assert main(["certificate", "check", path, table]) == 0
    capsys.readouterr()
