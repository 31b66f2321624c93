"""What becomes of damaged and hostile stores: ours and RocketMQ's answers, counted in tables."""
