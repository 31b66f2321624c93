"""The log and its derived files as Spark data sources."""
