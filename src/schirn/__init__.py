"""Partial multi-label learning: train on noisy label sets and find the wrong labels."""

__version__ = "0.1.0.dev0"
