# ruff: noqa: E402
"""Kill the program at random moments, and count what is lost.

python -m benchmarks.soak --seconds 600      (or: make soak)
python -m benchmarks.soak --kills 250 --programs review,model

Six programs run again and again and are killed with SIGKILL after a random time:

bench   a benchmark, started again until it ends by itself: its results and scores must equal those
        of an undisturbed benchmark, with exactly one result per run
clean   `schirn clean` with a copy, a list of changes and a report: every output must be whole
        or absent, and the table unchanged
review  the review server, while a client decides: every confirmed decision must be in the journal
model   `schirn.save` over an existing model file: the file must load, as the old or the new model
sqlite  `write_back` of a list of changes to a database of SQLite, there and back again: the tags of
        all rows must be the old or the new ones, and no row may be lost or doubled
duckdb  the same with DuckDB

A seventh one, which is not killed, checks what must hold for every copy of a table:

tables  random CSV, JSON lines and Parquet that are easily damaged: after changes, nothing but the
        intended tags differs, and undoing them gives the original bytes (--tables N stops after N
        tables)

The programs are forks of this process, which has imported everything: a kill hits their work, not
their start. Rounds of all programs follow each other until the time is over or each has been killed
often enough. The exit code is 1 if anything is lost.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import csv
import json
import random
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import duckdb
import numpy as np

import schirn
from schirn._files import file_hash
from schirn.app.cli import main as program
from schirn.app.review import checksum, open_session, serve
from schirn.app.tables import keyed_changes, open_table, write_back
from schirn.cleaning import Change, ChangeList
from schirn.datasets import make_partial_multilabel
from schirn.lab.bench import read_rows
from schirn.lab.bench.results import VOLATILE

# The property tests check the same tables.
sys.path.append(str(Path(__file__).parents[1] / "tests" / "app"))
from tables.random_tables import check_csv, check_jsonl, check_parquet

METHODS = "CandidateRidge,OracleRidge,NLR,Schirn"
# A program with this many problems is not started again.
MAX_PROBLEMS = 100


def main() -> int:
    """Run all programs and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=600.0, help="time for all programs")
    parser.add_argument("--kills", type=int, help="stop when each program was killed this often")
    parser.add_argument("--programs", default=",".join(SOAKS), help="names with commas")
    parser.add_argument("--tables", type=int, help="stop after checking this many tables")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments")
    args = parser.parse_args()
    moments, end = random.Random(args.seed), time.monotonic() + args.seconds
    with tempfile.TemporaryDirectory(prefix="schirn-soak-") as name:
        soaks = [SOAKS[each](Path(name, each), moments) for each in args.programs.split(",")]
        while time.monotonic() < end:
            left = [soak for soak in soaks if not soak.is_done(args)]
            if not left:
                break
            for soak in left:
                soak.round()
        for soak in soaks:
            soak.finish()
            print(f"{soak.name:7} {soak.kills:5,} kills; {soak.summary()}")
            for problem, times in Counter(soak.problems).items():
                print(f"        {times} x {problem}")
    lost = sum(len(soak.problems) for soak in soaks)
    kills = sum(soak.kills for soak in soaks)
    what = f"{lost} losses" if lost else "nothing lost"
    print(f"{kills:,} kills with seed {args.seed}; {what}")
    return 1 if lost else 0


class Soak:
    """One program that is killed; `round` ends after at least one kill."""

    name = ""

    def __init__(self, folder: Path, moments: random.Random):
        self.folder, self.moments = folder, moments
        self.kills, self.problems = 0, list[str]()
        folder.mkdir()
        self.prepare()

    def prepare(self) -> None:
        """Write the input, and run once without a kill."""

    def round(self) -> None:
        """Start the program, kill it, and look at what is left."""
        raise NotImplementedError

    def is_done(self, args: argparse.Namespace) -> bool:
        """Whether the program was killed often enough, or fails so often that kills say nothing."""
        is_broken = len(self.problems) >= MAX_PROBLEMS
        return is_broken or (args.kills is not None and self.kills >= args.kills)

    def finish(self) -> None:
        """Look at what is left in the end."""

    def summary(self) -> str:
        """Say what was looked at."""
        raise NotImplementedError

    def killed(self, work: Callable[[], object], seconds: float) -> bool:
        """Run `work` in a fork for a random time up to `seconds`; whether it was killed."""
        child = _fork(work, self.folder / "log")
        end = time.monotonic() + self.moments.uniform(0, seconds)
        while time.monotonic() < end:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                if status:
                    self.problems.append(f"the program failed: {_last_line(self.folder / 'log')}")
                return False
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        self.kills += 1
        return True


def _fork(work: Callable[[], object], log: Path) -> int:
    """Run `work` in a fork of this process; its output goes to the log."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, 1)
        os.dup2(file, 2)
        code = int(bool(work()))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1][:200] if lines else "without a word"


def _timed(work: Callable[[], object], log: Path) -> float:
    """Seconds of an undisturbed run in a fork."""
    start = time.monotonic()
    _, status = os.waitpid(_fork(work, log), 0)
    if status:
        raise SystemExit(f"the undisturbed program failed: {_last_line(log)}")
    return time.monotonic() - start


class Bench(Soak):
    """A benchmark that is killed and started again until it is complete."""

    name = "bench"
    results = 0

    def prepare(self) -> None:
        """Write a small data set, and run the benchmark undisturbed."""
        data = make_partial_multilabel(
            n_samples=60, n_features=8, n_labels=5, cardinality=2, r=1, random_state=0
        )
        np.savez(self.folder / "tiny.npz", X=data.X, Y=data.y_true, C=data.candidates)
        self.whole = self.folder / "whole"
        self.seconds = _timed(lambda: self._run(self.whole), self.folder / "log")

    def _run(self, output: Path) -> int:
        argv = ["bench", "--datasets", str(self.folder / "tiny.npz"), "--r", "1", "--folds", "3"]
        argv += ["--methods", METHODS, "--tuning", "none", "--jobs", "0", "--quiet"]
        return program([*argv, "--output", str(output)])

    def round(self) -> None:
        """Kill and start again until the benchmark ends, then compare."""
        output = self.folder / "killed"
        # A kill costs the run that was going on, so the moments grow until the end is reached.
        longest = 0.5 * self.seconds
        while self.killed(lambda: self._run(output), longest):
            longest *= 1.1
        runs, problems = compare(self.whole, output)
        self.results += runs
        self.problems += problems
        shutil.rmtree(output)

    def summary(self) -> str:
        """Count the results that were compared."""
        return f"{self.results:,} results compared with an undisturbed benchmark"


class Clean(Soak):
    """`schirn clean` with all its outputs."""

    name = "clean"
    looked = found = 0
    outputs = ("copy.csv", "changes.csv", "report.html")

    def prepare(self) -> None:
        """Write a table, and clean it undisturbed."""
        words = {"beach": "sand wave shore", "dog": "bark tail leash", "city": "street neon tower"}
        moments = random.Random(0)
        self.table = self.folder / "items.csv"
        with self.table.open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["text", "tags"])
            for i in range(120):
                true = moments.sample(list(words), moments.randint(1, 2))
                tags = [tag for tag in words if tag in true or moments.random() < 0.15]
                text = " ".join(moments.choice(words[tag].split()) for tag in true * 4)
                writer.writerow([f"row {i} {text}", ";".join(tags)])
        self.content = self.table.read_bytes()
        self.seconds = _timed(lambda: self._run("whole"), self.folder / "log")
        self.expected = self._read("whole")

    def _run(self, name: str) -> int:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        copy, changes, report = (str(folder / output) for output in self.outputs)
        argv = ["clean", str(self.table), "--text", "text", "-o", copy, "--changes", changes]
        return program([*argv, "--report", report])

    def round(self) -> None:
        """Kill once, and look at every output."""
        self.killed(lambda: self._run("killed"), 1.1 * self.seconds)
        self.looked += len(self.outputs)
        found = self._read("killed")
        self.found += len(found)
        for name, content in found.items():
            if content != self.expected[name]:
                self.problems.append(f"{name} is damaged")
        if self.table.read_bytes() != self.content:
            self.problems.append("the table was changed")
        shutil.rmtree(self.folder / "killed", ignore_errors=True)

    def _read(self, name: str) -> dict[str, Any]:
        """Return the content of the outputs that exist; of a page only whether it is whole."""
        found: dict[str, Any] = {}
        for output in self.outputs:
            path = self.folder / name / output
            if output == "report.html" and path.exists():
                found[output] = path.read_text().rstrip().endswith("</html>")
            elif path.exists():
                found[output] = path.read_bytes()
        return found

    def summary(self) -> str:
        """Count the outputs that were looked at."""
        return f"{self.looked:,} outputs whole ({self.found:,}) or absent"


class Review(Soak):
    """The review server, while a client decides."""

    name = "review"
    confirmed = 0

    def prepare(self) -> None:
        """Write a project."""
        self.project = self.folder / "project"
        self.project.mkdir()
        labels = [f"label {j}" for j in range(50)]
        table = {"file": "table.csv", "column": "tags", "separator": ";"}
        table |= {name: () for name in ("text", "content", "vocabulary")}
        head = {"format": "schirn-review", "version": 6, "labels": labels, "method": "Sieve",
                "opinions": [],
                "ids": [f"item {i}" for i in range(400)], "texts": [""] * 400,
                "precision": 0.9, "keep_one": False, "table": table}  # fmt: skip
        rows = "".join(f"{i},{';'.join(labels)}\n" for i in range(400))
        (self.project / "table.csv").write_text(f"id,tags\n{rows}")
        table["sha256"] = file_hash(self.project / "table.csv")
        row, column = np.divmod(np.arange(400 * 50), 50)
        ones = np.ones(len(row), bool)
        tags = {"row": row, "column": column, "confidence": 0.5 * ones}
        tags |= dict.fromkeys(("kept", "judged", "listed"), ones)
        np.savez(self.project / "tags.npz", **tags)
        head["sha256"] = checksum(head, self.project / "tags.npz")
        (self.project / "project.json").write_text(json.dumps(head))
        self.decided: list[tuple[str, str]] = []

    def round(self) -> None:
        """Decide until the server is killed; everything confirmed must be in the journal."""
        theirs, ours = os.pipe()
        os.set_inheritable(ours, True)

        def work() -> int:
            serve(
                self.project,
                browser=False,
                ready=lambda address: os.write(ours, address.encode() + b"\n") and None,
            )
            return 0

        child = _fork(work, self.folder / "log")
        os.close(ours)
        address = os.read(theirs, 1000).decode().strip()
        os.close(theirs)
        if not address:
            os.waitpid(child, 0)
            self.problems.append(f"no server: {_last_line(self.folder / 'log')}")
            return
        # In a thread, since the client is busy.
        killer = threading.Timer(self.moments.uniform(0.1, 1), os.kill, (child, signal.SIGKILL))
        killer.start()
        self._decide(address)
        killer.join()
        os.waitpid(child, 0)
        self.kills += 1
        self._check()

    def _decide(self, address: str) -> None:
        """Decide without end; remember what was confirmed."""
        parts = urlsplit(address)
        token, port = parts.query.removeprefix("token="), parts.port
        line = HTTPConnection("127.0.0.1", port, timeout=20)
        headers = {
            "Cookie": f"schirn_review_{port}={token}",
            "Origin": f"http://127.0.0.1:{port}",
            "Content-Type": "application/json",
        }
        try:
            line.request("GET", "/api/state", headers=headers)
            state = json.loads(line.getresponse().read())
            while True:
                item, label = state["current"]["item"], state["current"]["label"]
                wanted = {"action": "drop", "item": item, "label": label, "seen": state["seq"]}
                line.request("POST", "/api/decide", json.dumps(wanted), headers)
                answer = line.getresponse()
                state = json.loads(answer.read())
                if answer.status != 200:
                    self.problems.append(f"a decision was refused: {state}")
                    return
                self.decided.append((item, label))
        except (OSError, HTTPException, ValueError):
            # The server was killed before its answer, or in the middle of it.
            pass
        finally:
            line.close()

    def _check(self) -> None:
        session = open_session(self.project, write=True)
        found = {(record["item"], record["label"]) for record in session.journal.records}
        session.journal.close()
        lost = [pair for pair in self.decided if pair not in found]
        self.problems += ["a confirmed decision is not in the journal"] * len(lost)
        self.confirmed += len(self.decided)
        self.decided = []
        if len(found) > 15_000:
            (self.project / "journal.jsonl").unlink()

    def summary(self) -> str:
        """Count the confirmed decisions."""
        return f"{self.confirmed:,} confirmed decisions in the journal"


class Model(Soak):
    """`schirn.save` over an existing file."""

    name = "model"
    loads = 0

    def prepare(self) -> None:
        """Train two models of different size."""
        self.models = []
        for n in (30, 300):
            data = make_partial_multilabel(n_samples=n, n_features=20, n_labels=6, random_state=n)
            self.models.append(schirn.Sieve().fit(data.X, data.candidates))
        self.X = data.X
        self.scores = [model.decision_function(self.X) for model in self.models]
        self.path = self.folder / "model.schirn"
        schirn.save(self.models[0], self.path)

    def _write(self) -> None:
        while True:
            for model in self.models:
                schirn.save(model, self.path)

    def round(self) -> None:
        """Kill while models are written, and load what is there."""
        self.killed(self._write, 0.3)
        self.loads += 1
        try:
            scores = schirn.load(self.path).decision_function(self.X)
        except Exception as error:
            self.problems.append(f"the model does not load: {error}")
            return
        if not any(np.array_equal(scores, whole) for whole in self.scores):
            self.problems.append("the model predicts something else")

    def finish(self) -> None:
        """Count what killed processes left behind."""
        self.parts = len(list(self.folder.glob(".*.part.*")))

    def summary(self) -> str:
        """Count the models that were loaded."""
        return f"{self.loads:,} models loaded ({self.parts:,} temporary files left behind)"


class Sqlite(Soak):
    """`write_back` of a list of changes, there and back again."""

    name = "sqlite"
    n_rows = 3000
    written = 0

    def prepare(self) -> None:
        """Write a database and two lists of changes."""
        self.address = f"{self.name}:{self.folder / 'items.db'}"
        connection = self._connect()
        connection.execute("CREATE TABLE items (id INTEGER, tags TEXT)")
        rows = [(i, "beach;dgo" if i % 3 else "dog") for i in range(self.n_rows)]
        connection.executemany("INSERT INTO items VALUES (?, ?)", rows)
        connection.commit()
        connection.close()
        self.before = self._tags()
        cells = [tags for _, tags in self.before]
        table = open_table(self.address, query="SELECT id, tags FROM items ORDER BY id")
        edits = [Change(i, "rename", "dgo", "dog") for i in range(self.n_rows) if i % 3]
        changes = ChangeList.from_cells(cells, edits)
        self.changes = keyed_changes(changes, table, "id")
        after = changes.apply(cells)
        self.after = [(i, tags) for (i, _), tags in zip(self.before, after, strict=True)]
        self.seconds = _timed(self._write, self.folder / "log")
        if self._tags() != self.after:
            raise SystemExit("the undisturbed program did not write the changes")

    def _connect(self) -> Any:
        return sqlite3.connect(self.folder / "items.db")

    def _tags(self) -> list[tuple[int, str]]:
        connection = self._connect()
        rows = connection.execute("SELECT id, tags FROM items ORDER BY id").fetchall()
        connection.close()
        return rows

    def _write(self) -> None:
        undo = self._tags() == self.after
        write_back(self.address, "items.tags", self.changes, undo=undo, commit=True)

    def round(self) -> None:
        """Kill once, and look at all rows."""
        before = self._tags()
        is_killed = self.killed(self._write, 1.2 * self.seconds)
        found = self._tags()
        self.written += found != before
        if found not in (self.before, self.after):
            self.problems.append("rows are half written, lost or doubled")
        elif not is_killed and found == before:
            self.problems.append("a program that was not killed has written nothing")

    def summary(self) -> str:
        """Count the kills that came after the commit."""
        return f"all {self.n_rows:,} rows as before or as listed ({self.written:,} times written)"


class DuckDb(Sqlite):
    """The same in DuckDB."""

    name = "duckdb"

    def _connect(self) -> Any:
        return duckdb.connect(str(self.folder / "items.db"))


class Tables(Soak):
    """Copies of random tables, without a kill."""

    name = "tables"
    checked = 0

    def round(self) -> None:
        """Check some tables of each kind."""
        for _ in range(25):
            for check in (check_csv, check_jsonl, check_parquet):
                seed = self.moments.getrandbits(32)
                try:
                    check(self.folder, random.Random(seed))
                except Exception as error:
                    reason = str(error).partition("\n")[0][:120]
                    self.problems.append(f"{check.__name__}, seed {seed}: {reason}")
                self.checked += 1

    def is_done(self, args: argparse.Namespace) -> bool:
        """Whether enough tables were checked."""
        return args.tables is not None and self.checked >= args.tables

    def summary(self) -> str:
        """Count the tables."""
        return f"{self.checked:,} tables came back exactly, apart from the losses below"


SOAKS: dict[str, type[Soak]] = {
    each.name: each for each in (Bench, Clean, Review, Model, Sqlite, DuckDb, Tables)
}


def compare(whole: Path, killed: Path) -> tuple[int, list[str]]:
    """Return the number of runs and a description of every difference."""
    problems: list[str] = []
    runs = 0
    for folder in sorted({path.parent for path in whole.rglob("rows-*.jsonl")}):
        other = killed / folder.relative_to(whole)
        wanted, found = read_rows(folder, history=True), read_rows(other, history=True)
        runs += len(wanted)
        twice = [key for key, n in Counter(r["key"] for r in found).items() if n > 1]
        problems += ["a run has more than one result"] * len(twice)
        if _stable(wanted) != _stable(found):
            problems.append("the results differ")
        problems += _scores(folder, other, wanted)
        if (other / "claims").exists():
            problems.append("claims are left behind")
    if not runs:
        problems.append("there are no results")
    return runs, problems


def _stable(results: list[dict[str, Any]]) -> dict[str, str]:
    """Results by key, without what may differ between runs."""
    return {
        r["key"]: json.dumps({k: v for k, v in r.items() if k not in VOLATILE}, sort_keys=True)
        for r in results
    }


def _scores(whole: Path, killed: Path, results: list[dict[str, Any]]) -> list[str]:
    """Differences between the stored scores."""
    found = []
    for path in filter(None, (result["scores"] for result in results)):
        if not (killed / path).is_file():
            found.append("scores are missing")
            continue
        with np.load(whole / path) as one, np.load(killed / path) as other:
            if any(not np.array_equal(one[name], other[name]) for name in one.files):
                found.append("scores differ")
    return found


if __name__ == "__main__":
    sys.exit(main())
