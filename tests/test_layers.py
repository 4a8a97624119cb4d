"""Imports point one way: a package never imports one above it (docs/architecture.md)."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "schirn"

# From the bottom up. A package may import itself and every package on a lower line, also inside a
# function; packages on one line do not import each other unless a pair is named below.
LAYERS = (
    "exceptions _files _input _optional _progress _checkpoint _plugins",
    "linalg labels",
    "metrics",
    "noise scale",
    "tables",
    "datasets solvers",
    "methods",
    "features model_selection persist testing",
    "report cleaning deep demo serving",
    "cli review __main__",
    "lab",
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
    ("demo", "cleaning"),
    ("cli", "review"),
    ("__main__", "cli"),
}
# The lab is a house of its own, with the same rule.
LAB_LAYERS = (
    "rivals rank",
    "data model_files",
    "bench",
    "leaderboard reproduction",
    "cli",
)
LAYER_OF = {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}
LAB_LAYER_OF = {name: layer for layer, names in enumerate(LAB_LAYERS) for name in names.split()}
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


def imported_names(source):
    """Full names that a source imports, also inside functions, but not for type checkers only."""
    names = set()
    for node in ast.walk(run_time(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name for name in names if name.startswith("schirn.")}


def imported(source):
    """Packages that a source imports."""
    return {name.split(".")[1] for name in imported_names(source)}


def forbidden(importer, source):
    """What a module imports although its package may not."""
    return sorted(
        name
        for name in imported(source)
        if name != importer
        and (importer, name) not in NEIGHBOURS
        and LAYER_OF.get(name, len(LAYERS)) >= LAYER_OF[importer]
    )


def forbidden_in_lab(importer, source):
    """What a module of the lab imports although its part of the lab may not."""
    prefix = "schirn.lab."
    names = {n.removeprefix(prefix) for n in imported_names(source) if n.startswith(prefix)}
    parts = {name.split(".")[0] for name in names} - {importer}
    return sorted(p for p in parts if LAB_LAYER_OF.get(p, -1) >= LAB_LAYER_OF[importer])


def links_to_the_lab(source):
    """Imports of the lab, and texts by which it could be imported; sentences may name it."""
    names = {name for name in imported_names(source) if f"{name}.".startswith("schirn.lab.")}
    texts = {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return sorted(names | {t for t in texts if re.fullmatch(r"(schirn)?\.lab(\.\w*)*", t)})


def private_names(importer, source):
    """Private modules and names of other packages that a source imports."""
    return sorted(
        name
        for name in imported_names(source)
        if (parts := name.split(".")[1:])[0] != importer
        and any(part.startswith("_") and not part.endswith("__") for part in parts[1:])
    )


def test_every_package_has_a_layer():
    unknown = sorted({package(path) for path in MODULES} - set(LAYER_OF))
    assert not unknown, f"name the layer of {unknown} here and in docs/architecture.md"


def test_the_root_is_nearly_empty():
    files = [path.name for path in PACKAGE.glob("*.py")]
    assert len(files) <= 13, files


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
    assert forbidden("solvers", "def f():\n    import schirn.cli.fit") == ["cli"]
    assert forbidden("linalg", "from schirn import Sieve") == ["Sieve"]
    assert forbidden("solvers", "from schirn.datasets import load") == ["datasets"]
    assert forbidden("tables", "from schirn.cleaning import NoisyLabels") == ["cleaning"]
    assert forbidden("lab", "from schirn.cli.parser import Parser") == []
    assert forbidden("cleaning", "from schirn.report import CleanReport") == []
    assert forbidden("report", "from schirn.cleaning import NoisyLabels") == ["cleaning"]
    assert forbidden("cli", "from schirn.linalg.row_space import ridge") == []
    typing = "if TYPE_CHECKING:\n    from schirn.cleaning import NoisyLabels"
    assert forbidden("report", typing) == []


LAB = PACKAGE / "lab"
LAB_MODULES = sorted(path for path in LAB.rglob("*.py") if path != LAB / "__init__.py")
CORE_MODULES = [path for path in PACKAGE.rglob("*.py") if LAB not in path.parents]


def test_imports_in_the_lab_point_one_way():
    for path in LAB_MODULES:
        part = path.relative_to(LAB).parts[0].removesuffix(".py")
        assert part in LAB_LAYER_OF, f"name the layer of {part} here"
        assert not forbidden_in_lab(part, path.read_text("utf-8")), path


def test_the_core_does_not_know_the_lab():
    for path in CORE_MODULES:
        if path.name != "_plugins.py":
            assert not links_to_the_lab(path.read_text("utf-8")), path


def test_packages_import_public_names_of_others():
    for path in MODULES:
        assert not private_names(package(path), path.read_text("utf-8")), path


def test_tests_import_public_names():
    """Apart from a few, each with a reason."""
    reasons = {
        "deep/test_posterior.py": "what only a GPU computes is compared on the processor",
        "lab/data/test_brighter.py": "small files take the place of large downloads",
        "lab/data/test_emoji.py": "small packages take the place of those with known checksums",
        "review/page_helpers.py": "the page runs in a thread of the tests",
        "review/test_app.py": "requests without a server",
        "test_progress.py": "displays that a test looks at while work goes on",
    }
    tests = Path(__file__).parent
    private = {
        path.relative_to(tests).as_posix()
        for path in tests.rglob("*.py")
        if any(
            part.startswith("_") and not part.startswith("__")
            for name in imported_names(path.read_text("utf-8"))
            for part in name.split(".")
        )
    }
    assert private == set(reasons)


def test_wrong_links_are_found():
    assert forbidden_in_lab("rivals", "from schirn.lab.bench import run") == ["bench"]
    assert forbidden_in_lab("bench", "from schirn.lab import leaderboard") == ["leaderboard"]
    assert forbidden_in_lab("bench", "from schirn.lab.rivals import PMLNI") == []
    assert links_to_the_lab("def f():\n    from schirn.lab import PMLNI") == ["schirn.lab.PMLNI"]
    assert links_to_the_lab("def f():\n    import schirn.lab") == ["schirn.lab"]
    assert links_to_the_lab("import_module('schirn.lab.bench')") == ["schirn.lab.bench"]
    assert links_to_the_lab("import_module(f'schirn.lab.{name}')") == ["schirn.lab."]
    assert links_to_the_lab("import_module('.lab', 'schirn')") == [".lab"]
    assert links_to_the_lab("from schirn.labels import tags\n'see schirn.lab.bench'") == []
    private = "def f():\n    from schirn.methods._base import Fit"
    assert private_names("cleaning", private) == ["schirn.methods._base.Fit"]
    assert private_names("lab", "from schirn.methods import _x") == ["schirn.methods._x"]
    assert private_names("methods", private) == []
    assert private_names("cli", "from schirn._files import brief\nimport schirn.cli.fit") == []


def test_no_two_packages_import_each_other():
    assert not {(b, a) for a, b in NEIGHBOURS} & NEIGHBOURS


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
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[-1] != "__init__":
            uses[".".join(("schirn", *parts))] = {
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


def test_lower_packages_know_no_names_of_the_package():
    # The package itself is above everything; only its version may be asked for.
    for path in MODULES:
        if package(path) in ("cli", "review", "__main__"):
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
    if package(path) not in ("cli", "review") and path.parent.name != "cli":
        assert not options_in_errors(path.read_text("utf-8"))


def test_an_option_in_an_error_is_found():
    assert options_in_errors("raise ValueError(f'{x}: see --text')") == ["--text"]
    assert options_in_errors("print('--text')\nraise ValueError('a -- b')") == []
