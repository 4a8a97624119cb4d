"""Versions, licence and documents of a release agree."""

import hashlib
import json
import re
import tomllib
import zlib
from pathlib import Path

import pytest
import smoke
from packaging.version import Version

import schirn

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


@pytest.fixture(scope="module")
def citation():
    yaml = pytest.importorskip("yaml", reason="reading CITATION.cff needs PyYAML")
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def requirements(project):
    """Name -> oldest version of everything that pyproject.toml asks for."""
    lists = [project["project"]["dependencies"]]
    lists += project["project"]["optional-dependencies"].values()
    found = (
        re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)$", line) for lines in lists for line in lines
    )
    return {match[1]: match[2] for match in found if match}


def test_the_version_comes_from_one_place(project):
    assert "version" not in project["project"]
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/schirn/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+|\.dev\d+)?", schirn.__version__)


def sections():
    """Titles of the changelog's sections, newest first."""
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    return re.findall(r"^## (.*)$", text, re.M)


def test_the_changelog_has_this_version_and_room_for_the_next():
    titles = sections()
    assert titles[0] == "Unreleased"
    newest = re.fullmatch(r"(\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d\)", titles[1])
    version = Version(schirn.__version__)
    if version.is_devrelease:
        assert Version(newest[1]) < version
    else:
        assert newest[1] == schirn.__version__


def test_a_release_has_golden_files():
    """Later versions prove with them that they read the model files of this one."""
    version = Version(schirn.__version__)
    folder = ROOT / "tests" / "golden" / schirn.__version__
    assert version.is_devrelease or (folder / "expected.npz").is_file()


def test_the_citation_is_sound(citation):
    assert citation["cff-version"] == "1.2.0"
    for key in ("message", "title", "authors", "version", "date-released", "license"):
        assert citation[key]
    for entry in [citation, *citation["references"]]:
        assert all("name" in author or "family-names" in author for author in entry["authors"])


def test_the_citation_names_the_newest_release_and_its_day(citation):
    assert f"{citation['version']} ({citation['date-released']})" == sections()[1]


def test_the_licence_is_one(project, citation):
    assert project["project"]["license"] == citation["license"] == "BSD-3-Clause"
    assert (ROOT / "LICENSE").read_text("utf-8").startswith("BSD 3-Clause License")


def test_every_package_has_its_oldest_version_in_the_oldest_set(project):
    lines = (ROOT / "tests" / "oldest.txt").read_text("utf-8").splitlines()
    pinned = dict(re.fullmatch(r"([\w-]+)==([\d.]+)\.\*", x).groups() for x in lines if "=" in x)
    wanted = requirements(project)
    # Not in that run: too large, or development tools.
    extras = project["project"]["optional-dependencies"]
    skipped = {"torch", *requirements_of(extras.get("docs", [])), *requirements_of(extras["dev"])}
    for name, oldest in wanted.items():
        if name in skipped:
            continue
        assert name in pinned, f"{name}>={oldest} is not in tests/oldest.txt"
        series = pinned[name].split(".")
        asked = oldest.split(".")
        assert [*asked, "0", "0"][: len(series)] == series, f"{name}: {oldest} and {pinned[name]}"


def requirements_of(lines):
    found = (re.match(r"([\w-]+)>=", line) for line in lines)
    return {match[1] for match in found if match}


def test_the_classifiers_name_the_supported_pythons(project):
    named = [
        tuple(map(int, match.groups()))
        for line in project["project"]["classifiers"]
        if (match := re.fullmatch(r"Programming Language :: Python :: (\d+)\.(\d+)", line))
    ]
    oldest = re.fullmatch(r">=(\d+)\.(\d+)", project["project"]["requires-python"])
    assert min(named) == tuple(map(int, oldest.groups()))


def test_the_smoke_test_finds_the_commands_of_the_readme():
    calls = smoke.program_lines()
    names = ["review", "clean", "clean", "vocabulary", "fit", "predict"]
    assert [call[0] for call in calls] == names
    assert not any("#" in word for call in calls for word in call)
    assert smoke.blocks("python")


def test_the_smoke_test_writes_a_table(tmp_path):
    smoke.write_photos(tmp_path / "photos.csv", 0, 12)
    lines = (tmp_path / "photos.csv").read_text().splitlines()
    assert len(lines) == 13
    assert lines[1].endswith(";dog")


def test_documents_that_a_release_needs_are_there():
    for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"):
        assert (ROOT / name).stat().st_size > 200, name


def test_ci_runs_the_check():
    commands = (ROOT / ".ci" / "run").read_text("utf-8").splitlines()
    assert "make check" in commands
    (needs,) = re.findall(r"^check: (.*)$", MAKEFILE, re.M)
    assert set(needs.split()) == {"lint", "types", "docs-test", "site", "test-all"}


def test_the_sources_fit_into_the_wheel():
    """As `make dist` asks, without building it: names and sums take a tenth of the wheel."""
    (most,) = map(int, re.findall(r"\*\.whl\) most=(\d+);;", MAKEFILE))
    files = [path for path in (ROOT / "src").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    size = sum(len(zlib.compress(path.read_bytes())) for path in files)
    assert size < 0.9 * most, "make dist would fail; raise its limit, or leave data out"
    contributing = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"below {most / 1e6:g} MB" in contributing


def test_the_readme_names_the_two_commands_of_a_newcomer():
    text = (ROOT / "README.md").read_text("utf-8")
    assert re.search(r"^\$ make demo\b.*\n\$ make test\b", text, re.M)
    assert "](docs/answers.md)" in text


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").split()) <= 700


def test_every_kind_of_reader_finds_a_page_in_the_readme():
    text = (ROOT / "README.md").read_text("utf-8")
    for page in ("tags", "research", "engineering"):
        assert f"](docs/{page}.md)" in text


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_named_exists(page):
    text = (ROOT / page).read_text("utf-8")
    named = set(re.findall(r"(?:^\$ |`)make ([a-z-]+)", text, re.M))
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
    assert named
    assert named <= targets


def locked(name):
    """Package -> number of checksums in a list of versions."""
    text = (ROOT / "release" / name).read_text("utf-8")
    entries = re.split(r"\n(?=[a-z0-9])", text)
    return {
        match[1]: entry.count("--hash=sha256:")
        for entry in entries
        if (match := re.match(r"([\w.-]+)(?:\[[\w,]+\])?==", entry))
    }


def test_the_tools_of_a_release_are_locked():
    wanted = (ROOT / "release" / "tools.in").read_text("utf-8").split("\n")
    found = locked("tools.txt")
    assert {line for line in wanted if line and not line.startswith("#")} <= set(found)
    assert min(found.values()) > 0


def test_what_users_install_is_locked(project):
    found = locked("versions.txt")
    extras = project["project"]["optional-dependencies"]
    names = re.findall(r"\w+", extras["all"][0])[1:]
    lines = [line for name in names for line in extras[name]] + project["project"]["dependencies"]
    wanted = {re.split(r"[\[>]", line)[0].lower() for line in lines} - {"schirn"}
    assert wanted <= set(found)
    assert min(found.values()) > 0


def test_the_bill_of_materials(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "release")
    import sbom

    wheel = tmp_path / "schirn-1.2.3-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    assert sbom.main(str(wheel), str(tmp_path / "bill.json")) == 0
    bill = json.loads((tmp_path / "bill.json").read_text())
    own = bill["metadata"]["component"]
    assert (own["name"], own["version"]) == ("schirn", "1.2.3")
    assert own["hashes"][0]["content"] == hashlib.sha256(b"wheel").hexdigest()
    scope = {component["name"]: component["scope"] for component in bill["components"]}
    required = {name for name, value in scope.items() if value == "required"}
    assert {"numpy", "scipy", "scikit-learn", "joblib", "threadpoolctl"} <= required
    assert not required & {"jinja2", "starlette", "pandas", "matplotlib", "dask"}
    assert set(scope) == set(locked("versions.txt"))
    with pytest.raises(SystemExit, match="numpy has no checksum"):
        sbom.bill(wheel, "numpy==2.0\n")
