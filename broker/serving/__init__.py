"""What a request of the remoting protocol means, answered from a store: no sockets, no clock."""
