"""The local disk: the few operations that can fail or be lost, locks, and the atomic exchange."""
