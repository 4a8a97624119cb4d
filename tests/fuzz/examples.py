"""Files that once crashed a reader."""

CRASHES: list = []
