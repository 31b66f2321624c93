"""The remoting protocol of RocketMQ as functions of bytes: no sockets, no clock."""
