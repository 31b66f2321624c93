"""What became of messages: transactions, delayed ones and timers, one message's life."""
