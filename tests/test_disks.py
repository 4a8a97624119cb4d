"""Full disks, read-only folders and links: one sentence, and what was there before stays."""

import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from typing import NamedTuple

import numpy as np
import pytest
from app.cli.clean_helpers import make_project

from schirn import CandidateRidge, save
from schirn import load as load_model
from schirn.app.cli import main
from schirn.datasets import load, make_partial_multilabel
from schirn.lab.bench import read_rows

pytestmark = pytest.mark.skipif(os.name != "posix", reason="disks are filled the POSIX way")


def can_mount():
    """Whether a small disk can be made here."""
    if os.geteuid() != 0:
        return False
    command = "d=$(mktemp -d) && mount -t tmpfs -o size=64k tmpfs $d && umount $d"
    try:
        return subprocess.run(["sh", "-c", command], capture_output=True).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def mountable():
    if not can_mount():
        pytest.skip("only root may make a small disk, and only where that is allowed")


@contextmanager
def disk(folder, *options):
    """A small disk in a folder."""
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder, leave=0):
    """Take all space but `leave` bytes."""
    ballast = folder / "ballast"
    block, size = os.statvfs(folder).f_bsize, os.statvfs(folder).f_bavail
    with ballast.open("wb") as stream:
        stream.write(b"\1" * max(0, block * size - leave))
    return ballast


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A set for fit and bench, and a table for clean."""
    folder = tmp_path_factory.mktemp("inputs")
    data = make_partial_multilabel(
        n_samples=400, n_features=40, n_labels=8, cardinality=2, r=1, random_state=0
    )
    np.savez(folder / "set.npz", X=data.X, Y=data.y_true, C=data.candidates)
    names = np.array([f"tag{j}" for j in range(8)])
    lines = ["a,b,c,tags"]
    for x, row in zip(data.X, np.asarray(data.candidates), strict=True):
        lines.append(",".join([f"{v:.6f}" for v in x[:3]] + [";".join(names[row == 1])]))
    (folder / "table.csv").write_text("\n".join(lines) + "\n")
    return folder


class Ran(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def schirn(*args, before=None):
    """Run the program here, or where `before` is to be done to its process, in one of its own."""
    if before is not None:
        command = [sys.executable, "-m", "schirn", *map(str, args)]
        # A process that may not write files cannot measure its coverage either.
        own = {k: v for k, v in os.environ.items() if not k.startswith(("COVERAGE_", "COV_CORE_"))}
        ran = subprocess.run(command, capture_output=True, text=True, preexec_fn=before, env=own)
        return Ran(ran.returncode, ran.stdout, ran.stderr)
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(list(map(str, args)))
    return Ran(code, out.getvalue(), err.getvalue())


def limit_files():
    """What a full disk looks like to one process: no file may grow beyond a few bytes."""
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))


def fit(inputs, output):
    return ("fit", inputs / "set.npz", "--method", "CandidateRidge", "-o", output, "--force")


def clean(inputs, output, *more):
    return ("clean", inputs / "table.csv", "--method", "CandidateRidge", "-o", output, *more)


def bench(inputs, output):
    grid = ("--methods", "CandidateRidge,OracleRidge", "--folds", "4", "--tuning", "none")
    grid = (*grid, "--jobs", "0", "--threads", "1")
    return ("bench", "--datasets", f"{inputs / 'set.npz'}:1", *grid, "--output", output)


def assert_sentence(ran, *words):
    """Exit code 2, one line, no traceback."""
    lines = [line for line in ran.stderr.splitlines() if not line.startswith("schirn: note:")]
    assert ran.returncode == 2, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    assert lines, "nothing was said"
    assert lines[-1].startswith("schirn: "), ran.stderr
    for word in words:
        assert word in lines[-1]
    return lines


def whole_files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("command", [fit, clean])
@pytest.mark.parametrize("how", ["disk", "limit"])
def test_a_full_disk_leaves_the_old_file(inputs, tmp_path, request, command, how):
    name = {fit: "model", clean: "out.csv"}[command]
    if how == "limit":
        (tmp_path / name).write_text("old")
        ran = schirn(*command(inputs, tmp_path / name), before=limit_files)
        assert_sentence(ran, str(tmp_path / name), "large")
        assert whole_files(tmp_path) == {name: b"old"}
        return
    request.getfixturevalue("mountable")
    with disk(tmp_path / "disk", "-o", "size=256k") as folder:
        (folder / name).write_text("old")
        ballast = fill(folder, leave=8192)
        ran = schirn(*command(inputs, folder / name))
        assert_sentence(ran, str(folder / name), "No space left")
        assert (folder / name).read_text() == "old"
        assert {path.name for path in folder.iterdir()} == {name, "ballast"}
        ballast.unlink()
        assert schirn(*command(inputs, folder / name)).returncode == 0


def test_a_full_disk_leaves_no_half_report_or_project(inputs, tmp_path, mountable):
    pytest.importorskip("jinja2", reason="the report needs jinja2")
    with disk(tmp_path / "disk", "-o", "size=128k") as folder:
        (folder / "report.html").write_text("old")
        fill(folder, leave=12288)
        project = ("review", inputs / "table.csv", "--project", folder / "project", "--terminal")
        for command in (
            clean(inputs, tmp_path / "out.csv", "--report", folder / "report.html"),
            project,
        ):
            assert_sentence(schirn(*command), str(folder), "No space left")
        assert {path.name for path in folder.iterdir()} == {"report.html", "ballast"}
        assert (folder / "report.html").read_text() == "old"


def test_bench_goes_on_when_there_is_space_again(inputs, tmp_path, mountable):
    undisturbed = schirn(*bench(inputs, tmp_path / "whole"))
    assert undisturbed.returncode == 0, undisturbed.stderr
    with disk(tmp_path / "disk", "-o", "size=256k") as folder:
        ballast = fill(folder, leave=40960)
        ran = schirn(*bench(inputs, folder / "out"))
        assert_sentence(ran, "out", "No space left")
        ballast.unlink()
        before = read_rows(folder / "out")
        assert 0 < len(before) < 8
        assert all(row["status"] == "done" for row in before)
        again = schirn(*bench(inputs, folder / "out"))
        assert again.returncode == 0, again.stderr
        rows = read_rows(folder / "out", history=True)
        assert len(rows) == 8, "a finished run was repeated"
        assert metrics(rows) == metrics(read_rows(tmp_path / "whole"))
        for row in rows:
            assert (folder / "out" / row["scores"]).is_file()


def metrics(rows):
    return {(row["method"], row["fold"]): row["metrics"] for row in rows}


@pytest.mark.parametrize("command", [fit, clean, bench])
def test_a_read_only_disk_is_noticed(inputs, tmp_path, mountable, command):
    with disk(tmp_path / "disk", "-o", "size=64k,ro") as folder:
        name = {fit: "model", clean: "out.csv", bench: "out"}[command]
        ran = schirn(*command(inputs, folder / name))
        (line,) = assert_sentence(ran, str(folder))
        assert "ead-only" in line or "permission" in line


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_under_the_output_of_the_program(inputs, options):
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "schirn", "methods", *options],
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert ran.returncode == 2
    assert b"No space left" in ran.stderr
    assert b"Traceback" not in ran.stderr


@pytest.mark.parametrize("command", [fit, clean])
def test_an_output_that_is_a_link_is_followed(inputs, tmp_path, command):
    """The link stays a link, and the file it names is replaced whole."""
    name = {fit: "model", clean: "out.csv"}[command]
    (tmp_path / "place").mkdir()
    target, link = tmp_path / "place" / name, tmp_path / name
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    ran = schirn(*command(inputs, link))
    assert ran.returncode == 0, ran.stderr
    assert link.is_symlink()
    assert target.read_bytes() != b"old"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in target.parent.iterdir()] == [name]


def test_a_link_to_nothing_makes_the_file_it_names(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "new")
    save(CandidateRidge().fit(np.eye(4), np.eye(4)), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load_model(tmp_path / "new").predict(np.eye(4)).shape == (4, 4)


def test_links_in_a_circle(inputs, tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(OSError, match="symbolic links"):
        save(CandidateRidge().fit(np.eye(4), np.eye(4)), tmp_path / "a")
    assert_sentence(schirn(*fit(inputs, tmp_path / "a")), str(tmp_path / "a"), "symbolic links")
    (tmp_path / "c.npz").symlink_to(tmp_path / "c.npz")
    ran = schirn("data", "card", tmp_path / "c.npz")
    assert_sentence(ran, str(tmp_path / "c.npz"))


def test_inputs_through_links(inputs, tmp_path):
    (tmp_path / "linked.npz").symlink_to(inputs / "set.npz")
    (tmp_path / "folder").symlink_to(inputs)
    assert load(tmp_path / "linked.npz").name == "linked"
    assert load(tmp_path / "folder" / "set.npz").n_samples == 400


def test_clean_never_writes_to_its_input_through_a_link(inputs, tmp_path):
    table = tmp_path / "table.csv"
    table.write_bytes((inputs / "table.csv").read_bytes())
    (tmp_path / "other.csv").symlink_to(table)
    ran = schirn(*clean(tmp_path, tmp_path / "other.csv"))
    assert_sentence(ran, "is the input")
    assert table.read_bytes() == (inputs / "table.csv").read_bytes()


def test_a_row_that_does_not_fit_is_taken_back(tmp_path, mountable):
    """Half a line would spoil the next one."""
    from schirn.lab.bench.results import ResultWriter

    with disk(tmp_path / "disk", "-o", "size=64k") as folder:
        writer = ResultWriter(folder, "x")
        writer.append({"a": 1})
        size = writer.path.stat().st_size
        ballast = fill(folder, leave=4096)
        with pytest.raises(OSError, match="No space left") as caught:
            writer.append({"long": "x" * 20_000})
        assert caught.value.filename == str(writer.path)
        assert writer.path.stat().st_size == size
        ballast.unlink()
        writer.append({"b": 2})
        assert [json.loads(line) for line in writer.path.read_text().splitlines()] == [
            {"a": 1},
            {"b": 2},
        ]


def test_a_project_folder_that_is_a_link_is_followed(inputs, tmp_path):
    (tmp_path / "place").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "place")
    assert make_project(inputs / "table.csv", tmp_path / "link") == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "place" / "project.json").is_file()
