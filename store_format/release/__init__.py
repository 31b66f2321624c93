"""What a release of RocketMQ and its settings decide."""
