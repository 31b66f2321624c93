"""Java's strings, hash codes and map order, on which RocketMQ's bytes depend."""
