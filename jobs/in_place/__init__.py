"""Change a store in place: recover, catch-up, expire, services, install."""
