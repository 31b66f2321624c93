"""A gRPC consumer, simple or push; programs.py has its words and what it prints."""

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from rocketmq import (
    ClientConfiguration,
    ConsumeResult,
    Credentials,
    FilterExpression,
    Message,
    MessageListener,
    PushConsumer,
    SimpleConsumer,
)
from rocketmq.grpc_protocol import FilterType
from rocketmq.v5.exception import ClientException

ENDPOINT, MODE, GROUP, TOPIC, KIND, EXPRESSION, WANTED, MILLISECONDS, KEPT = sys.argv[1:]


class Listener(MessageListener):
    """Prints what comes."""

    def __init__(self) -> None:
        self.left = int(WANTED)
        self.end = time.monotonic() + int(MILLISECONDS) / 1000
        self.lock = threading.Lock()

    def is_done(self) -> bool:
        return self.left <= 0 or time.monotonic() > self.end

    def took(self, message: Message) -> bool:
        """Whether a message is to be acknowledged."""
        keys = sorted(message.keys)
        with self.lock:
            print(message.delivery_attempt, message.message_id, ",".join(keys), message.body.hex())
            self.left -= 1
        return message.delivery_attempt > 2 or not any(key.endswith(KEPT) for key in keys)

    def consume(self, message: Message) -> ConsumeResult:
        return ConsumeResult.SUCCESS if self.took(message) else ConsumeResult.FAILURE


def patiently(call: Callable[..., Any], *words: object) -> Any:
    """A call's result; it is made again where the Proxy is busy, or has no settings of it yet."""
    for _ in range(5):
        try:
            return call(*words)
        except ClientException as error:
            print(error, file=sys.stderr)
            time.sleep(0.5)
    return None


def main() -> None:
    config = ClientConfiguration(ENDPOINT, Credentials(), request_timeout=20)
    kind = FilterType.SQL if KIND == "sql" else FilterType.TAG
    wanted = {TOPIC: FilterExpression(EXPRESSION, kind)}
    listener = Listener()
    if MODE == "simple":
        consumer = SimpleConsumer(config, GROUP, wanted, await_duration=2)
        consumer.startup()
        # long enough for a busy machine, where nothing is to come again
        invisible = 60 if KEPT == "-" else 15
        while not listener.is_done():
            for message in patiently(consumer.receive, 32, invisible) or ():
                if listener.took(message):
                    patiently(consumer.ack, message)
    else:
        PushConsumer(config, GROUP, listener, wanted).startup()
        while not listener.is_done():
            time.sleep(0.02)
        time.sleep(1)  # for what it is given beyond, and for acknowledgements
    sys.stdout.flush()
    os._exit(0)  # its threads would go on


main()
