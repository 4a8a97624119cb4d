"""The page about deployment: its commands run, and the steps of the Dockerfile fit together."""

import json
import re
import shlex
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import joblib
import pytest

from schirn.features import TagPipeline

ROOT = Path(__file__).parents[1]
TITLES = ["red pan", "steel pan", "red chair", "oak chair"]
TAGS = ["pan", "pan;steel", "chair", "chair;oak"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_tables(folder):
    rows = [f"{title},{tags}" for title, tags in zip(TITLES, TAGS, strict=True)] * 6
    (folder / "items.csv").write_text("\n".join(["title,tags", *rows]) + "\n")
    (folder / "new.csv").write_text("title\nblue pan\noak chair\n")


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="the page is written for a POSIX shell")
def test_the_commands_of_the_page_run(tmp_path):
    for name in ("starlette", "uvicorn", "onnx"):
        pytest.importorskip(name)
    write_tables(tmp_path)
    page = (ROOT / "docs" / "deploy.md").read_text("utf-8")
    lines = re.findall(r"^\$ (.*)", page, re.M)
    # No engine of containers here; the next test is about them.
    lines = [line for line in lines if not line.startswith(("docker", "make"))]
    port = str(free_port())
    python = shlex.quote(sys.executable)
    program = f'schirn() {{ {python} -m schirn "$@"; }}\npython() {{ {python} "$@"; }}'
    script = ["set -e -m", program, *lines, "wait"]
    text = "\n".join(script).replace("8000", port)
    # The shell starts the server itself, so that signals reach it.
    text = text.replace("schirn serve", f"{python} -m schirn serve")
    text = text.replace("kill %1", "sleep 8\nkill %1")
    done = subprocess.run(
        ["bash", "-c", text], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert "stopped; all requests were answered" in done.stderr
    answers = re.findall(r'\{"rows":.*?\]\}', done.stdout)
    assert json.loads(answers[0])["rows"][0]["tags"] == ["pan"]
    judged = json.loads(answers[1])["rows"][0]
    assert (list(judged["confidence"]), judged["unseen"]) == (["chair"], ["wok"])
    assert 'schirn_requests_total{path="/predict",status="200"} 1' in done.stdout
    assert (tmp_path / "piped.csv").read_text() == (tmp_path / "tagged.csv").read_text()
    assert (tmp_path / "tagger.onnx").stat().st_size > 0


def test_the_dockerfile_fits_the_project():
    steps = [
        line.split(" ", 1)
        for line in (ROOT / "Dockerfile").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    options = dict(steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(r"python:3\.(\d+)", options["FROM"])[1]
    assert int(version) >= int(project["requires-python"].rpartition(".")[2])
    (extra,) = re.findall(r"\[(\w+)\]", dict(steps[:3])["RUN"])
    assert {"starlette", "uvicorn"} <= {
        re.match(r"\w+", need)[0] for need in project["optional-dependencies"][extra]
    }
    command, *argv = [*json.loads(options["ENTRYPOINT"]), *json.loads(options["CMD"])]
    assert command in project["scripts"]
    # The command of the image parses, and its health check asks the right port.
    from schirn.app.cli import commands
    from schirn.program.parser import build_parser

    args = build_parser(commands(), argv[0]).parse_args(argv)
    assert (args.host, str(args.port)) == ("0.0.0.0", options["EXPOSE"])
    assert f":{args.port}/health" in options["HEALTHCHECK"]


def test_docker_is_sent_no_history_and_no_environment():
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {".git", ".venv*"} <= set(ignored)
    assert "dist" not in ignored


def test_a_pipeline_in_joblib(tmp_path):
    tagger = TagPipeline(text="title").fit({"title": TITLES * 5}, TAGS * 5)
    tagger.predict({"title": TITLES})
    joblib.dump(tagger, tmp_path / "tagger.joblib")
    same = joblib.load(tmp_path / "tagger.joblib")
    assert (same.predict({"title": TITLES}) == tagger.predict({"title": TITLES})).all()
    # What transform remembers of its tokens is not part of the file.
    size = (tmp_path / "tagger.joblib").stat().st_size
    tagger.predict({"title": [f"token{i} pan" for i in range(5_000)]})
    joblib.dump(tagger, tmp_path / "tagger.joblib")
    assert (tmp_path / "tagger.joblib").stat().st_size == size
