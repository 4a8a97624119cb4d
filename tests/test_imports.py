"""What `import schirn` loads, by module list in a fresh process."""

import subprocess
import sys

import pytest

# Packages that are loaded where they are used, not before.
OPTIONAL = {
    "matplotlib", "pandas", "torch", "cupy", "dask", "distributed", "rich", "jinja2", "pyarrow",
    "openpyxl", "polars", "datasets", "onnx", "onnxruntime", "starlette",
    "uvicorn", "httpx", "scikit_posthocs", "statsmodels", "seaborn",
    "IPython", "ipywidgets", "http", "socketserver", "multiprocessing.pool", "tkinter",
}  # fmt: skip
# Parts of scikit-learn and SciPy that cost tens of milliseconds each.
HEAVY = {
    "sklearn.cluster", "sklearn.datasets", "sklearn.decomposition", "sklearn.ensemble",
    "sklearn.feature_extraction", "sklearn.kernel_approximation", "sklearn.linear_model",
    "sklearn.metrics", "sklearn.model_selection", "sklearn.neighbors", "sklearn.svm",
    "sklearn.tree", "scipy.io", "scipy.signal", "scipy.ndimage",
}  # fmt: skip
OURS = {
    "schirn.lab.bench",
    "schirn.app.cli",
    "schirn.app.report",
    "schirn.app.review",
    "schirn.deep",
}


def loaded(statement):
    """Modules in a fresh process after a statement."""
    code = f"{statement}\nimport sys\nprint(*sys.modules, sep='\\n')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def named(modules, names):
    """The modules that are one of `names` or lie below one."""
    return sorted(
        module for module in modules if any(f"{module}.".startswith(f"{name}.") for name in names)
    )


@pytest.fixture(scope="module")
def added():
    """What the names of `schirn` load beyond scikit-learn's own base."""
    return loaded("from schirn import *") - loaded("import sklearn.base, sklearn.utils.validation")


@pytest.mark.parametrize(
    ("statement", "most"),
    [
        ("import schirn", {"schirn"}),
        ("import schirn.app.cli; schirn.app.cli.main(['--help'])", None),
    ],
)
def test_names_are_imported_when_they_are_used(statement, most):
    modules = loaded(
        f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()): {statement}"
    )
    assert named(modules, {"sklearn", "scipy", *OPTIONAL - {"http"}}) == []
    if most is not None:
        assert {module for module in modules if module.startswith("schirn")} == most
        assert "numpy" not in modules


def test_methods_is_a_function_and_nothing_else():
    """In any order of imports; the estimators are a package of another name."""
    statements = (
        "import schirn.estimators",
        "from schirn.estimators import Sieve",
        "import schirn",
    )
    for statement in statements:
        code = f"{statement}\nimport schirn, pickle\nprint(*schirn.methods(), sep='\\n')"
        code += "\nassert pickle.loads(pickle.dumps(schirn.Sieve)) is schirn.Sieve"
        code += "\nfrom importlib.util import find_spec\nassert find_spec('schirn.methods') is None"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert done.stderr == ""
        assert done.stdout.startswith("Sieve\n")


def test_the_packages_are_attributes_of_the_package():
    code = "import schirn\nprint(schirn.features.TagPipeline.__name__, 'Sieve' in dir(schirn))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("TagPipeline True\n", "")


def test_no_optional_package_is_loaded(added):
    assert named(added, OPTIONAL) == []


def test_no_heavy_part_is_loaded(added):
    assert named(added, HEAVY) == []


def test_the_upper_layers_are_not_loaded(added):
    assert named(added, OURS) == []


def test_only_our_own_modules_are_many(added):
    """A bound on everything else, so that a new heavy import of any name is noticed."""
    others = [module for module in added if not module.startswith("schirn")]
    assert len(others) < 60, sorted(others)


def test_optional_packages_may_be_absent():
    """With every optional package hidden, the library still imports, fits and predicts."""
    hidden = sorted(OPTIONAL - {"http", "socketserver", "multiprocessing.pool"})
    code = f"""
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name in {hidden!r}:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hidden())
import schirn
data = schirn.datasets.make_partial_multilabel(n_samples=60, n_labels=4, r=1)
model = schirn.Sieve().fit(data.X, data.candidates)
assert model.predict(data.X).shape == data.candidates.shape
from schirn.app.cli import main
assert main(["methods"]) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
