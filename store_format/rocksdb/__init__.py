"""Brokers' RocksDBs, from 5.1.4 on: keys, values and readers of queues, index and config."""
