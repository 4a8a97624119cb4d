"""Benchmarks. Most print ratios measured in one run, because machines differ and are noisy."""
