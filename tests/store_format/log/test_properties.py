"""Which name-value pairs of a message count: a table of malformed cases, by release."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reput.store_format.kernels.bytes import BLOCK
from reput.store_format.log.properties import NAMES, find_properties
from reput.store_format.release.profiles import profile
from tests.reference.log import parse_properties
from tests.reference.rules import Rules, parse_version

# up to 4.9.0 by Java's split, from 4.9.1 by the first separator
SPLIT, FIRST = "4.9.0", "4.9.1"


def found(raw: bytes, release: str) -> dict[bytes, bytes]:
    """The values found; the same ones where the buffer ends soon and where it goes on."""
    soon, later = (found_before(raw, behind, release) for behind in (b"", b"\x01v\x02" * BLOCK))
    assert soon == later
    return soon


def found_before(raw: bytes, behind: bytes, release: str) -> dict[bytes, bytes]:
    before = b"TAGS\x01before\x02"  # not part of the properties, nor is this:
    buf = np.frombuffer(before + raw + b"\x02TAGS\x01behind\x02" + behind, np.uint8)
    spans = np.full((len(NAMES), 2), 77, np.int64)
    at = len(before)
    find_properties(buf, at, at + len(raw), profile(release).split_properties, spans)
    values = buf.tobytes()
    return {name: values[start:end]
            for name, (start, end) in zip(NAMES, spans.tolist(), strict=True)
            if start >= 0}  # fmt: skip


@pytest.mark.parametrize(("raw", "by_split", "by_first"), [
    (b"", None, None), (b"TAGS\x01a\x02", b"a", b"a"),
    (b"TAGS\x01a", b"a", b"a"),  # 4.9.1 to 5.1.x may leave the last 02 out
    (b"TAGS", None, None), (b"TAGS\x01", None, None), (b"TAGS\x01\x02", None, None),
    (b"TAGS\x02", None, None), (b"TAGS\x01\x01\x02", None, b"\x01"),
    (b"TAGS\x01a\x01\x02", b"a", b"a\x01"),  # split drops empty parts at the end
    (b"TAGS\x01a\x01\x01\x01\x02", b"a", b"a\x01\x01\x01"),
    (b"TAGS\x01a\x01b\x02", None, b"a\x01b"), (b"TAGS\x01\x01a\x02", None, b"\x01a"),
    (b"\x01TAGS\x02", None, None), (b"\x01TAGS\x01a\x02", None, None),
    (b"\x01a\x02TAGS\x01b\x02", b"b", b"b"), (b"\x02\x02TAGS\x01a\x02\x02", b"a", b"a"),
    (b"TAGS\x01a\x02TAGS\x01b\x02", b"b", b"b"),  # the last one wins
    (b"TAGS\x01a\x02TAGS\x01\x02", b"a", b"a"),  # but not where it does not count
    (b"TAGS\x01a\x02TAGS\x01b\x01c\x02", b"a", b"b\x01c"),
    (b"TAG\x01a\x02TAGSS\x01b\x02tags\x01c\x02", None, None), (b" TAGS\x01a\x02", None, None),
    (b"x\x01TAGS\x02TAGS\x01y\x02", b"y", b"y"), (b"TAGS\x01 \x02", b" ", b" "),
    (b"TAGS\x01\xff\x02", b"\xff", b"\xff"),
])  # fmt: skip
def test_malformed_pairs(raw: bytes, by_split: bytes | None, by_first: bytes | None) -> None:
    assert found(raw, SPLIT).get(b"TAGS") == by_split
    assert found(raw, FIRST).get(b"TAGS") == by_first


def test_every_name_is_found_at_its_own_place_in_a_release_on_each_side() -> None:
    raw = b"".join(name + b"\x01" + name.lower() + b"\x02" for name in NAMES)
    for release in (SPLIT, FIRST):
        assert found(raw, release) == {name: name.lower() for name in NAMES}
    assert profile("4.9.0").split_properties
    assert not profile("4.9.1").split_properties


NAMES_AND_OTHERS = [*NAMES, b"", b"KEY", b"TAGSX", b"\xff", b"x"]
PIECES = st.sampled_from([*NAMES_AND_OTHERS, b"\x01", b"\x02", b"\x01\x01", b"v", b"\xed\xa0"])


@settings(deadline=None)  # a kernel may have to be compiled first
@given(st.lists(PIECES, max_size=16).map(b"".join), st.sampled_from([SPLIT, FIRST]))
def test_any_bytes_agree_with_the_reference(raw: bytes, release: str) -> None:
    rules = Rules(parse_version(release), {}, {})
    # latin-1 keeps every byte, and both separators, apart
    expected = parse_properties(raw.decode("latin-1"), rules)
    kept = {name.encode("latin-1"): value.encode("latin-1") for name, value in expected.items()}
    assert found(raw, release) == {name: kept[name] for name in NAMES if name in kept}
