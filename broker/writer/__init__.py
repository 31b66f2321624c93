"""Appends to a store as the broker does; callers use `CommitLogWriter` of `writer.py`.

The caller gives a writer its clock and its `Files`: nothing here reads the time by itself.
"""
