"""What a store says of itself: sizes, release, settings."""
