"""Drawn bodies of trace messages: each release's contexts, whole and spoilt."""

from collections.abc import Sequence
from random import Random

KINDS = ("Pub", "SubBefore", "SubAfter", "EndTransaction", "Recall")
_NUMBERS = ("0", "7", "-1", "+3", "1795246245000", "2147483647", "2147483648", "007", "٣", "1_0",
            " 5", "", "x", "9223372036854775808")  # fmt: skip
_TEXTS = ("", "Orders", "C0A8FFFE0001", "null", "true", "TRUE", "fAlse", "ü", "\ufffd", "a b", "𝟎")
_SHAPES = {  # n: a number, s: a text, b: true or false, t: a message type, l: an end; which end how
    "Pub": ("nsssssssnnt", ("", "b", "sb", "sbs", "sbss")),
    "SubBefore": ("nssssns", ("", "s")),
    "SubAfter": ("ssnbs", ("", "n", "nn", "nns", "nnss")),
    "EndTransaction": ("nssssssstslb", ("", "s")),
    "Recall": ("nssssb", ("", "s")),
}


def _field(random: Random, kind: str, spoilt: bool, types: int) -> str:
    if spoilt and random.random() < 0.2:
        return random.choice(_NUMBERS + _TEXTS)
    return {"n": str(random.randrange(1 << 31)), "t": str(random.randrange(types)),
            "b": random.choice(("true", "false")),
            "l": random.choice(("COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW")),
            "s": random.choice(_TEXTS)}[kind]  # fmt: skip


def body(seed: int, kinds: Sequence[str] = KINDS, types: int = 5) -> bytes:
    """A few contexts; every other body is spoilt: fields, their number, separators or bytes.

    kinds, types: the contexts and so many message types that a release knows."""
    random = Random(seed)
    spoilt, parts = seed % 2 == 1, []
    for _ in range(random.randrange(1, 5)):
        kind = random.choice(kinds)
        needed, further = _SHAPES[kind]
        shape = needed + random.choice(further)
        fields = [kind, *(_field(random, each, spoilt, types) for each in shape)]
        if spoilt and random.random() < 0.2:
            fields = fields[: random.randrange(len(fields) + 1)]
        parts.append("\x01".join(fields) + random.choice(("", "", "\x01", "\x01\x01")))
    raw = ("\x02".join(parts) + random.choice(("", "\x02", "\x02\x02"))).encode()
    if spoilt and raw and random.random() < 0.4:
        at = random.randrange(len(raw))
        raw = raw[:at] + random.choice((b"\x01", b"\x02", b"\xed\xa0\x80", b"\xff")) + raw[at + 1 :]
    return raw
