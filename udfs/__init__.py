"""What runs in Spark's tasks: functions for `mapInArrow`, one module for each stage of a job.

They read and write files by `store_format` and hand rows to each other through Spark. `append`
alone is no task: it turns Arrow tables into messages for the writer.
"""
