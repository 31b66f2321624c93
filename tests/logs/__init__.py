"""Logs for tests: a plain encoder of CommitLog records, and strategies that draw whole logs.

Standard library, hypothesis and the reference only: independent of `store_format`.
"""

from tests.logs.encoder import Message, build_log, encode, key_with_hash, properties
from tests.logs.strategies import Log, logs

__all__ = ["Log", "Message", "build_log", "encode", "key_with_hash", "logs", "properties"]
