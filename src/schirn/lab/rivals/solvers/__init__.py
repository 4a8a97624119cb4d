"""Algorithms of the compared methods on arrays; symbols as in the papers."""

from schirn.lab.rivals.solvers._reuse import fingerprint, reused, shared_work

__all__ = ["fingerprint", "reused", "shared_work"]
