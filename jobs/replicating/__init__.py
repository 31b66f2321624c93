"""Replicas: from a folder, from a master, and as a master for slaves."""
