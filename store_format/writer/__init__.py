"""Appends to a store as the broker does: `CommitLogWriter` in `writer.py` is the way in.

Given its clock and its files: nothing here reads the time or opens a file by itself.
"""
