"""A store written anew: measured, placed, written, and its configuration carried over."""
