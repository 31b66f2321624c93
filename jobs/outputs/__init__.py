"""The output of a job: where it may write, its staging, publishing, and the manifest of a set."""
