"""The core loads the lab only when asked."""

import subprocess
import sys
from importlib import import_module

import pytest

from schirn.methods import find_method


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
