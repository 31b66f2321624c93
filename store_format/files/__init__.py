"""The local disk: the operations that a crash may undo, locks, and atomic replacement."""
