"""Compare methods: a grid of cells, one row each, in files that survive anything."""
