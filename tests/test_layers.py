"""Imports point one way, within each part and between the three (docs/architecture.md)."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "schirn"

# From the bottom up. A package may import itself and every package on a lower line, also inside a
# function; packages on one line do not import each other unless a pair is named below.
LAYERS = (
    "exceptions _files _input _optional _progress _checkpoint _entry_points _sklearn _text "
    "_text_features",
    "linalg labels",
    "metrics",
    "noise scale",
    "datasets solvers",
    "estimators",
    "features model_selection persist testing program",
    "cleaning deep",
)
# (importer, imported) on one line.
NEIGHBOURS = {
    ("_files", "exceptions"),
    ("_input", "exceptions"),
    ("_input", "_optional"),
    ("_optional", "exceptions"),
    ("_checkpoint", "exceptions"),
    ("_checkpoint", "_files"),
    ("_checkpoint", "_progress"),
    ("_text", "exceptions"),
    ("_text", "_files"),
    ("_text", "_input"),
    ("_text_features", "exceptions"),
    ("_text_features", "_input"),
    ("_text_features", "_progress"),
    ("_text_features", "_sklearn"),
    ("persist", "features"),
    ("persist", "model_selection"),
}
# The app and the lab are parts of their own, with the same rule.
APP_LAYERS = (
    "tables",
    "workflow",
    "demo serving",
    "report",
    "review",
    "cli",
)
LAB_LAYERS = (
    "rivals rank",
    "data model_files",
    "bench",
    "leaderboard reproduction",
    "cli",
)
PARTS = ("app", "lab")


def layer_of(layers):
    return {name: layer for layer, names in enumerate(layers) for name in names.split()}


LAYER_OF = layer_of(LAYERS)
PART_LAYERS = {"app": layer_of(APP_LAYERS), "lab": layer_of(LAB_LAYERS)}
# The program starts the app; `schirn` itself only names what users import.
STARTERS = {"__init__.py", "__main__.py"}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.parent != PACKAGE)
MODULES += sorted(path for path in PACKAGE.glob("*.py") if path.name not in STARTERS)


def package_of(path):
    """Part and package of a file: ("library", "linalg") or ("app", "tables")."""
    pieces = path.relative_to(PACKAGE).with_suffix("").parts
    if pieces[0] in PARTS:
        return pieces[0], pieces[1]
    return "library", pieces[0]


def package_named(name):
    """Part and package of a dotted name such as schirn.app.tables.open_table."""
    pieces = name.split(".")[1:]
    if pieces[0] in PARTS:
        return pieces[0], pieces[1] if len(pieces) > 1 else ""
    return "library", pieces[0]


def run_time(source):
    """The tree of a source without what only type checkers see."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    return tree


def imported_names(source):
    """Full names that a source imports, also inside functions, but not for type checkers only."""
    names = set()
    for node in ast.walk(run_time(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("schirn.")}


def forbidden(importer, source):
    """Names that a package, such as ("app", "cli"), imports although it may not."""
    part, package = importer
    bad = []
    for name in sorted(imported_names(source)):
        other_part, other = package_named(name)
        if (other_part, other) == importer:
            continue
        if other_part == part == "library":
            is_lower = LAYER_OF.get(other, len(LAYERS)) < LAYER_OF[package]
            allowed = is_lower or (package, other) in NEIGHBOURS
        elif other_part == part:
            layers = PART_LAYERS[part]
            allowed = layers.get(other, len(layers)) < layers[package]
        else:
            # A part of its own stands on the library, and on nothing else.
            allowed = other_part == "library" and other in LAYER_OF
        if not allowed:
            bad.append(name)
    return bad


def links(source, part):
    """Texts by which a part could be imported; sentences may name it."""
    texts = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted(t for t in texts if re.fullmatch(rf"(schirn)?\.{part}([.:]\w*)*", t))


def hooks(source):
    """What a source does to the import system or to modules: none of it is allowed."""
    wrong = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            name = ast.unparse(node)
            if name in ("sys.meta_path", "sys.path_hooks", "importlib.abc"):
                wrong.append(name)
            if node.attr == "__class__" and isinstance(node.ctx, ast.Store):
                wrong.append(f"{name} = ...")
    return wrong


def private_names(importer, source):
    """Private modules and names of other packages that a source imports."""
    bad = []
    for name in sorted(imported_names(source)):
        part, package = package_named(name)
        if (part, package) == importer or (part == "library" and package.startswith("_")):
            continue
        pieces = name.split(".")[2 if part == "library" else 3 :]
        if any(piece.startswith("_") and not piece.endswith("__") for piece in pieces):
            bad.append(name)
    return bad


def test_every_package_has_a_layer():
    packages = {package_of(path) for path in MODULES}
    known = {("library", name) for name in LAYER_OF}
    known |= {(part, name) for part in PARTS for name in (*PART_LAYERS[part], "__init__")}
    unknown = sorted(packages - known)
    assert not unknown, f"name the layer of {unknown} here and in docs/architecture.md"


def test_the_root_is_nearly_empty():
    files = [path.name for path in PACKAGE.glob("*.py")]
    assert len(files) <= 13, files


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix()
)
def test_imports_point_one_way(path):
    package = package_of(path)
    if package[1] == "__init__":
        assert not forbidden((package[0], ""), path.read_text("utf-8").partition("def ")[0])
        return
    bad = forbidden(package, path.read_text("utf-8"))
    assert not bad, f"{path.name} imports {bad}, which it may not use"


def test_a_wrong_import_is_found():
    assert forbidden(("library", "linalg"), "from schirn.estimators import Sieve")
    assert forbidden(("library", "linalg"), "from schirn import Sieve") == ["schirn.Sieve"]
    assert forbidden(("library", "solvers"), "def f():\n    import schirn.app.cli.fit")
    assert forbidden(("library", "solvers"), "from schirn.datasets import load")
    assert forbidden(("library", "cleaning"), "from schirn.app.report import CleanReport")
    assert forbidden(("library", "cleaning"), "from schirn.lab import PMLNI")
    assert forbidden(("app", "cli"), "from schirn.lab.bench import run")
    assert forbidden(("lab", "bench"), "from schirn.app.tables import open_table")
    assert forbidden(("app", "tables"), "from schirn.app.workflow import TagTable")
    assert forbidden(("lab", "rivals"), "from schirn.lab.bench import run")
    assert forbidden(("lab", "bench"), "from schirn.lab import leaderboard")
    assert forbidden(("app", "cli"), "from schirn import Sieve")
    assert not forbidden(("lab", "bench"), "from schirn.lab.rivals import PMLNI")
    assert not forbidden(("app", "cli"), "from schirn.linalg.row_space import ridge")
    assert not forbidden(("app", "cli"), "from schirn.app.cli._fit import run")
    typing = "if TYPE_CHECKING:\n    from schirn.cleaning import NoisyLabels"
    assert not forbidden(("library", "labels"), typing)


def test_no_part_names_another_one_in_a_text():
    for path in MODULES:
        part = package_of(path)[0]
        for other in {*PARTS} - {part}:
            assert not links(path.read_text("utf-8"), other), path


def test_a_link_in_a_text_is_found():
    assert links("import_module('schirn.lab.bench')", "lab") == ["schirn.lab.bench"]
    assert links("import_module(f'schirn.lab.{name}')", "lab") == ["schirn.lab."]
    assert links("import_module('.lab', 'schirn')", "lab") == [".lab"]
    assert links("X = 'schirn.app.report:CleanReport'", "app") == ["schirn.app.report:CleanReport"]
    assert links("from schirn.labels import tags\n'see schirn.lab.bench'", "lab") == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name)
def test_no_module_hooks_into_imports(path):
    assert not hooks(path.read_text("utf-8"))


def test_a_hook_is_found():
    assert hooks("import sys\nsys.meta_path.insert(0, Finder())") == ["sys.meta_path"]
    assert hooks("module.__class__ = Package") == ["module.__class__ = ..."]
    assert hooks("name = type(self).__name__, self.__class__") == []


def test_packages_import_public_names_of_others():
    for path in MODULES:
        assert not private_names(package_of(path), path.read_text("utf-8")), path


def test_a_private_name_is_found():
    private = "def f():\n    from schirn.estimators._base import Fit"
    assert private_names(("library", "cleaning"), private) == ["schirn.estimators._base.Fit"]
    assert private_names(("library", "estimators"), private) == []
    assert private_names(("app", "cli"), "from schirn.app.tables._files import open_table")
    assert private_names(("app", "tables"), "from schirn.app.tables._files import open_table") == []
    assert private_names(("app", "cli"), "from schirn._files import brief") == []


def find_cycle(uses, name, above=(), done=None):
    """A cycle of modules that use each other, from a module on; or an empty tuple."""
    done = set() if done is None else done
    if name in above:
        return (*above[above.index(name) :], name)
    if name in done:
        return ()
    for used in sorted(uses.get(name, ())):
        if cycle := find_cycle(uses, used, (*above, name), done):
            return cycle
    done.add(name)
    return ()


def test_modules_form_no_cycle():
    """Also through imports inside functions, which would only hide one."""
    uses = {}
    for path in MODULES:
        pieces = path.relative_to(PACKAGE).with_suffix("").parts
        if pieces[-1] != "__init__":
            uses[".".join(("schirn", *pieces))] = {
                node.module
                for node in ast.walk(run_time(path.read_text("utf-8")))
                if isinstance(node, ast.ImportFrom)
            }
    done = set()
    for name in uses:
        assert not find_cycle(uses, name, done=done)


def test_a_cycle_is_found():
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"b"}}, "a") == ("b", "c", "b")
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}}, "a") == ()


def options_in_errors(source):
    """Options of the program that the errors of a module name."""
    errors = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Raise)]
    texts = [
        node.value
        for error in errors
        for node in ast.walk(error)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [option for text in texts for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)]


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix()
)
def test_errors_of_the_library_name_no_options(path):
    """They name the parameter; the program adds its option."""
    if package_of(path)[1] not in ("cli", "review", "program"):
        assert not options_in_errors(path.read_text("utf-8"))


def test_an_option_in_an_error_is_found():
    assert options_in_errors("raise ValueError(f'{x}: see --text')") == ["--text"]
    assert options_in_errors("print('--text')\nraise ValueError('a -- b')") == []


WITHOUT = """
import sys
import numpy as np
import schirn
from schirn.datasets import make_partial_multilabel

data = make_partial_multilabel(n_samples=60, n_labels=4, r=1, random_state=0)
model = schirn.Sieve().fit(data.X, data.candidates)
schirn.save(model, "model.schirn")
again = schirn.load("model.schirn")
assert np.array_equal(again.predict(data.X), model.predict(data.X))
assert len(schirn.find_noisy_labels(data.X, data.candidates).row) == data.candidates.sum()
print(*schirn.methods())
"""


@pytest.fixture(params=PARTS)
def copy_without(request, tmp_path):
    """A copy of the package without one of the parts."""
    shutil.copytree(
        PACKAGE,
        tmp_path / "schirn",
        ignore=lambda folder, names: [request.param] if Path(folder) == PACKAGE else [],
    )
    shutil.copy(PACKAGE.parent / "schirn_program.py", tmp_path)
    return request.param, tmp_path


def run_there(folder, *words):
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_each_part_may_be_absent(copy_without):
    """The library fits, ranks, saves and loads without the app and without the lab."""
    part, folder = copy_without
    done = run_there(folder, "-c", WITHOUT)
    assert (done.returncode, done.stderr) == (0, "")
    methods = done.stdout.split()
    assert {"Sieve", "Schirn", "CandidateRidge", "OracleRidge"} <= set(methods)
    assert ("PMLNI" in methods) == (part == "app")


def test_the_program_runs_without_the_lab(copy_without):
    part, folder = copy_without
    if part == "app":
        pytest.skip("the program is part of the app")
    lines = ["title,tags"]
    lines += [f"red round fruit {i},apple" for i in range(30)]
    lines += [f"long yellow fruit {i},banana" for i in range(30)]
    (folder / "t.csv").write_text("\n".join(lines))
    for words in (["--help"], ["clean", "--help"], ["clean", "t.csv", "--text", "title"]):
        done = run_there(folder, "-m", "schirn", *words)
        assert (done.returncode, "should not have happened" in done.stderr) == (0, False), done
    assert "bench" not in run_there(folder, "-m", "schirn", "--help").stdout
    done = run_there(folder, "-m", "schirn", "bench")
    assert done.returncode == 2
    assert "there is no command 'bench'" in done.stderr
    done = run_there(
        folder, "-m", "schirn", "fit", "t.csv", "--text", "title", "-o", "t.schirn", "--quiet"
    )
    assert (done.returncode, done.stderr) == (0, "")
