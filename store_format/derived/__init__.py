"""The files that RocketMQ derives from its log: how they are made, read, compared and judged."""
