"""What RocketMQ derives from its log, read back: queues, index files, and where they end."""
