"""What a job writes: where it may, staging, publishing, the manifest of a set."""
