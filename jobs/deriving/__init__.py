"""Derive a set of files from a log and publish it."""
