"""A slow, plain reference of what RocketMQ derives from a CommitLog.

Written from the RocketMQ source (each rule names its class) and from golden stores, it shares no
code with `store_format`: two readings of the same rules that must agree on every byte. It is a
literal simulation: one message after the other, each file grown as RocketMQ grows it.
"""

from tests.reference.compare import compare
from tests.reference.derive import Derivation, derive
from tests.reference.log import Message, records

__all__ = ["Derivation", "Message", "compare", "derive", "records"]
