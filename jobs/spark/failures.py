"""What can be wrong with Spark itself; a light module, for whoever says how a command ends."""


class SparkFailed(Exception):
    """A query failed for good, or a session did; the message says why in words."""


class NoSparkError(Exception):
    """PySpark is not installed; the message says what brings it."""
