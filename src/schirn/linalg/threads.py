"""Threads of the linear algebra library, kept away from products that are too small for them."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

# Below about this many operations a product is over before a second thread has woken up.
_SMALL = 2e7


@contextmanager
def threads_for(operations: float) -> Iterator[None]:
    """Use one thread if each product in the block has few operations, else leave them alone."""
    if operations >= _SMALL:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()
