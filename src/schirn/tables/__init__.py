"""Read tables and write them back exactly; lists of changes, merges, checks and expectations."""
