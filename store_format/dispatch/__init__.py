"""From the log to entries: which queues and index keys a message gets, and its queue positions."""
