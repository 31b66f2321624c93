"""RocketMQ itself as the judge of what reput rebuilds (see README.md beside this)."""
