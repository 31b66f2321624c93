"""RocketMQ's on-disk structures and rules: bytes in, values out.

No Spark, no clock, no global state; only `store_files` and `file_layer` touch files.
"""
