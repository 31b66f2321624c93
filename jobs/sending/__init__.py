"""Sends messages of a store or an export to a live cluster."""
