"""From the log to what is derived: which queue and which keys a message goes to, and where."""
