"""What runs in Spark's tasks: functions for `mapInArrow`, one module for each stage of a job.

They read and write files by `store_format` and hand rows to each other through Spark. Two modules
run in no task: `message_rows` turns Arrow rows into messages and appends them by the writer, and
`stored_messages` turns messages that were found into an Arrow table.
"""
