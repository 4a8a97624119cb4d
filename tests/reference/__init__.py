"""Slow, plain transcriptions of the published formulas, for comparison only."""
