"""Derives a set of files from a log and publishes it."""
