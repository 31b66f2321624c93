"""Each command that makes or changes a store, how it is run here, and what then is to come."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.processes import run_words
from tests.rocketmq.whole.ledger import Expected
from tests.rocketmq.whole.life import LMQ, READERS, Made, copied

ROOT = Path(__file__).parents[3]
_DAYS = 10 * 24 * 3600
_TOPICS = (
    "Plain", "Timers", "Delayed", "Half", "Failed", "Popped", "PoppedInOrder", "Batch", "Compacted",
)  # fmt: skip


class CommandFailed(AssertionError):
    """A command ended otherwise than with 0; what it said."""


class Refused(CommandFailed):
    """A command ended with 1 or 2 before it did anything: it does not do what is not right yet."""


@dataclass
class Served:
    """A store that a command has made, for a broker to start on."""

    store: Path
    expected: Expected
    settings: dict[str, Any]
    version: str
    said: str = ""
    ended_with: int = 0  # a command's exit code


@dataclass
class Ways:
    """A life's stores, and a folder for what a command makes of one of them."""

    made: Made
    folder: Path
    other: Callable[[], Made]  # a second store, of the same topics and groups
    kill_after: float | None = None  # seconds: the command is killed then, and run once more
    said: str = ""
    ended_with: int = 0

    def copy(self, name: str = "store") -> Path:
        return copied(Path(getattr(self.made, name)), self.folder / "copy")

    def reput(
        self, *words: object, told: list[str] | None = None, leaves: Path | None = None
    ) -> None:
        """Runs a command. Raises CommandFailed where it ends with anything but 0, unless that is 1
        and what it `leaves` is there: then consumers say what is wrong with it, too."""
        told = self.made.words if told is None else told
        command = [sys.executable, "-m", "reput", *map(str, words), *told]
        ended = _ended_within(command, self.kill_after) if self.kill_after else None
        done = ended or run_words(*command, cwd=ROOT)
        self.said += f"$ reput {' '.join(map(str, words))}\n{done.stdout}{done.stderr}"
        if done.returncode == 1 and leaves is not None and leaves.exists():
            self.ended_with = 1
        elif done.returncode:
            kind = Refused if done.returncode in (1, 2) else CommandFailed
            raise kind(f"exit code {done.returncode}\n{self.said[-3000:]}")

    def served(self, store: Path, expected: Expected | None = None, **settings: Any) -> Served:
        expected = Expected.of(self.made) if expected is None else expected
        given = {**self.made.settings, **settings}
        told = {"said": self.said, "ended_with": self.ended_with}
        return Served(store, expected, given, self.made.version, **told)

    def anew(self, store: Path, expected: Expected | None = None, **settings: Any) -> Served:
        """A store that was written anew: its queues are in files, whatever those of the old one."""
        in_files = {"storeType": "default"} if self.made.queues == "rocksdb" else {}
        return self.served(store, expected, **settings, **in_files)


def _ended_within(command: list[str], seconds: float) -> subprocess.CompletedProcess[str] | None:
    """What a command ended with; None after so many seconds, and a kill -9 of all its processes."""
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    ) as going:  # fmt: skip
        try:
            said = going.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(going.pid, 9)
            return None
    return subprocess.CompletedProcess(command, going.returncode, *said)


# --- the commands: each takes a life and gives the store that a broker is to start on


def move(ways: Ways, *words: str) -> Served:
    """docs/convert.md: these are copied, the rest is derived and installed."""
    store, old = ways.folder / "moved", Path(ways.made.store)
    for name in ("commitlog", "config", "kvStore"):
        if (old / name).exists():
            shutil.copytree(old / name, store / name)
    ways.reput("rebuild", store, "--output", ways.folder / "set", *words)
    ways.reput("install", ways.folder / "set", store, "--yes", told=[])
    return ways.served(store)


def move_other_engine(ways: Ways) -> Served:
    """Queues in files become queues in RocksDB, which has no place for batch queues; and back."""
    in_files = ways.made.queues == "files"
    served = move(ways, "--queues", "rocksdb" if in_files else "files")
    served.settings["storeType"] = "defaultRocksDB" if in_files else "default"
    return served


def repair(ways: Ways) -> Served:
    ways.reput("repair", ways.copy(), "--output", ways.folder / "repaired")
    return ways.served(ways.folder / "repaired")


def recover(ways: Ways) -> Served:
    store = ways.copy("killed")
    ways.reput("recover", store, "--yes")
    return ways.served(store)


def catch_up(ways: Ways) -> Served:
    """Queues and index are those of an earlier moment."""
    store, early = ways.copy(), Path(ways.made.early)
    for name in ("consumequeue", "batchconsumequeue", "index", "checkpoint"):
        path = store / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        if (early / name).is_dir():
            shutil.copytree(early / name, path)
        elif (early / name).exists():
            shutil.copy(early / name, path)
    ways.reput("catch-up", store, "--yes")
    return ways.served(store)


def expire(ways: Ways) -> Served:
    """Segments are ten days old; the groups of topic Plain, which comes first, do not count."""
    store = ways.copy()
    for path in store.rglob("*"):
        if path.is_file():
            os.utime(path, (time.time() - _DAYS,) * 2)
    before, expected = len(list((store / "commitlog").iterdir())), Expected.of(ways.made)
    ignored = [word for each in expected.readers if each.topic == "Plain"
               for word in ("--ignore-group", each.group)]  # fmt: skip
    ways.reput("expire", store, "--any-hour", "--yes", *ignored)
    assert len(list((store / "commitlog").iterdir())) < before, ways.said
    expected.readers = [each for each in expected.readers if each.topic != "Plain"]
    return ways.served(store, expected)


def convert(ways: Ways) -> Served:
    sizes = {"mappedFileSizeCommitLog": 40_000, "mappedFileSizeConsumeQueue": 1000}
    given = [word for name, size in sizes.items() for word in ("--to-set", f"{name}={size}")]
    ways.reput("convert", ways.copy(), "--output", ways.folder / "new", *given)
    return ways.anew(ways.folder / "new", **sizes)


def _chosen(ways: Ways, topics: set[str], option: str = "--topic") -> Served:
    """Of some topics, or without them, timers, half messages, what is popped and retried too."""
    expected = Expected.of(ways.made)
    of = {f"%RETRY%{READERS['retry'][0].group}": "Failed", LMQ: "Behind"}
    of[READERS["retry"][1].topic] = "Failed"
    topics &= {of.get(r.topic, r.topic) for r in expected.readers}  # else it would be refused
    words = [word for each in sorted(topics) for word in (option, each)]
    ways.reput("convert", ways.copy(), "--output", ways.folder / "new", *words)
    topics = topics if option == "--topic" else {*_TOPICS, "Behind"} - topics
    for reader in expected.readers:
        if of.get(reader.topic, reader.topic) not in topics:
            expected.keys[str(reader)] = Counter()
            if reader.topic == "Half":
                expected.pending = 0
    return ways.anew(ways.folder / "new", expected)


def convert_rename(ways: Ways) -> Served:
    renamed = {name: f"{name}2" for name in _TOPICS}
    has = {reader.topic for reader in Expected.of(ways.made).readers}
    words = [word for old, new in renamed.items() if old in has | {"Failed"}
             for word in ("--rename", f"{old}={new}")]  # fmt: skip
    ways.reput("convert", ways.copy(), "--output", ways.folder / "new", *words)
    expected = Expected.of(ways.made)
    keys = [expected.keys[str(each)] for each in expected.readers]
    expected.readers = [each._replace(topic=renamed.get(each.topic, each.topic))
                        for each in expected.readers]  # fmt: skip
    expected.keys = dict(zip(map(str, expected.readers), keys, strict=True))
    return ways.anew(ways.folder / "new", expected)


def merge_renumber(ways: Ways) -> Served:
    """A group part way in both goes on where it loses nothing."""
    served = _merged(ways, "renumber", 1)
    in_turn = {str(each) for each in served.expected.readers if each.kind != "pop"}
    served.expected.may_repeat |= in_turn
    return served


def _merged(ways: Ways, meet: str, times: int) -> Served:
    mine, other = ways.made, ways.other()
    new = ways.folder / "new"
    merged = ("--merge", copied(Path(other.store), ways.folder / "second"), "--meet", meet)
    ways.reput("convert", ways.copy(), "--output", new, *merged, leaves=new)
    one, two = Expected.of(mine), Expected.of(other)
    # An LMQ has one queue, which a group reads from the first message on that it lacks.
    lmq = frozenset(str(each) for each in one.readers if each.topic == LMQ)
    readers = [each._replace(queues=each.queues * (1 if str(each) in lmq else times))
               for each in one.readers]  # fmt: skip
    keys = {str(each): one.keys[str(each)] + two.keys[str(each)] for each in readers}
    last_due = max(one.last_due, two.last_due)
    due, pending = one.due | two.due, one.pending + two.pending
    expected = Expected(readers, keys, due, last_due, pending, one.may_repeat | lmq)
    return ways.anew(ways.folder / "new", expected)


def replicate(ways: Ways) -> Served:
    ways.reput("replicate", ways.copy(), ways.folder / "replica", "--yes")
    return ways.served(ways.folder / "replica")


def back_up(ways: Ways, *words: object) -> Served:
    """A backup and a restore, which knows release and settings by itself."""
    ways.reput("backup", ways.copy(), ways.folder / "repository")
    restored = ("--output", ways.folder / "restored")
    ways.reput("restore", ways.folder / "repository", *restored, *words, told=[])
    return ways.served(ways.folder / "restored")


def back_up_cut(ways: Ways) -> Served:
    """Restored to a moment shortly before the end; a group has read what is after it."""
    served = back_up(ways, "--to-offset", ways.made.cut)
    for reader, keys in ways.made.tail.items():
        served.expected.keys[reader] = served.expected.keys[reader] - Counter(keys)
    return served


def export(ways: Ways) -> Served:
    """A broker's own topics tell what waits, by positions that a store of messages has not."""
    words = ["--as", "rocketmq", "--system-topics"]
    ways.reput("export", ways.copy(), "--output", ways.folder / "exported", *words)
    return ways.anew(ways.folder / "exported")


def export_messages(ways: Ways) -> Served:
    """Some topics' messages, which each group reads from the first on."""
    words = ["--as", "rocketmq", "--topic", "Plain"]
    ways.reput("export", ways.copy(), "--output", ways.folder / "exported", *words)
    expected = Expected.of(ways.made)
    every = expected.keys[str(READERS["plain"][0])]
    expected.readers = [each for each in expected.readers if each.topic == "Plain"]
    expected.keys = {str(reader): Counter(every) for reader in expected.readers}
    expected.pending = 0
    return ways.anew(ways.folder / "exported", expected)


def append(ways: Ways) -> Served:
    """Three messages join topic Plain: its groups get them, too."""
    store, lines, keys = ways.copy(), ways.folder / "more.jsonl", ["more0", "more1", "more2"]
    rows = [{"topic": "Plain", "queue_id": 0, "body": "more", "keys": [key]} for key in keys]
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    ways.reput("append", store, "--from", lines, "--yes")
    expected = Expected.of(ways.made)
    for reader in (each for each in expected.readers if each.topic == "Plain"):
        expected.keys[str(reader)] = expected.keys[str(reader)] + Counter(keys)
    return ways.served(store, expected)


def deliver_delayed(ways: Ways) -> Served:
    """All that is due in the life is delivered, before its time; a broker does not do so again."""
    store, expected = ways.copy(), Expected.of(ways.made)
    ways.reput("deliver-delayed", store, "--until", int(expected.last_due * 1000) + 1000, "--yes")
    expected.due = {}
    return ways.served(store, expected)


def resolve_transactions(ways: Ways) -> Served:
    """What is pending is committed; a broker asks about none of it again."""
    store, expected = ways.copy(), Expected.of(ways.made)
    ways.reput("resolve-transactions", store, "--decide", "commit", "--yes")
    return ways.served(store, expected)


@dataclass(frozen=True)
class Case:
    run: Callable[[Ways], Served]
    needs: frozenset[str] = frozenset()
    killed: bool = False  # whether it is run with a kill on its way, too
    small: bool = False
    # The engine of queues with which it must be refused, with a reason; or both.
    refused: str = ""

    def is_refused(self, queues: str) -> bool:
        return self.refused in (queues, "both")


def _case(run: Callable[[Ways], Served], *needs: str, **more: Any) -> Case:
    return Case(run, frozenset(needs), **more)


# Pop's rows in RocksDB do not tell the names that their check points in the log would have.
_BY_NAME = "rocksdb"
CASES: dict[str, Case] = {
    "untouched": _case(lambda ways: ways.served(ways.copy()), small=True),
    # RocketMQ's own recovery
    "untouched-killed": _case(lambda ways: ways.served(ways.copy("killed"))),
    "move": _case(move, killed=True, small=True),
    "move-other-engine": _case(move_other_engine, "rocksdb", refused="files"),
    "repair": _case(repair, killed=True), "recover": _case(recover, killed=True, refused="rocksdb"),
    "catch-up": _case(catch_up, killed=True, refused="rocksdb"),
    "expire": _case(expire, killed=True), "convert": _case(convert, killed=True, refused=_BY_NAME),
    "convert-topics": _case(lambda ways: _chosen(ways, {"Timers", "Half", "Failed", "Popped"}),
                            refused=_BY_NAME),
    "convert-lmq": _case(lambda ways: _chosen(ways, {"Behind"}), "lmq"),  # has an LMQ queue, too
    "convert-drop": _case(lambda ways: _chosen(ways, {"Plain", "PoppedInOrder", "Delayed"},
                                               "--drop"), refused=_BY_NAME),
    "convert-rename": _case(convert_rename, refused=_BY_NAME),
    "merge-apart": _case(lambda ways: _merged(ways, "apart", 2), refused=_BY_NAME),
    "merge-renumber": _case(merge_renumber, refused=_BY_NAME),
    "replicate": _case(replicate, killed=True, refused="rocksdb"),
    "back-up": _case(back_up, killed=True), "back-up-cut": _case(back_up_cut, small=True),
    "export": _case(export, refused="both"),
    "export-messages": _case(export_messages, refused="rocksdb"),
    "append": _case(append, killed=True, refused="rocksdb"),
    "deliver-delayed": _case(deliver_delayed, killed=True, refused="rocksdb"),
    "resolve-transactions": _case(resolve_transactions, killed=True, refused="rocksdb"),
}  # fmt: skip
