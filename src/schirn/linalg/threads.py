"""One BLAS thread for products that are too small for several."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# A product of fewer operations ends before a second thread has started.
_SMALL = 2e7


@contextmanager
def threads_for(operations: float) -> Iterator[None]:
    """Use one thread inside the `with` block if each of its products has few operations."""
    if operations >= _SMALL:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
