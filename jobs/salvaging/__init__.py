"""Search a log for damage, map and judge it, and repair the log."""
