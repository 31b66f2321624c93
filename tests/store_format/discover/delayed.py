"""Stores with messages of a delay level, and what a broker with these levels derives."""

from reput.store_format.discover.delay_levels import SCHEDULE, SETTING
from reput.store_format.release.settings import Settings
from tests.damaged import SETTINGS, START, damaged
from tests.in_process import OUTPUT, STORE, as_text, run, storage_of
from tests.logs.encoder import Message, properties
from tests.memory_storage import MemoryStorage

USUAL = Settings().message_delay_level
GIVEN = as_text(SETTINGS)
DAY = f"{USUAL} 1d"


def delayed(
    levels: str = DAY, level: int = 19, count: int = 9, messages: list[Message] | None = None
) -> MemoryStorage:
    """A store with messages of a level, and the files that a broker with these levels derives."""
    log = damaged(messages or [Message(SCHEDULE, level - 1, n, b"body", store_timestamp=START + n,
        properties=properties(("DELAY", str(level)), ("KEYS", f"k{n}")))
        for n in range(count)])  # fmt: skip
    storage = storage_of(log.log)
    run(STORE, OUTPUT, rocketmq="5.3.3", storage=storage, settings={**GIVEN, SETTING: levels})
    for path in [path for path in storage.files if path.startswith(f"{OUTPUT}/")]:
        storage.files[path.replace(OUTPUT, STORE, 1)] = storage.files.pop(path)
    del storage.files[f"{STORE}/manifest.json"]
    return storage
