"""Progress of long work: what it says, where, and that it costs and changes nothing."""

import io
import os
import re
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

import schirn
from schirn import Sieve
from schirn._progress import Display, shown, stage, track, untracked
from schirn.features import TextFeatures
from schirn.lab import bench
from schirn.model_selection import CandidateSearchCV


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(time, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def display(clock, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown("work", summary=False) as display:
        yield display


@pytest.fixture
def soon(monkeypatch):
    """Threads wait a thousandth of their time, so that lines are printed every few milliseconds."""
    wait = threading.Event.wait

    def shorter(event, timeout=None):
        return wait(event, timeout and timeout / 1000)

    monkeypatch.setattr(threading.Event, "wait", shorter)


def test_without_a_display_nothing_is_wrapped():
    items = range(3)
    assert track(items, "round") is items
    stage("nowhere")


def test_rounds_share_and_time_left(display, clock):
    lines = []
    for _ in track(range(4), "round"):
        clock.now += 5
        lines.append(display.text())
        clock.now += 5
    assert lines == [
        "[5 s] work: round 1 of 4, 0%, time left unknown",
        "[15 s] work: round 2 of 4, 25%, about 25 s left in this step",
        "[25 s] work: round 3 of 4, 50%, about 15 s left in this step",
        "[35 s] work: round 4 of 4, 75%, about 5 s left in this step",
    ]
    assert display.text() == "[40 s] work"


def test_what_follows_a_loop_is_not_promised(display, clock):
    """A second fit begins at 0%, and the line of the first was about its own rounds."""
    lines = []
    for n_rounds in (2, 4):
        for _ in track(range(n_rounds), "round", may_stop=True):
            clock.now += 5
            lines.append(display.text())
            clock.now += 5
    assert lines[1] == "[15 s] work: round 2 of 2, 50%, about 5 s left in this step, perhaps less"
    assert lines[2] == "[25 s] work: round 1 of 4, 0%, time left unknown"


def test_work_that_counts_by_itself_promises_the_whole(display, clock):
    display.tell("run", 1, 4, 30.0, "")
    assert display.text().endswith("25%, about 30 s left")


def test_a_slow_round_raises_the_time_of_those_to_come(display, clock):
    for k in track(range(4), "round"):
        clock.now += 10
        if k == 1:
            assert display.text().endswith("25%, about 20 s left in this step")
            clock.now += 40
            assert display.text().endswith("25%, about 1 min 0 s left in this step")
            return


def test_time_that_is_over_is_no_longer_shown(display, clock):
    for k in track(range(4), "round"):
        clock.now += 9
        if k == 3:
            assert display.text().endswith("75%, about 1 s left in this step")
            clock.now += 9
            assert display.text().endswith("75%, time left unknown")
        clock.now += 1
    display.tell("run", 1, 4, 30.0, "")
    clock.now += 31
    assert display.text().endswith("time left unknown")


def test_the_first_fold_is_estimated_from_its_rounds(display, clock):
    for _ in track(range(5), "fold"):
        clock.now += 2
        for k in track(range(8), "round"):
            if k == 4:
                left = 10 * 6 - 6
                assert display.text() == (
                    f"[6 s] work: fold 1 of 5, round 5 of 8, 10%, about {left} s left in this step"
                )
                return
            clock.now += 1


def test_the_share_never_falls_and_ends_at_the_last_pass(display, clock):
    shares = []
    for _ in track(range(3), "fold"):
        for what in ("round", "block"):
            for _ in track(range(4), what):
                clock.now += 1
                shares.append(int(re.search(r"(\d+)%", display.text())[1]))
    assert shares == sorted(shares)
    assert shares[-1] < 100


def test_preparations_have_no_share(display, clock):
    for _ in track(range(3), "block", minor=True):
        clock.now += 1
        assert "%" not in display.text()
        assert display.text().endswith("time left unknown")
    for _ in track(range(2), "fold"):
        for _ in track(range(3), "block", minor=True):
            clock.now += 1
            assert ", 0%, " in display.text() or "fold 2" in display.text()


def test_stages(display, clock):
    clock.now = 70
    stage("inverting")
    assert display.text() == "[1 min 10 s] work: inverting, time left unknown"
    for _ in track(iter("ab"), "block"):
        assert "inverting" not in display.text()
        assert display.text() == "[1 min 10 s] work: block 1, time left unknown"
        stage("reading")
        assert display.text() == "[1 min 10 s] work: block 1, time left unknown, reading"
        break


def test_what_was_done_before_counts_for_the_share_only(display, clock):
    for k in track(range(4), "round", before=4):
        clock.now += 10
        if k == 1:
            assert display.text().endswith("round 6 of 8, 62%, about 20 s left in this step")


def test_a_loop_that_may_stop_has_perhaps_less_left(display, clock):
    for k in track(range(10), "round", may_stop=True):
        clock.now += 1
        if k == 1:
            assert display.text().endswith("10%, about 8 s left in this step, perhaps less")


def test_a_fit_of_texts_has_one_total_and_a_time_left(display, clock, monkeypatch):
    """From the first tenth on, and although folds begin again in every round."""
    from schirn.solvers import sparse_ridges

    texts = ["red pan", "steel pan", "red chair", "oak chair"] * 40
    X = TextFeatures().fit_transform(texts)
    Y = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]] * 40)
    lines = []
    solve = sparse_ridges.solve_ridge

    def slow(*args):
        clock.now += 10
        lines.append(display.text())
        return solve(*args)

    monkeypatch.setattr(sparse_ridges, "solve_ridge", slow)
    Sieve(kernel="linear", features="none", n_landmarks=2, max_kernel_rows=2, random_state=0).fit(
        X, Y
    )
    folds = [line for line in lines if "fold" in line]
    shares = [int(re.search(r"(\d+)%", line)[1]) for line in folds]
    assert len(folds) >= 15
    assert shares == sorted(shares)
    assert shares[-1] > 80
    assert all(re.search(r"round \d of 3, fold \d of 5", line) for line in folds)
    told = [line for line, share in zip(folds, shares, strict=True) if share >= 10]
    assert all("about" in line and "left" in line for line in told)
    assert not any("unknown" in line for line in told)


def test_loops_that_break_or_fail_leave_nothing_behind(display):
    def fails():
        for _ in track(range(3), "round"):
            raise ValueError

    for _ in track(range(2), "fold"):
        for _ in track(range(3), "setting"):
            break
        with pytest.raises(ValueError):
            fails()
        assert [level.what for level in display.levels] == ["fold"]
    assert not display.levels


def test_what_is_part_of_a_stage_is_not_shown(display):
    with untracked():
        for _ in track(range(2), "round"):
            assert not display.levels


def test_control_characters_are_escaped(clock):
    display = Display("a\x1b[31mb", io.StringIO())
    assert "\x1b" not in display.text()
    display.say("c\rd")
    assert display.stream.getvalue() == "c\\rd\n"


class Terminal(io.StringIO):
    def isatty(self):
        return True

    def fileno(self):
        raise OSError("no file behind it")


def test_a_bar_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with shown("work", summary=False) as display:
        for k in track(range(3), "round"):
            while f"round {k + 1} of 3" not in screen.getvalue():
                pass
        display.say("a [b]note[/b]")
        stage("x" * 200)
        while "xxx" not in screen.getvalue():
            pass
    text = re.sub(r"\x1b\[[^a-zA-Z]*[a-zA-Z]", "", screen.getvalue())
    assert "a [b]note[/b]\n" in text
    assert max(map(len, re.split("[\r\n]", text))) <= 80
    # The bar is erased and the cursor shown again.
    assert screen.getvalue().rstrip("\r").endswith("\x1b[2K")
    assert screen.getvalue().rindex("\x1b[?25h") > screen.getvalue().rindex("\x1b[?25l")


def test_a_terminal_without_rich_gets_lines(monkeypatch, soon):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    with shown("work"):
        for _ in track(range(1), "round"):
            while "round 1 of 1" not in screen.getvalue():
                pass
    assert not re.search("[\r\x1b]", screen.getvalue())
    assert screen.getvalue().splitlines()[-1].startswith("work: done in")


def test_lines_in_a_pipe(capsys, soon):
    seen = ""
    with shown("work", prefix="schirn: ", summary=False):
        for _ in track(range(2), "round"):
            while seen.count("\n") < 3:
                seen += capsys.readouterr().err
    lines = seen.splitlines()
    assert all(line.startswith("schirn: [0.") for line in lines)
    assert "\r" not in seen


def test_a_closed_stream_does_not_stop_the_work(monkeypatch, soon):
    stream, before = io.StringIO(), set(threading.enumerate())
    monkeypatch.setattr(sys, "stderr", stream)
    with shown("work"):
        stream.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(5)
            assert not thread.is_alive()
        assert list(track(range(3), "round")) == [0, 1, 2]


def test_only_the_outermost_display_shows(capsys):
    with shown("outer"), shown("inner") as inner:
        assert inner is None
    assert told(capsys) == "outer"


def told(capsys):
    """What the last line says to be done; where it is slow, there are others before it."""
    captured = capsys.readouterr()
    assert not captured.out
    lines = captured.err.splitlines()
    title, done = lines[-1].split(": done in ")
    assert re.fullmatch(r"\S+ s", done)
    assert all(f"] {title}" in line for line in lines[:-1])
    return title


def test_all_methods_have_verbose():
    for method in schirn.methods().values():
        assert method().get_params(deep=False)["verbose"] is False


@pytest.mark.parametrize(
    "name", ["Sieve", "Schirn", "CandidateRidge", "ParticleVLS", "GLC", "PMLMA"]
)
def test_verbose_changes_no_result(name, small, capsys):
    rows, listed = small.X[:80], small.candidates[:80]
    method = schirn.methods()[name]
    silent, loud = (method(verbose=on).fit(rows, listed) for on in (False, True))
    assert told(capsys) == name
    np.testing.assert_array_equal(silent.label_confidence_, loud.label_confidence_)
    np.testing.assert_array_equal(silent.decision_function(rows), loud.decision_function(rows))


def test_verbose_search(small, capsys):
    grid = {"lam": [0.1, 10.0]}
    ridge = schirn.CandidateRidge(verbose=True)
    search = CandidateSearchCV(ridge, grid, cv=2, verbose=True)
    search.fit(small.X, small.candidates)
    assert told(capsys) == "CandidateSearchCV"


def test_a_search_counts_folds_settings_and_rounds(small, display):
    seen = set()

    def scoring(labels, scores):
        seen.add(display.text().split(": ", 1)[1].split(", ")[0])
        return 0.5

    search = CandidateSearchCV(schirn.Sieve(max_iter=2), {"lam": [1.0, 2.0]}, cv=2, scoring=scoring)
    search.fit(small.X, small.candidates)
    assert seen == {"fold 1 of 2", "fold 2 of 2"}
    assert not display.levels


@pytest.mark.filterwarnings("ignore::schirn.exceptions.EmptyCandidatesWarning")
def test_verbose_cleaning(small, capsys):
    for options in ({}, {"cv": 2}):
        schirn.find_noisy_labels(small.X, small.candidates, verbose=True, **options)
        assert told(capsys) == f"judging {int(small.candidates.sum())} tags"


def test_verbose_bench(small, tmp_path, capsys, display):
    display.stream = io.StringIO()
    options = {"output": tmp_path, "folds": 2, "tuning": "none", "jobs": 0}
    bench.run([small], ["CandidateRidge"], **options)
    text = display.text()
    assert "run 2 of 2" in text
    assert re.search(r"last: .* CandidateRidge fold [01]: 0\.\d+ in ", text)
    bench.run([small], {"bad": "CandidateRidge"}, params={"bad": {"lam": -1.0}}, **options)
    assert "fold 0: failed (" in display.stream.getvalue()


PROGRAM = """
import sys, threading, time
from schirn.solvers import sieve
wait, before = threading.Event.wait, sieve.track
threading.Event.wait = lambda self, timeout=None: wait(self, timeout and timeout / 100)
def slow(items, what, **options):
    for item in before(items, what, **options):
        time.sleep(0.15)
        yield item
sieve.track = slow
from schirn.app.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("progress") / "photos.csv"
    rows = ["a;b,1,0.5", "b,0,0.1", "a,1,0.4", "b;a,0,0.2"] * 8
    path.write_text("tags,x,z\n" + "\n".join(rows) + "\n")
    return path


def command(*options):
    return [sys.executable, "-c", PROGRAM, *options]


def environment():
    return {**os.environ, "OMP_NUM_THREADS": "1", "TERM": "xterm"}


@pytest.mark.parametrize("quiet", [False, True])
def test_the_program_in_a_pipe(table, quiet):
    argv = command("clean", str(table), "--columns", "x,z", *["--quiet"] * quiet)
    done = subprocess.run(argv, capture_output=True, text=True, env=environment(), check=True)
    assert ("learned from" in done.stdout) != quiet
    said = [line for line in done.stderr.splitlines() if "round" in line]
    assert bool(said) != quiet
    pattern = r"schirn: \[\d.*\] cleaning .*photos.csv: round \d of 9, "
    assert all(re.match(pattern, line) for line in said)
    assert (
        any(re.search(r"\d%, about \d+ s left in this step, perhaps less$", line) for line in said)
        != quiet
    )


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_the_program_on_a_terminal(table, tmp_path):
    ours, theirs = os.openpty()
    argv = command("fit", str(table), "--columns", "x,z", "-o", str(tmp_path / "m.schirn"))
    process = subprocess.Popen(argv, stdout=theirs, stderr=theirs, env=environment())
    os.close(theirs)
    text = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            break
        if not part:
            break
        text += part
    os.close(ours)
    assert process.wait() == 0
    shown, _, after = text.decode().rpartition("\x1b[2K")
    assert re.search("━.*round [2-8] of 9", shown)
    # The bar is gone before the summary.
    assert after.lstrip("\r").startswith("data")
    assert "\x1b[2K" not in after
    assert "━" not in after
