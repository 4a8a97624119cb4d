"""Imports go one way: a lower layer never imports a higher one (docs/architecture.md)."""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "schirn"

# Each layer, the layers it may import besides itself, and its modules (the first part of the name).
LAYERS = {
    "base": (
        (),
        "exceptions _optional _params _threads _atomic _limits _arrays _scratch _row_file _input",
    ),
    "arrays": (
        ("base",),
        "arrays blocks factor outofcore cluster linalg prox graph kernels scaling features noise "
        "calibration thresholds rank krylov metrics _modular _peel",
    ),
    "solvers": (("base", "arrays"), "solvers"),
    "data": (("base", "arrays"), "labels datasets _tags _votes"),
    "methods": (("base", "arrays", "solvers", "data"), "methods"),
    "tools": (
        ("base", "arrays", "solvers", "data", "methods"),
        "model_selection cleaning _noisy_labels _clean_then_fit bench report demo persist "
        "_records testing deep",
    ),
    "programs": (
        ("base", "arrays", "solvers", "data", "methods", "tools"),
        "cli review __main__",
    ),
}
LAYER_OF = {name: layer for layer, (_, names) in LAYERS.items() for name in names.split()}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def first_part(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported(source):
    """First parts of the modules of this package that a source imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            if node.module == "schirn":
                found |= {alias.name for alias in node.names}
            elif (node.module or "").startswith("schirn."):
                found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names if alias.name.startswith("schirn.")]
            found |= {name.split(".")[1] for name in names}
    return found


def upward(importer, source):
    """What a module imports although its layer may not."""
    layer = LAYER_OF[importer]
    allowed = {layer, *LAYERS[layer][0]}
    return sorted(name for name in imported(source) if LAYER_OF.get(name) not in allowed)


def test_every_module_has_a_layer():
    unknown = sorted({first_part(path) for path in MODULES} - set(LAYER_OF))
    assert not unknown, f"name the layer of {unknown} here and in docs/architecture.md"


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: path.relative_to(PACKAGE).with_suffix("").as_posix()
)
def test_imports_go_one_way(path):
    if first_part(path) not in LAYER_OF:
        pytest.skip("the module has no layer yet; another test says so")
    bad = upward(first_part(path), path.read_text("utf-8"))
    assert not bad, f"{path.name} imports {bad}, from a layer that it may not use"


def test_an_upward_import_is_found():
    assert upward("linalg", "from schirn.methods import Sieve") == ["methods"]
    assert upward("solvers", "def f():\n    import schirn.cli.bench") == ["cli"]
    assert upward("prox", "from schirn import Sieve") == ["Sieve"]
    assert upward("solvers", "from schirn.datasets import load") == ["datasets"]
    assert upward("cli", "from schirn.solvers.ridge import ridge") == []


def test_lower_layers_know_no_names_of_the_package():
    # The package itself is above everything; only its version may be asked for.
    for path in MODULES:
        if LAYER_OF.get(first_part(path)) == "programs":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert node.value.id != "schirn" or node.attr == "__version__", path


def test_no_layer_may_use_one_that_uses_it():
    order = list(LAYERS)
    for layer, (below, _) in LAYERS.items():
        assert all(order.index(name) < order.index(layer) for name in below)
