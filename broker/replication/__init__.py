"""RocketMQ's replication protocol as functions of bytes: no sockets, no clock (as in h11)."""
