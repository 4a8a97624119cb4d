"""Algorithms of the compared methods on arrays; symbols as in the papers."""
