"""A set of derived files, from a log to its place."""
