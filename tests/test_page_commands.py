"""Every `schirn` command of every user page runs on small tables, and every option exists."""

import base64
import csv
import io
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from api_listing import walk
from app.cli.clean_helpers import make_project

from schirn.app import review
from schirn.app.cli import commands, main
from schirn.program.page import png_uri
from schirn.program.parser import build_parser

ROOT = Path(__file__).parents[1]
PAGES = {path.name: path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")}
PAGES["README.md"] = (ROOT / "README.md").read_text("utf-8")
# Pages that are a story, with a test of their own.
STORIES = {"deploy.md": "tests/test_deploy.py", "nightly.md": "tests/app/cli/test_nightly_page.py"}
# Commands that are only parsed, and why.
NOT_RUN = {
    r"--device cuda": "needs a GPU; tests/app/cli/test_device.py",
    r"--scheduler": "needs a cluster; tests/scale/test_clean_on_workers.py",
    r"--encoder|--image-root": "needs a downloaded model; tests/app/cli/test_encoders.py",
    r"birds|scene:|--suite": "needs real data; tests/lab/cli/test_bench.py",
    r"^reproduce (?!--plan)": "takes minutes; tests/lab/cli/test_reproduce.py",
    r"--label-studio": "needs a server; tests/app/workflow/test_label_studio.py",
    r"^certificate": "needs more answers; tests/app/cli/test_certificate.py",
    r"^leaderboard (pack|check|update|build)": "needs results; tests/lab/leaderboard",
}
SLOW = re.compile(r"^schirn (demo|bench|leaderboard)|--device|\|")
# Options of other programs that pages name.
FOREIGN = {"--nthreads", "--memory-limit", "--fix", "--swaps", "--build-arg"}


def program_calls(text):
    """The calls of the program in the console blocks of a page, without comments."""
    text = re.sub(r" *\\\n\s*", " ", text)
    lines = re.findall(r"^ *\$ (.*)$", text, re.M)
    lines = [re.sub(r"\s+#.*", "", line) for line in lines]
    return [line for line in lines if re.search(r"(^|\| )schirn ", line)]


def words_of(call):
    call = re.sub(r"^(.*\| )?schirn ", "", call)
    return shlex.split(re.sub(r"\s+(>|2>&1|\||&).*", "", call))


def reason_not_to_run(call):
    line = shlex.join(words_of(call))
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), None)


CALLS = [(page, call) for page, text in sorted(PAGES.items()) for call in program_calls(text)]
CASES = sorted(
    {
        (page, SLOW.search(call) is not None)
        for page, call in CALLS
        if page not in STORIES and reason_not_to_run(call) is None
    }
)


def test_the_pages_have_commands():
    assert len(CALLS) > 80
    assert {"README.md", "cleaning.md", "bench.md", *STORIES} <= {page for page, _ in CALLS}


def test_every_command_parses(monkeypatch):
    parser = build_parser(commands())
    for page, call in CALLS:
        words = words_of(call)
        if page == "nightly.md":
            # The page has a configuration file with the rest.
            words += ["--model", "m", "--id", "sku"] if words[0] == "update" else []
            words += ["-o", "m"] if words[0] == "fit" else []
        assert parser.parse_args(words) is not None, (page, call)


def test_every_option_that_a_page_names_exists():
    options = {
        parser.prog.removeprefix("schirn "): set(parser._option_string_actions)
        for parser in walk(build_parser(commands()))
    }
    known = set.union(*options.values()) | FOREIGN
    for page, text in PAGES.items():
        if page == "changelog.md":
            continue
        for code in re.findall(r"`([^`\n]+)`", text):
            name = re.match(
                r"schirn ([a-z]+(?: (?:check|build|pack|update|list|card|fetch))?)", code
            )
            named = known if name is None else options[name[1]]
            if not code.startswith(("python", "make", "pip", "dask", "docker")):
                unknown = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", code)) - named
                assert not unknown, (page, code)


def write_tables():
    """Write the tables that the pages talk about; all have the same rows."""
    rng = np.random.default_rng(0)
    names = ["beach", "dog", "sunset", "city"]
    Y = rng.random((120, 4)) < 0.4
    Y[np.arange(120), rng.integers(4, size=120)] = True
    wrong = ~Y & (rng.random(Y.shape) < 0.15)
    X = np.round(Y @ rng.normal(size=(4, 3)) + 0.1 * rng.normal(size=(120, 3)), 3)
    rows = []
    for i in range(120):
        text = f"photo {i} of " + " and ".join(np.array(names)[Y[i]])
        tags = ";".join(np.array(names)[Y[i] | wrong[i]])
        red, blue, weight = X[i].tolist()
        rows.append(
            {
                **{"sku": f"A{i}", "title": text, "description": text, "text": text},
                **{"price": i, "weight": weight, "red": red, "blue": blue, "brand": "ab"[i % 2]},
                **{"photo": "a.png", "tags": tags},
            }
        )
    for name in ("items.csv", "photos.csv", "new.csv"):
        with open(name, "w", newline="", encoding="utf-8") as stream:
            columns = [key for key in rows[0] if name != "new.csv" or key != "tags"]
            writer = csv.DictWriter(stream, columns, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(rows)
    Path("a.png").write_bytes(base64.b64decode(png_uri(np.eye(4)).partition(",")[2]))
    for name in ("embeddings.npy", "vectors.npy"):
        np.save(name, X)
    attributes = [f"@attribute x{j} real" for j in range(3)]
    attributes += [f"@attribute l{j} {{0,1}}" for j in range(6)]
    data = [",".join(map(str, [*x, *y, 1, 0])) for x, y in zip(X, Y.astype(int), strict=True)]
    Path("scene.arff").write_text("\n".join(["@relation scene", *attributes, "@data", *data]))
    Path("mypkg.py").write_text(
        "from schirn import CandidateRidge\n\n\nclass MyMethod(CandidateRidge):\n    pass\n"
    )
    (Path("benchmarks")).symlink_to(ROOT / "benchmarks")
    toml = re.findall(r"```toml\n(.*?)```", PAGES["cleaning.md"], re.S)[0]
    Path("expect.toml").write_text(toml)
    Path("tags.txt").write_text("\n".join(names))
    pandas = pytest.importorskip("pandas", reason="the tables are made with pandas")
    frame = pandas.DataFrame(rows)
    frame.to_excel("items.xlsx", index=False)
    frame["embedding"] = X.tolist()
    frame.to_parquet("photos.parquet")
    with closing(sqlite3.connect("shop.db")) as shop, shop:
        shop.execute("CREATE TABLE items (sku TEXT, title TEXT, tags TEXT)")
        cells = [(row["sku"], row["title"], row["tags"]) for row in rows]
        shop.executemany("INSERT INTO items VALUES (?, ?, ?)", cells)
    for folder in ("photos", "events"):
        os.mkdir(folder)
        for k, part in enumerate((frame[:60], frame[60:])):
            part.to_parquet(f"{folder}/{k}.parquet")


def fill_in(name):
    """Answer all questions of a file by the text of the row."""
    if name.endswith(".json"):
        annotate(name)
        return
    with open(name, newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    for line in lines:
        line["right"] = "yes" if line["tag"] in line["text"] else "no"
    with open(name, "w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, lines[0])
        writer.writeheader()
        writer.writerows(lines)


def annotate(name):
    """Answer all tasks of a file as Label Studio exports them."""
    tasks = json.loads(Path(name).read_text("utf-8"))
    for task in tasks:
        word = "yes" if task["data"]["tag"] in task["data"]["text"] else "no"
        result = {"from_name": "right", "type": "choices", "value": {"choices": [word]}}
        task["annotations"] = [{"completed_by": 1, "result": [result]}]
    Path(name).write_text(json.dumps(tasks), "utf-8")


def serve_briefly(folder, **options):
    """Serve the review page until somebody has opened it once."""
    announce, statuses = options["ready"], []

    def open_and_stop(address):
        for _ in range(600):
            try:
                with urlopen(address) as answer:
                    statuses.append(answer.status)
                break
            except OSError:
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    def ready(address):
        announce(address)
        threading.Thread(target=open_and_stop, args=(address,), daemon=True).start()

    n_decided = SERVE(folder, **{**options, "browser": False, "ready": ready})
    assert statuses == [200]
    return n_decided


SERVE = review.serve


def prepare(words):
    """Make what a command needs and a page takes for granted: a model, a project, answers."""
    data = words[1] if len(words) > 1 else ""
    if words[0] == "predict" and not Path(data).exists():
        features = ["--columns", "red,blue"] if data == "photos.schirn" else ["--text", "title"]
        assert main(["fit", "items.csv", *features, "-o", data]) == 0
    if data == "to-review" and not Path(data).exists():
        assert make_project("items.csv", data, "--text", "title") == 0
    for k, word in enumerate(words):
        marker = Path(f"{words[k + 1]} of {Path(data).name}") if word == "--answers" else None
        if marker is not None and not marker.exists():
            assert main([*words[:k], "--questions", words[k + 1]]) == 0
            fill_in(words[k + 1])
        if word == "--opinions" and not Path(words[k + 1]).exists():
            answer_prompts("prompts.jsonl", words[k + 1])


def answer_prompts(prompts, replies):
    """Answer like a language model that calls every tag right."""
    lines = Path(prompts).read_text("utf-8").splitlines()
    answers = [{**json.loads(line), "answer": "Yes, it is."} for line in lines]
    Path(replies).write_text("".join(json.dumps(answer) + "\n" for answer in answers), "utf-8")


def run(call):
    words = words_of(call)
    prepare(words)
    if re.search(r"\| ", call):
        program = f'schirn() {{ {shlex.quote(sys.executable)} -m schirn "$@"; }}\n'
        return subprocess.run(["bash", "-c", program + call], check=False).returncode
    code = main(words)
    for k, word in enumerate(words):
        if word == "--questions":
            fill_in(words[k + 1])
            Path(f"{words[k + 1]} of {Path(words[1]).name}").touch()
    return code


@pytest.mark.parametrize(
    ("page", "slow"),
    [pytest.param(*case, marks=[pytest.mark.slow] * case[1]) for case in CASES],
)
def test_the_commands_of_a_page_run(tmp_path, monkeypatch, capfd, page, slow):
    for name in ("openpyxl", "pyarrow", "starlette", "uvicorn", "jinja2", "onnx"):
        pytest.importorskip(name, reason="commands of the pages need it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("schirn.app.cli._review.serve", serve_briefly)
    write_tables()
    for call in program_calls(PAGES[page]):
        if (SLOW.search(call) is not None) == slow and reason_not_to_run(call) is None:
            # --strict and --expect may refuse the table.
            codes = (0, 4) if re.search("--strict|--expect", call) else (0,)
            assert run(call) in codes, (page, call)


def test_every_reason_is_needed():
    reasons = {reason_not_to_run(call) for page, call in CALLS if page not in STORIES}
    assert reasons - {None} == set(NOT_RUN.values())
