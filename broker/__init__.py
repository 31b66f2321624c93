"""What a RocketMQ broker does: appends, dispatches, serves, replicates, expires."""
