"""What brokers from 5.1.4 on keep in RocksDB: queues, an index, config. Keys, values, readers."""
