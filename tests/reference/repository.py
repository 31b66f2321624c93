"""A backup repository, written by the words of docs/formats/repository.md alone: slow, and nothing
of the product is used.
"""

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

FORMAT = "reput-repository-1"
_BLANK = -875286124  # CommitLog.BLANK_MAGIC_CODE
_FRAME = 1 << 20


def packed(plain: bytes) -> bytes:
    """zstd frames of 1 MiB, their CRC-32s, and the seek table."""
    parts = [plain[at : at + _FRAME] for at in range(0, len(plain), _FRAME)]
    frames = [pa.compress(part, "zstd", asbytes=True) for part in parts]
    sums = b"".join(struct.pack("<I", zlib.crc32(part)) for part in parts)
    table = b"".join(
        struct.pack("<II", len(a), len(b)) for a, b in zip(frames, parts, strict=True)
    ) + struct.pack("<IBI", len(parts), 0, 0x8F92EAB1)
    return b"".join(frames) + b"".join(struct.pack("<II", magic, len(raw)) + raw
        for magic, raw in ((0x184D2A50, sums), (0x184D2A5E, table)))  # fmt: skip


def records(log: bytes, start: int, segment_bytes: int) -> list[tuple[int, int, int]]:
    """(physical offset, bytes, storeTimestamp or -1 of a BLANK) of what the log has."""
    found, at = [], 0
    while at + 8 <= len(log):
        size, magic = struct.unpack_from(">ii", log, at)
        if size == 0:
            break
        if magic == _BLANK:
            left = segment_bytes - (start + at) % segment_bytes
            found.append((start + at, left, -1))
            at += left
            continue
        flags = struct.unpack_from(">i", log, at + 36)[0]
        time = struct.unpack_from(">q", log, at + (68 if flags & 16 else 56))[0]
        found.append((start + at, size, time))
        at += size
    return found


class Repository:
    """A repository of one store, to which runs are added.

    root: its folder. segment_bytes: of the store; piece: most bytes of one.
    """

    def __init__(
        self, root: Path, store: str = "broker-a", segment_bytes: int = 2048, piece: int = 1500,
        rocketmq: str = "5.3.3", settings: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.root, self.folder, self.store = root, root / store, store
        self.segment_bytes, self.piece, self.rocketmq = segment_bytes, piece, rocketmq
        given = {"mappedFileSizeCommitLog": segment_bytes} | dict(settings or {})
        self.settings = {name: str(value) for name, value in given.items()}
        self.runs: dict[int, dict[str, Any]] = {}
        for name in ("runs", "log", "state", "checks"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (root / "reput-repository.json").write_text(json.dumps({"format": FORMAT}) + "\n")

    def run(
        self, log: bytes, at: int, first: int = 0, begin: int | None = None,
        state: Mapping[str, bytes] | None = None, parent: int | None = None, **more: Any,
    ) -> int:  # fmt: skip
        """Add a run of a store whose log is `log` from physical offset `first` on.

        at: when, milliseconds. begin: where its own pieces begin, by default where its parent, the
        run before, ends; state: content by path. Returns its number.
        """
        number = len(list((self.folder / "runs").iterdir())) + 1
        if parent is None and self.runs:
            parent = max(self.runs)
        if begin is None:
            begin = first if parent is None else self.runs[parent]["end"]
        there = [each for each in records(log, first, self.segment_bytes) if each[0] >= begin]
        pieces: list[dict[str, Any]] = []
        held: list[tuple[int, int, int]] = []
        for each in [*there, None]:
            long = held and (each is None or each[0] + each[1] - held[0][0] > self.piece)
            if long:
                pieces.append(self._piece(log, first, held))
                held = []
            if each is not None:
                held.append(each)
        end = pieces[-1]["offset"] + pieces[-1]["length"] if pieces else begin
        last = None
        for place, size, time in there[-1:]:
            raw = log[place - first : place - first + size]
            last = {"offset": place, "sha256": _sha(raw), "storeTimestamp": max(time, 0)}
        run = {"format": FORMAT, "run": number, "parent": parent, "kind": "backup", "started": at,
            "ended": at, "reput": "0", "rocketmq": self.rocketmq, "settings": self.settings,
            "first": self.runs[parent]["first"] if parent else first, "from": begin, "end": end,
            "last": last, "pieces": pieces, "gap": None, "branch": None,
            "state": [self._state(path, raw) for path, raw in (state or {}).items()],
            **more}  # fmt: skip
        self.runs[number] = run
        self.write(number)
        return number

    def write(self, number: int) -> None:
        """A run's file, as `runs` has it."""
        text = json.dumps(self.runs[number]) + "\n"
        (self.folder / "runs" / f"{number:08d}.json").write_text(text)

    def _piece(self, log: bytes, first: int, held: list[tuple[int, int, int]]) -> dict[str, Any]:
        offset, length = held[0][0], sum(size for _, size, _ in held)
        plain = log[offset - first : offset - first + length].ljust(length, b"\0")
        stored, times = packed(plain), [time for _, _, time in held if time >= 0] or [0]
        name = f"{offset:020d}-{length}-{_sha(plain)[:16]}.zst"
        (self.folder / "log" / name).write_bytes(stored)
        return {"offset": offset, "length": length, "sha256": _sha(plain), "stored": len(stored),
                "records": len([1 for each in held if each[2] >= 0]),
                "times": [min(times), max(times)], "damaged": []}  # fmt: skip

    def _state(self, path: str, raw: bytes) -> dict[str, Any]:
        (self.folder / "state" / f"{_sha(raw)}.zst").write_bytes(packed(raw))
        return {"path": path, "sha256": _sha(raw), "length": len(raw), "mode": 0o600}


def _sha(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
