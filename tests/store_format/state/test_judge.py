"""What `check` says of a store's state beside its queues."""

from reput.store_format.state.judge import unknown_files
from tests.memory_storage import MemoryStorage

_STORE = ("abort", "abort.bak", "checkpoint", "lock", "timerwheel", "reput-cut/x", "manifest.json",
          "config/topics.json", "config/timercheck", "config/topics/CURRENT", "kvStore/LOCK",
          "compaction/compactionLog/T/0/00000000000000000000", "compaction/position-checkpoint",
          "commitlog/lost+found/x", "consumequeue/whatever", "index/20231114221320123",
          "timerlog/00000000000000000000")  # fmt: skip
_OF_OTHERS = ("notes.txt", "liteStore/CURRENT", "config/future.json", "config/backups/topics.json",
              "timerlog/old/00000000000000000000", "kvStore/x.txt")  # fmt: skip


def test_what_the_table_lacks_is_named_and_nothing_else() -> None:
    files = {f"store/{name}": b"" for name in (*_STORE, *_OF_OTHERS)}
    assert unknown_files(MemoryStorage(files), "store") == [
        "config/backups/", "config/future.json", "kvStore/x.txt", "liteStore/", "notes.txt",
        "timerlog/old/",
    ]  # fmt: skip
    assert unknown_files(MemoryStorage({"store/commitlog/x": b""}), "store") == []
