"""What a broker keeps of its work beside queues and index: what of it the log decides."""
