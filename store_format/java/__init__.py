"""Java's strings, hash codes and order of maps, on which RocketMQ's bytes depend."""
