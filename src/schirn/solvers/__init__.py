"""Solvers: arrays in, a small result tuple out; symbols as in the papers."""
