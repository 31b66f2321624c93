"""Which messages are wanted: by tags, by RocketMQ's SQL92 dialect, by a regular expression."""
