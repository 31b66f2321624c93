"""Tasks of a rebuild."""
