"""Export messages to files, Delta tables or a new store, and append exported messages again."""
