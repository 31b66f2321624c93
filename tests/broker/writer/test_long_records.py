"""Records longer than a window: recovery and copying hold no more than that of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reput.broker.writer import copies, recovery
from reput.broker.writer.copies import CopyChoice, SourceSegment, copy_messages
from reput.store_format.derived.checkpoint import Checkpoint
from reput.store_format.dispatch.scan import scan_rules
from reput.store_format.faults import Fault
from reput.store_format.files.disk import DiskFiles
from reput.store_format.log import record
from reput.store_format.log.records import RecordRules
from reput.store_format.release.profiles import profile
from reput.store_format.release.settings import settings_from
from tests.broker.writer.stores import open_writer, stored_records
from tests.logs import Message, build_log, properties

SEGMENT = 1 << 15
WINDOW = 1000
BODY = bytes(range(1, 256)) * 20
LONG = Message(body=BODY, topic="L", properties=properties(("KEYS", "k"), ("p", "v" * 600)))
LOG = [Message(topic="S"), LONG, Message(topic="S"), LONG, LONG, Message(topic="S")]


@pytest.fixture(autouse=True)
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "_WINDOW_BYTES", WINDOW)
    monkeypatch.setattr(copies, "_WINDOW_BYTES", WINDOW)
    monkeypatch.setattr(record, "_PIECE_BYTES", WINDOW)


class Measured(DiskFiles):
    """Notes the longest piece that is read."""

    longest = 0

    def open_read(self, path: str) -> Any:
        file = super().open_read(path)
        read_at = file.read_at

        def measured(at: int, buffer: Any) -> None:
            self.longest = max(self.longest, len(buffer))
            read_at(at, buffer)

        file.read_at = measured  # type: ignore[method-assign]
        return file


def found(root: Path, raw: bytes, durable: int | None) -> tuple[recovery.LogEnd, int]:
    """The log's end as recovery finds it, and the longest piece it has read."""
    (root / "commitlog").mkdir(parents=True, exist_ok=True)
    (root / "commitlog" / f"{0:020d}").write_bytes(raw)
    files = Measured(str(root))
    rules = scan_rules(profile("5.3.3"), settings_from({}), ())
    checkpoint = None if durable is None else Checkpoint(durable, durable, 0)
    log = recovery.LogRecovery(files, SEGMENT, rules, checkpoint)
    return log.find_end(), files.longest


@pytest.mark.parametrize("durable", [None, 0])
def test_recovery_holds_no_body(durable: int | None, tmp_path: Path) -> None:
    raw = build_log(LOG, SEGMENT)[0]
    end, longest = found(tmp_path, raw, durable)
    last = _records(tmp_path / "whole", raw)[-1]
    assert (end.fault, end.end) == (Fault.ZEROS, last.physical_offset + last.size)
    assert longest <= WINDOW < len(BODY)


def test_recovery_ends_the_log_at_a_long_record_that_is_wrong(tmp_path: Path) -> None:
    raw = bytearray(build_log(LOG, SEGMENT)[0])
    places = [r.physical_offset for r in _records(tmp_path / "whole", bytes(raw))]
    end_of_last_long = places[5]
    torn, flipped = raw.copy(), raw.copy()
    sector = (end_of_last_long - 400) // 512 * 512
    torn[sector : min(sector + 512, end_of_last_long)] = bytes(
        min(sector + 512, end_of_last_long) - sector
    )
    flipped[places[4] + 3000] ^= 1
    for number, (data, fault) in enumerate(((torn, Fault.LENGTHS), (flipped, Fault.BODY_CRC))):
        end, _ = found(tmp_path / str(number), bytes(data), 0)
        assert (end.end, end.fault) == (places[4], fault)


def _records(root: Path, raw: bytes) -> list[Any]:
    root.mkdir()
    (root / f"{0:020d}").write_bytes(raw)
    return list(stored_records(root))


@pytest.mark.parametrize(("topic", "many"), [("", 6), ("L", 3), ("S", 3)])
def test_long_messages_are_copied_whole(topic: str, many: int, tmp_path: Path) -> None:
    raw = np.frombuffer(build_log(LOG, SEGMENT)[0], np.uint8)
    longest = [0]

    def read(at: int, buffer: Any) -> None:
        longest[0] = max(longest[0], len(buffer))
        buffer[:] = raw[at : at + len(buffer)]

    writer = open_writer(tmp_path, mappedFileSizeCommitLog=SEGMENT)
    source = [SourceSegment(0, SEGMENT, read)]
    copied = copy_messages(writer, source, RecordRules(True, True), CopyChoice(topic))
    writer.close()
    assert (copied.seen, copied.copied, copied.fault) == (6, many, Fault.ZEROS)
    kept = [(m.topic, m.body) for m in LOG if topic in ("", m.topic)]
    assert [(r.topic, r.body) for r in stored_records(tmp_path / "commitlog")] == kept
    assert longest[0] <= (WINDOW if topic == "S" else len(BODY) + 1000)
