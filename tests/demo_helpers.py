"""The demo without its search for parameters."""

import pytest

from schirn.app import demo
from schirn.app.demo import run_demo


def quick_demo(**options):
    """Run the demo with one choice of parameters."""
    single = {
        method: {name: values[:1] for name, values in grid.items()}
        for method, grid in demo._GRIDS.items()
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_GRIDS", single)
        return run_demo(**options)
