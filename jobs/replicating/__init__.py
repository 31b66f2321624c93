"""Replicate a log from a folder or a master, or serve it as a master to slaves."""
