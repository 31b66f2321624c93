"""A store that is asked, and its messages as the reference reads them."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import reput
from tests import golden_stores
from tests.reference.log import Message
from tests.store_format.query.stores import keys_of, reference_messages

NAMES = ("small_all_4.9.7", "small_all_5.3.3", "small_expired_5.3.3", "small_lmq_batch_5.5.0")


class Asked:
    """A store, and all of its messages as the reference reads them."""

    def __init__(self, name: str, folder: Path) -> None:
        self.path, self.golden = golden_stores.whole(name, folder)
        self.messages = reference_messages(self.golden)
        self.by_place = {each.physical_offset: each for each in self.messages}
        self.by_key: dict[tuple[str, str], list[int]] = defaultdict(list)
        for message in self.messages:
            for key in dict.fromkeys(keys_of(message)):
                self.by_key[message.topic, key].append(message.physical_offset)

    def open(self) -> Any:
        return reput.open_store(str(self.path), rocketmq=self.golden.version)

    def queued(self, topic: str, queue_id: int) -> list[Message]:
        return [
            each for each in self.messages
            if (each.topic, each.queue_id) == (topic, queue_id) and each.transaction in (0, 8)
        ]  # fmt: skip


def places(messages: Any) -> list[int]:
    return [each.physical_offset for each in messages]
