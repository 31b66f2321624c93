"""A store's state beside its queues: judged, derived from the log, and kept."""
