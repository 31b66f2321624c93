"""The slow reference itself: every golden store. What each kind of log is to give is computed by
hand in test_kinds_of_log, and of texts and records in the tests of store_format beside it."""

from pathlib import Path

import pytest

from tests import golden_stores
from tests.built import Built, write
from tests.reference import compare, derive

QUEUE = "consumequeue/T/0/00000000000000000000"
# of many or large segments, which the reference goes through a record at a time
SLOW = ("broker_crash_5.3.3", "default_sizes_5.3.3")


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] * (name in SLOW))
                                  for name in golden_stores.names()])  # fmt: skip
def test_agrees_with_what_rocketmq_wrote(name: str) -> None:
    store = golden_stores.unpack(name)
    with store.segments() as segments:
        derivation = derive(segments, store.settings, store.version, store.topic_attributes)
    assert compare(derivation, store.expect) is None
    assert derivation.messages > 0


def test_compare_names_the_first_difference(tmp_path: Path) -> None:
    built = Built().put(count=2, keys="k").derive()
    derivation = derive(*built.log())
    write(tmp_path, built.files)
    assert compare(derivation, tmp_path) is None
    write(tmp_path, Built().put(count=2, keys="k").derive().flip(QUEUE, 35).contents())
    assert f"{QUEUE}: differs at byte 35" in (compare(derivation, tmp_path) or "")
    (tmp_path / QUEUE).write_bytes(built.files[QUEUE][:80])
    assert f"{QUEUE}: 80 bytes, should be 200" == compare(derivation, tmp_path)
    (tmp_path / QUEUE).unlink()
    assert f"{QUEUE} is missing, and 0 more" == compare(derivation, tmp_path)
    write(tmp_path, {**built.files, "consumequeue/x": b""})
    assert compare(derivation, tmp_path) == "consumequeue/x should not be there, and 0 more"
