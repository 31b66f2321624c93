"""What differs between releases of RocketMQ (profiles), and the broker's settings."""
