"""`python -m tests.rocketmq.fixtures` (`make fixtures`): the small stores of tests/golden.

Each is a few kilobytes: a log that RocketMQ wrote, and what RocketMQ derived from it. All but the
index files' names follows from a kind and a version, and those are made to: so that the same
archives come out again, and `--check` can compare them with the SHA256SUMS beside them."""

import argparse
import hashlib
import json
import random
import shutil
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from tests.golden_stores import ARCHIVES, SUFFIX
from tests.rocketmq import edits
from tests.rocketmq.build import VERSIONS
from tests.rocketmq.case import NO_DELIVERY, Case, make
from tests.rocketmq.driver import Driver, derive_mode
from tests.rocketmq.edits import BLANK, Log
from tests.rocketmq.judge import copy
from tests.rocketmq.workload import Shape, Workload
from tests.unpacking import pack

PREFIX = "small_"
SETTINGS: dict[str, Any] = {"mappedFileSizeCommitLog": 8192, "mappedFileSizeConsumeQueue": 100,
                            "maxHashSlotNum": 7, "maxIndexNum": 20}  # fmt: skip
_TIMES = [edits.times]
_ODD = [*_TIMES, edits.queue_offsets, edits.properties, edits.negative_lengths, edits.system_flags]


def _record_crcs(_: random.Random, log: Log) -> None:
    """`__CRC32#`, a record's last 20 bytes, once more: the times in it were changed."""
    for record in log.records():
        whole = log.bytes_of(record, (record.at, record.at + record.size - 20))
        digits = f"{zlib.crc32(whole) & 0x7FFFFFFF:010d}"[::-1].encode()
        end = record.at + record.size - 1
        log.replace(record, (end - 10, end), digits)


# What there is of each kind: its versions, and what makes the case from a version.
KINDS: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "all": (VERSIONS, {}), "odd": (("4.9.7", "5.5.0"), {"edits": _ODD}),
    "expired": (("5.3.3",), {"edits": [*_TIMES, edits.first_offsets], "expired": True}),
    "crc": (
        ("5.4.0",),
        {
            "put": {"enabledAppendPropCRC": True}, "settings": {"forceVerifyPropCRC": True},
            "edits": [*_TIMES, _record_crcs],
        },
    ),
    "lmq_batch": (
        ("5.5.0",),
        {
            "settings": {"enableMultiDispatch": True, "enableLmq": True},
            "shape": {"lmq": True, "batch_topics": ["BatchTopic"]},
        },
    ),
}  # fmt: skip


def _case(kind: str, version: str) -> Case:
    given = KINDS[kind][1]
    numbers = tuple(map(int, version.split(".")))
    topics = ["Topic0", "订单"] + (["M" * 200] if numbers >= (5, 1, 0) else [])
    shape = Shape(
        version=numbers,  # type: ignore[arg-type]
        messages=40,
        topics=topics,
        queues=2,
        biggest=400,
        **given.get("shape", {}),
    )
    seed = sorted(KINDS).index(kind)
    return Case(
        seed=seed, version=version, settings=SETTINGS | given.get("settings", {}),
        put_settings={
            "messageIndexEnable": False, "messageDelayLevel": NO_DELIVERY,
            "mappedFileSizeCommitLog": SETTINGS["mappedFileSizeCommitLog"], **given.get("put", {}),
        },
        messages=Workload(seed, shape).messages(),
        topic_attributes={t: {"queue.type": "BatchCQ"} for t in shape.batch_topics},
        edits=given.get("edits", _TIMES), expired=given.get("expired", False),
        mode=derive_mode(version),
    )  # fmt: skip


def make_fixture(kind: str, version: str, folder: Path) -> Path:
    """One archive in `folder`, by the RocketMQ of that version."""
    case, name = _case(kind, version), f"{PREFIX}{kind}_{version}"
    root = folder / name
    with Driver(version) as driver:
        make(case, root / "input", driver)
        for path in (root / "input").iterdir():
            if path.name not in ("commitlog", "config"):
                shutil.rmtree(path)
        if version == "4.1.0":
            _fill_blanks(root / "input" / "commitlog")
        theirs = folder / "theirs"
        copy(root / "input", theirs)
        driver.derive(theirs, case.settings, case.topic_attributes, case.mode, pace=case.pace)
    for part in ("consumequeue", "batchconsumequeue"):
        if (theirs / part).is_dir():
            (theirs / part).rename(_made(root / "expect") / part)
    for number, path in enumerate(sorted((theirs / "index").iterdir())):
        path.rename(_made(root / "expect" / "index") / f"20260101000000{number:03d}")
    shutil.rmtree(theirs)
    changed = [edit.__name__.lstrip("_") for edit in case.edits]
    about = {"rocketmq": version, "sizes": case.settings, "changed": changed}
    (root / "golden.json").write_text(json.dumps(about, indent=1) + "\n")
    archive = folder / (name + SUFFIX)
    pack(archive, [(root, name)])
    shutil.rmtree(root)
    return archive


def _fill_blanks(commitlog: Path) -> None:
    """In 4.1.0 a BLANK's eight bytes are followed by a buffer's, with a time of the clock in it."""
    for path in commitlog.iterdir():
        data = path.read_bytes()
        at = data.rfind(BLANK.to_bytes(4, "big"))
        if at >= 0:
            path.write_bytes(data[: at + 4].ljust(len(data), b"Z"))


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _sums(archives: list[Path]) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in archives}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rocketmq.fixtures", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    parser.add_argument("part", nargs="?", default="", help="of the names to make")
    args = parser.parse_args()
    wanted = [(kind, version) for kind, (versions, _) in KINDS.items() for version in versions
              if args.part in f"{kind}_{version}"]  # fmt: skip
    listed = ARCHIVES / "SHA256SUMS"
    known = dict(reversed(line.split()) for line in listed.read_text().splitlines())
    with tempfile.TemporaryDirectory(prefix="reput-fixtures-") as folder:
        made = [make_fixture(kind, version, Path(folder)) for kind, version in wanted]
        sums = _sums(made)
        differing = [name for name in sums if known.get(name) != sums[name]]
        for name, archive in zip(sums, made, strict=True):
            word = "new or changed" if name in differing else "the same"
            print(f"{name}: {archive.stat().st_size:,} bytes, {word}", flush=True)
        if args.check:
            return 1 if differing else 0
        for archive in made:
            shutil.copy(archive, ARCHIVES / archive.name)
    known |= sums
    listed.write_text("".join(f"{known[name]}  {name}\n" for name in sorted(known)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
