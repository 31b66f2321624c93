"""One record read alone, by the rules as they stand, is what the compiled walk finds there."""

import random
import re
from typing import Any

import numpy as np
import pytest

from reput.store_format.faults import Fault
from reput.store_format.log.reader import record_of
from reput.store_format.log.record import read_one
from reput.store_format.log.rules import NO_CHECKS, RecordRules
from reput.store_format.log.walk import Walk
from tests.logs import Message, build_log

SEGMENT = 1 << 15
V6 = bytes(range(20))
MESSAGES = [
    Message(topic="T" * (200 if n % 5 == 4 else 3), version=2 if n % 5 == 4 else 1,
            body=b"x" * (n % 3 * 700), queue_offset=n, sys_flag=(0, 0x10, 0x20, 0x30)[n % 4],
            born_host=V6 if n % 4 in (1, 3) else V6[:8], store_host=V6 if n % 4 > 1 else V6[:8])
    for n in range(12)
] + [Message(topic="T", queue_offset=12, properties_length=-5)]  # fmt: skip


@pytest.mark.parametrize("rules", [RecordRules(True, True), RecordRules(False, False, True)])
def test_it_is_the_walks_record_or_fault(rules: RecordRules) -> None:
    draw = random.Random(7)
    (log,) = build_log(MESSAGES, SEGMENT, 0).values()
    starts = [found.start() - 4 for found in re.finditer(b"\xda\xa3\x20", log)]
    assert len(starts) == len(MESSAGES)
    sound = faulty = 0
    for _ in range(150):
        raw = np.frombuffer(log, np.uint8).copy()
        for _ in range(draw.randrange(4)):
            raw[draw.choice(starts) + draw.randrange(110)] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))

        def read(at: int, buffer: Any, raw: Any = raw) -> None:
            buffer[:] = raw[at : at + len(buffer)]

        walk = Walk(read, SEGMENT, rules, NO_CHECKS, np.empty(SEGMENT, np.uint8))
        at = 0
        while True:
            fault, record = read_one(read, at, SEGMENT, rules, draw.choice((128, 4096)))
            (step, *_) = walk.steps(at, at + 1)
            if record is None:
                assert step.fault == fault
                faulty += fault != Fault.ZEROS
                break
            assert record_of(step, 0, rules) == record
            sound += 1
            at = step.next
    assert sound > 100
    assert faulty > 20
