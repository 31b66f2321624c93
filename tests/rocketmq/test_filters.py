"""Filters, bodies and allocation against RocketMQ's own classes, at length."""

import base64
from random import Random

import pytest

from reput.store_format.filter.filters import EveryMessage, WrongTags, tag_filter
from reput.store_format.filter.sql import sql_filter
from reput.store_format.message.bodies import BodyError, decompressed, inner_messages
from reput.store_format.message.message import parse_properties
from reput.store_format.release.profiles import profile
from tests.broker import allocation_cases as cases
from tests.logs import encoder
from tests.rocketmq.judge import Drivers
from tests.store_format.filter import golden
from tests.store_format.filter.expressions import Expressions, properties

pytestmark = [pytest.mark.rocketmq, pytest.mark.long]

RELEASES = golden.RELEASES
EXPRESSIONS, MESSAGES = 2000, 50
CAP = 1 << 24
TYPES = {"ZLIB": 0x301, "LZ4": 0x101, "ZSTD": 0x201}


def base64_of(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize("release", RELEASES)
def test_expressions(release: str, drivers: Drivers) -> None:
    seed = Random().randrange(1 << 30)
    source = Expressions(seed)
    expressions = [source.one() for _ in range(EXPRESSIONS)]
    raw = [encoder.properties(*properties(seed + n).items()) for n in range(MESSAGES - 3)]
    raw += golden.raw_properties()[-3:]
    said = drivers.get(release).ask("filter.sql", expressions=expressions,
                                    records=golden.records(raw))  # fmt: skip
    rules = profile(release)
    wrong = [
        (text, ours, theirs) for text, theirs in zip(expressions, said["answers"], strict=True)
        if (ours := golden.ours(lambda t=text: sql_filter(t, rules), raw, False)) != theirs
    ]  # fmt: skip
    assert wrong == [], f"seed {seed}: {len(wrong)}: {wrong[:5]}"
    parsed = [answer for answer in said["answers"] if answer is not None]
    assert EXPRESSIONS // 3 < len(parsed) < EXPRESSIONS


@pytest.mark.parametrize("release", RELEASES)
def test_tags(release: str, drivers: Drivers) -> None:
    random = Random(16)
    pieces = ("A", "Aa", "BB", "||", "|", " ", "*", "\t", "ü", "polygenelubricants", "\u00a0")
    texts = ["", "*", "||", " || ", *("".join(random.choices(pieces, k=n % 7)) for n in range(300))]
    codes = [0, 65, 2112, -(1 << 31), 1 << 31, 2112 + (1 << 32), 2112 - (1 << 32), 252, 42, -1]
    answers = drivers.get(release).ask("filter.tags", texts=texts, codes=codes)["answers"]
    for text, theirs in zip(texts, answers, strict=True):
        try:
            ours = tag_filter(text)
        except WrongTags:
            assert theirs is None, text
            continue
        assert theirs is not None, text
        tags = set() if isinstance(ours, EveryMessage) else set(ours.tags)
        assert tags == set(theirs[0]), text
        assert "".join("01"[ours.may_match(code)] for code in codes) == theirs[1], text


@pytest.mark.parametrize("release", RELEASES)
def test_allocation(release: str, drivers: Drivers) -> None:
    first = Random().randrange(1 << 30)
    asked = [cases.case(first + n) for n in range(1000)]
    answers = drivers.get(release).ask("allocate", cases=asked)["answers"]
    wrong = [(first + n, one["strategy"]) for n,
             (one, theirs) in enumerate(zip(asked, answers, strict=True))
             if cases.ours(one) != theirs]  # fmt: skip
    assert wrong == []


def damaged(random: Random, raw: bytes) -> bytes:
    """A compressed body, whole or not."""
    kind = random.randrange(5)
    if kind == 0 or not raw:
        return raw
    if kind == 1:
        return raw[: random.randrange(1, len(raw) + 1)]
    if kind == 2:
        return random.randbytes(random.randrange(1, 50))
    if kind == 3:
        return raw + raw  # a second stream
    at = random.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ 1 << random.randrange(8)]) + raw[at + 1 :]


@pytest.mark.parametrize("release", RELEASES)
def test_bodies(release: str, drivers: Drivers) -> None:
    """What the client's decoder gives, is what we give; where it gives up, we say why."""
    random, bodies, driver = Random(16), [], drivers.get(release)
    for kind, flag in TYPES.items():
        plain = [random.choice((b"a word ", random.randbytes(9))) * n for n in (1, 7, 900, 20_000)]
        answer = driver.ask("bodies.compress", type=kind, bodies=[base64_of(one) for one in plain])
        made = [base64.b64decode(one) for one in answer["answers"]]
        assert [decompressed(one, flag, CAP) for one in made] == plain
        bodies += [(damaged(random, one), flag) for one in made for _ in range(25)]
    bodies += [(random.randbytes(30), flag) for flag in (0, 0x1, 0x401, 0x501, 0x701, 0x300)]
    records = [base64_of(encoder.encode(encoder.Message(body=body, sys_flag=flag), 0)) for body,
               flag in bodies]  # fmt: skip
    answers = driver.ask("bodies.decode", records=records)["answers"]
    stricter = 0
    for (body, flag), theirs in zip(bodies, answers, strict=True):
        try:
            ours = decompressed(body, flag, CAP)
        except BodyError:
            # a client may take a body for whole that we find cut or damaged, never the reverse
            stricter += theirs is not None
            continue
        assert theirs is not None, (flag, body[:40])
        assert base64.b64decode(theirs) == ours, (flag, body[:40])
    assert stricter < len(bodies) // 20, stricter


@pytest.mark.parametrize("release", RELEASES)
def test_inner_batches(release: str, drivers: Drivers) -> None:
    batch = [[3, "b25l", {"n": "1", "ü": "ö"}], [0, "", {}], [-1, "dHdv", {"n": "2"}]]
    (answer,) = drivers.get(release).ask("bodies.batch", batches=[batch])["answers"]
    found = []
    for one in inner_messages(base64.b64decode(answer)):
        pairs = parse_properties(one.properties)
        assert pairs.pop("WAIT") == "true"  # each message that a client makes has it
        found.append([one.flag, base64_of(one.body), pairs])
    assert found == batch
