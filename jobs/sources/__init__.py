"""The log and its derived files as sources of Spark."""
