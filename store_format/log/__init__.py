"""The CommitLog: its segments, the walk from record to record, and a reader of single records."""
