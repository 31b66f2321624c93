"""The CommitLog: the walk through its records, and what reads them one by one."""
