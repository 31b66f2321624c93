"""What a group of consumers makes of a store."""
