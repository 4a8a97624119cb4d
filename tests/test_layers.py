"""Imports point one way: a package never imports one above it (docs/architecture.md)."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "schirn"

# From the bottom up. A package may import itself and every package on a lower line, also inside a
# function; packages on one line do not import each other unless a pair is named below.
LAYERS = (
    "exceptions _files _input _optional _progress _checkpoint",
    "linalg labels",
    "rank metrics",
    "noise scale datasets",
    "solvers",
    "methods",
    "features model_selection persist testing",
    "report cleaning bench deep demo",
    "reproduction",
    "cli review __main__",
)
# (importer, imported) on one line.
NEIGHBOURS = {
    ("_files", "exceptions"),
    ("_input", "exceptions"),
    ("_optional", "exceptions"),
    ("_checkpoint", "exceptions"),
    ("_checkpoint", "_files"),
    ("_checkpoint", "_progress"),
    ("persist", "features"),
    ("persist", "model_selection"),
    ("cleaning", "report"),
    ("bench", "report"),
    ("demo", "report"),
    ("cli", "review"),
    ("__main__", "cli"),
}
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def package(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def run_time(source):
    """The tree of a source without what only type checkers see."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    return tree


def imported(source):
    """Packages that a source imports, also inside functions, but not for type checkers only."""
    found = set()
    for node in ast.walk(run_time(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module == "schirn":
                found |= {alias.name for alias in node.names}
            elif (node.module or "").startswith("schirn."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("schirn.")]
            found |= {name.split(".")[1] for name in names}
    return found


def forbidden(importer, source):
    """What a module imports although its package may not."""
    return sorted(
        name
        for name in imported(source)
        if name != importer
        and (importer, name) not in NEIGHBOURS
        and LAYER_OF.get(name, len(LAYERS)) >= LAYER_OF[importer]
    )


def test_every_package_has_a_layer():
    unknown = sorted({package(path) for path in MODULES} - set(LAYER_OF))
    assert not unknown, f"name the layer of {unknown} here and in docs/architecture.md"


def test_the_root_is_nearly_empty():
    files = [path.name for path in PACKAGE.glob("*.py")]
    assert len(files) <= 11, files


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix()
)
def test_imports_point_one_way(path):
    if package(path) not in LAYER_OF:
        pytest.skip("the package has no layer yet; another test reports it")
    bad = forbidden(package(path), path.read_text("utf-8"))
    assert not bad, f"{path.name} imports {bad}, which it may not use"


def test_a_wrong_import_is_found():
    assert forbidden("linalg", "from schirn.methods import Sieve") == ["methods"]
    assert forbidden("solvers", "def f():\n    import schirn.cli.bench") == ["cli"]
    assert forbidden("linalg", "from schirn import Sieve") == ["Sieve"]
    assert forbidden("noise", "from schirn.datasets import load") == ["datasets"]
    assert forbidden("cleaning", "from schirn.report import CleanReport") == []
    assert forbidden("report", "from schirn.cleaning import NoisyLabels") == ["cleaning"]
    assert forbidden("cli", "from schirn.solvers.ridge import ridge") == []
    typing = "if TYPE_CHECKING:\n    from schirn.cleaning import NoisyLabels"
    assert forbidden("report", typing) == []


def test_no_two_packages_import_each_other():
    assert not {(b, a) for a, b in NEIGHBOURS} & NEIGHBOURS


def test_modules_of_a_package_form_no_cycle():
    """Also through imports inside functions, which would only hide one."""
    uses = {}
    for path in MODULES:
        tree = run_time(path.read_text("utf-8"))
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(("schirn", *(part for part in parts if part != "__init__")))
        uses[name] = {
            node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("schirn.")
        }
    done = set()

    def visit(name, above):
        assert name not in above, f"{' -> '.join((*above[above.index(name) :], name))}"
        if name not in done:
            for used in uses.get(name, ()):
                if used != name and used not in packages:
                    visit(used, (*above, name))
            done.add(name)

    packages = {name for name in uses if (PACKAGE.parent / name.replace(".", "/")).is_dir()}
    for name in uses:
        visit(name, ())


def test_lower_packages_know_no_names_of_the_package():
    # The package itself is above everything; only its version may be asked for.
    for path in MODULES:
        if LAYER_OF.get(package(path)) == len(LAYERS) - 1:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "schirn" or node.attr == "__version__", path


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
    """They name the parameter; `schirn.cli` adds its option."""
    if package(path) not in ("cli", "review"):
        assert not options_in_errors(path.read_text("utf-8"))


def test_an_option_in_an_error_is_found():
    assert options_in_errors("raise ValueError(f'{x}: see --text')") == ["--text"]
    assert options_in_errors("print('--text')\nraise ValueError('a -- b')") == []
