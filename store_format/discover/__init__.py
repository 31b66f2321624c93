"""What a store shows of itself: sizes, release, settings."""
