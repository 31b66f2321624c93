"""Exports: files, Delta tables, a store of chosen messages; appended again."""
