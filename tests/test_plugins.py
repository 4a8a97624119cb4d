"""Old names lead to their new homes, with a warning; the core loads the lab only when asked."""

import subprocess
import sys
import warnings
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

import pytest

from schirn.methods import find_method

RIVALS = (
    *("FPML", "GLC", "NLR", "PAKS", "PARD", "PMLLENFN", "PMLLRS", "PMLMA", "PMLNI", "PMLPLR"),
    *("ParticleMAP", "ParticleVLS"),
)
NEEDS_TORCH = pytest.mark.skipif(find_spec("torch") is None, reason="PyTorch is not installed")
LOSSES = ("AsymmetricLoss", "GeneralizedCrossEntropy", "LargeLoss", "ROLE", "SPLC")
# (old module, name, new module).
MOVED_NAMES = [
    *(("schirn", name, "schirn.lab") for name in RIVALS),
    *(("schirn.methods", name, "schirn.lab") for name in RIVALS),
    ("schirn.datasets", "MAX_RANK_BYTES", "schirn.lab.data"),
    ("schirn.datasets", "data_card", "schirn.lab.data"),
    ("schirn.datasets", "fetch", "schirn.lab.data"),
    ("schirn.datasets", "make_cooccurrence", "schirn.lab.data"),
    ("schirn.datasets", "prepare_yeast", "schirn.lab.data"),
    *(
        pytest.param("schirn.deep", name, "schirn.lab.rivals.losses", marks=NEEDS_TORCH)
        for name in LOSSES
    ),
    ("schirn.linalg", "nearest_neighbours", "schirn.lab.rivals.solvers.graph"),
    ("schirn.linalg", "nonnegative_least_squares", "schirn.lab.rivals.solvers.graph"),
    ("schirn.linalg", "propagate_labels", "schirn.lab.rivals.solvers.graph"),
    ("schirn.linalg", "reconstruction_weights", "schirn.lab.rivals.solvers.graph"),
    ("schirn.linalg", "singular_value_threshold", "schirn.lab.rivals.solvers.prox"),
    ("schirn.linalg", "soft_threshold", "schirn.lab.rivals.solvers.prox"),
    ("schirn.bench", "Check", "schirn.lab.leaderboard"),
    ("schirn.bench", "build_leaderboard", "schirn.lab.leaderboard"),
    ("schirn.bench", "check_results", "schirn.lab.leaderboard"),
]
METHOD_FILES = ("particle", *(name.lower() for name in RIVALS if name.isupper()))
MOVED_MODULES = {
    "schirn.bench": "schirn.lab.bench",
    "schirn.bench.leaderboard": "schirn.lab.leaderboard.pages",
    "schirn.bench.submission": "schirn.lab.leaderboard.submission",
    "schirn.reproduction": "schirn.lab.reproduction",
    "schirn.rank": "schirn.lab.rank",
    "schirn.datasets.tables": "schirn.tables.files",
    "schirn.cleaning.changes": "schirn.tables.changes",
    "schirn.cleaning.expect": "schirn.tables.expect",
    "schirn.cleaning.look": "schirn.tables.checks",
    "schirn.cleaning.merges": "schirn.tables.merges",
    **{f"schirn.methods.{name}": f"schirn.lab.rivals.{name}" for name in METHOD_FILES},
}


@pytest.fixture
def fresh(monkeypatch):
    """Forget old names of modules, as in a new process."""
    for name in list(sys.modules):
        if any(f"{name}.".startswith(f"{old}.") for old in MOVED_MODULES):
            monkeypatch.delitem(sys.modules, name)


@contextmanager
def moved(*pairs):
    """Check that each (old, new) pair is announced by a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    messages = [str(warning.message) for warning in caught]
    assert [message.partition(";")[0] for message in messages] == [
        f"{old} has moved to {new}" for old, new in pairs
    ]
    assert {warning.category for warning in caught} == {DeprecationWarning}


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize(("module", "name", "home"), MOVED_NAMES)
def test_a_moved_name_warns_and_is_the_same_object(module, name, home):
    if module in MOVED_MODULES:
        with moved((module, MOVED_MODULES[module])):
            import_module(module)
    with moved((f"{module}.{name}", f"{home}.{name}")):
        value = getattr(import_module(module), name)
    assert value is getattr(import_module(home), name)


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("old", MOVED_MODULES)
def test_a_moved_module_warns_and_is_the_same_module(old):
    new = import_module(MOVED_MODULES[old])
    above = [name for name in MOVED_MODULES if old.startswith(f"{name}.")]
    with moved(*((name, MOVED_MODULES[name]) for name in [*above, old])):
        assert import_module(old) is new
    assert new.__spec__.name == new.__name__


@pytest.mark.usefixtures("fresh")
def test_modules_below_a_moved_package_are_no_second_copies():
    names = ("bench", "bench.running", "bench.running.run")
    with moved(*((f"schirn.{name}", f"schirn.lab.{name}") for name in names)):
        module = import_module("schirn.bench.running.run")
    assert module is import_module("schirn.lab.bench.running.run")


@pytest.mark.usefixtures("fresh")
def test_the_warning_names_the_line_of_the_caller():
    with pytest.warns(DeprecationWarning, match="has moved") as caught:
        import schirn.rank  # noqa: F401
    assert {warning.filename for warning in caught} == {__file__}
    with pytest.warns(DeprecationWarning, match="has moved") as caught:
        from schirn import PMLNI  # noqa: F401
    assert {warning.filename for warning in caught} == {__file__}


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'schirn' has no attribute 'Shirn'"):
        import_module("schirn").Shirn  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        import_module("schirn.benches")


@pytest.mark.parametrize("asked", ["Sieve", "PMLNI"])
def test_only_a_compared_method_loads_the_lab(asked):
    code = (
        f"import sys; from schirn.methods import find_method; find_method({asked!r})\n"
        "print('schirn.lab' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == str(asked == "PMLNI")
    assert find_method(asked).__name__ == asked
