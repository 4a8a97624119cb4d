"""Small data for every test."""

import os
import signal
import sys
from importlib.util import find_spec

import pytest

from schirn.datasets import load, make_partial_multilabel


@pytest.fixture(scope="session")
def small():
    """200 rows, 12 features, 6 labels, one wrong candidate per row."""
    return make_partial_multilabel(
        n_samples=200, n_features=12, n_labels=6, cardinality=2.0, r=1, random_state=0
    )


@pytest.fixture(scope="session")
def real():
    """Load a real data set by name, or skip where the folder is absent."""

    def get(name):
        if not os.environ.get("SCHIRN_DATA"):
            pytest.skip("SCHIRN_DATA is not set: the real data sets are not here")
        return load(name)

    return get


def pytest_collection_modifyitems(items):
    """Skip the tests of methods that need PyTorch to be fitted where it is not installed."""
    if find_spec("torch") is not None:
        return
    absent = pytest.mark.skip(reason="PyTorch (the extra deep) is not installed")
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        if any(_is_plain(value) for value in parameters):
            item.add_marker(absent)


def _is_plain(value):
    """Whether a parameter of a test is PLAIN: its name, its class or a model."""
    cls = value if isinstance(value, type) else type(value)
    return "PLAIN" in (cls.__name__, value if isinstance(value, str) else "")


def pytest_configure():
    # A shell starts background jobs with Ctrl-C ignored, and programs under test inherit that.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def one_thread_of_torch():
    """Small networks are faster on one thread, above all where other programs run."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
