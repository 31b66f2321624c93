"""What runs in Spark's tasks: functions for `mapInArrow`, a class for each stage of a job.

They read and write files by `store_format` and hand rows to each other through Spark. Two things
run in no task: table/message_rows.py turns Arrow rows into messages and appends them by the writer,
and `messages_table` of table/columns.py turns messages that were found into an Arrow table.
"""
