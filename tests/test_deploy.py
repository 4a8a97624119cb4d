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
    assert "stopped; all requests that had arrived were answered" in done.stderr
    answers = re.findall(r'\{"rows":.*?\]\}', done.stdout)
    assert json.loads(answers[0])["rows"][0]["tags"] == ["pan"]
    judged = json.loads(answers[1])["rows"][0]
    assert (list(judged["confidence"]), judged["unseen"]) == (["chair"], ["wok"])
    assert 'schirn_requests_total{path="/predict",status="200"} 1' in done.stdout
    assert (tmp_path / "piped.csv").read_text() == (tmp_path / "tagged.csv").read_text()
    assert (tmp_path / "tagger.onnx").stat().st_size > 0


def dockerfile():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    return [line.split(" ", 1) for line in lines if line and not line.startswith("#")]


def test_the_dockerfile_fits_the_project():
    steps = dockerfile()
    options = dict(steps)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.search(r"python:3\.(\d+)", options["FROM"])[1]
    assert int(version) >= int(project["requires-python"].rpartition(".")[2])
    assert "[$EXTRAS]" in next(step for name, step in steps if name == "RUN")
    name, extra = options["ARG"].split("=")
    assert name == "EXTRAS"
    assert {"starlette", "uvicorn"} <= {
        re.match(r"\w+", need)[0] for need in project["optional-dependencies"][extra]
    }
    command, *argv = [*json.loads(options["ENTRYPOINT"]), *json.loads(options["CMD"])]
    assert command in project["scripts"]
    # The command of the image parses, and its health check asks the right port.
    args = parsed(argv)
    assert (args.host, str(args.port)) == ("0.0.0.0", options["EXPOSE"])
    assert f":{args.port}/health" in options["HEALTHCHECK"]


def parsed(argv):
    from schirn.app.cli import commands
    from schirn.program.parser import build_parser

    return build_parser(commands(), argv[0]).parse_args(argv)


def manifests(name):
    yaml = pytest.importorskip("yaml")
    return list(yaml.safe_load_all((ROOT / "examples" / "kubernetes" / name).read_text()))


def pods(entry):
    """Every description of a pod in a manifest, at any depth."""
    if isinstance(entry, list):
        entry = dict(enumerate(entry))
    if isinstance(entry, dict):
        if "containers" in entry:
            yield entry
        for value in entry.values():
            yield from pods(value)


KUBERNETES = sorted(path.name for path in (ROOT / "examples" / "kubernetes").iterdir())


@pytest.mark.parametrize("name", KUBERNETES)
def test_the_containers_run_this_version_and_commands_that_exist(name):
    release = re.search(r"^## (\d\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)[1]
    entry_point = json.loads(dict(dockerfile())["ENTRYPOINT"])
    (user,) = re.findall(r"--uid (\d+)", (ROOT / "Dockerfile").read_text())
    assert dict(dockerfile())["USER"] == user
    found = [pod for manifest in manifests(name) for pod in pods(manifest)]
    assert found
    for pod in found:
        volumes = {volume["name"] for volume in pod.get("volumes", ())}
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            assert container["image"].endswith(f"/schirn:{release}")
            argv = [*container.get("command", entry_point), *container.get("args", ())]
            if argv[0] == "schirn":
                parsed(argv[1:])
            else:
                check_dask(*argv)
            mounts = container.get("volumeMounts", ())
            assert {mount["name"] for mount in mounts} <= volumes


def check_dask(program, command, *argv):
    """Raise click.UsageError if Dask does not know an option."""
    assert program == "dask"
    module = pytest.importorskip(f"distributed.cli.dask_{command}")
    module.main.make_context(command, list(argv))


def test_the_served_pod_answers_its_probes_and_ends_in_time():
    deployment, service = manifests("serve.yaml")
    template = deployment["spec"]["template"]
    labels = template["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels == service["spec"]["selector"]
    (container,) = template["spec"]["containers"]
    entry_point = json.loads(dict(dockerfile())["ENTRYPOINT"])
    args = parsed([*entry_point[1:], *container["args"]])
    assert container["ports"] == [{"name": "http", "containerPort": args.port}]
    assert service["spec"]["ports"][0]["targetPort"] == "http"
    description = ROOT / "src" / "schirn" / "app" / "serving" / "openapi.json"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["path"] in json.loads(description.read_text())["paths"]
        assert asked["port"] == "http"
    pause = float(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert template["spec"]["terminationGracePeriodSeconds"] > pause + args.timeout + 1
    assert Path(args.model).parent == Path(container["volumeMounts"][0]["mountPath"])
    # Requests to the service name it in their header Host, which only a token permits.
    assert container["env"][0]["name"] == "SCHIRN_TOKEN"


def test_the_nightly_pod_runs_once_at_a_time_where_the_table_is():
    (job,) = manifests("nightly.yaml")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    (pod,) = pods(job)
    (container,) = pod["containers"]
    assert container["workingDir"] == container["volumeMounts"][0]["mountPath"]
    (served,) = pods(manifests("serve.yaml")[0])
    claims = [
        volume["persistentVolumeClaim"]["claimName"]
        for volume in (*pod["volumes"], *served["volumes"])
        if "persistentVolumeClaim" in volume
    ]
    assert len(set(claims)) == 1


def test_the_database_pod_applies_the_list_of_a_night_that_has_succeeded():
    (job,) = manifests("nightly-database.yaml")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    assert job["spec"]["jobTemplate"]["spec"]["backoffLimit"] == 0
    (pod,) = pods(job)
    (update,) = pod["initContainers"]
    (apply,) = pod["containers"]
    judged = parsed(update["command"][1:])
    applied = parsed(apply["command"][1:])
    assert (applied.changes, applied.data) == (judged.changes, judged.data)
    assert applied.commit
    # A list of its own for every night: an undo needs it.
    assert "$(POD)" in judged.changes
    for container in (update, apply):
        known = {entry["name"]: entry.get("valueFrom") for entry in container["env"]}
        assert known["POD"] == {"fieldRef": {"fieldPath": "metadata.name"}}
        # libpq ignores a password file that a group can read, as on a volume with fsGroup.
        assert "PGPASSFILE" not in known
        assert "secretKeyRef" in known["PGPASSWORD"]
    assert update["workingDir"] == apply["workingDir"] == update["volumeMounts"][0]["mountPath"]


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
