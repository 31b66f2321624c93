"""Which entries and records a pull gets: by the hash codes of tags, or by an SQL92 expression."""

from typing import Any

import numpy as np
import pytest

from reput.broker.serving import attendance
from reput.broker.serving.attendance import compiled, is_tags
from reput.broker.serving.clients import Subscription
from reput.broker.serving.reading import EVERYTHING, PullFilter, subscription_of, wanted_by
from reput.store_format.filter.filters import WrongTags
from reput.store_format.filter.sql import WrongExpression
from reput.store_format.log.record import Record
from reput.store_format.release.profiles import profile
from tests.logs.encoder import properties

PROFILE = profile("5.3.3")
A, AB = 65, 65 * 31 + 66  # String.hashCode of "A", "AB"
MIN_INT = -(1 << 31)


def passes(wanted: PullFilter, *codes: int) -> list[bool]:
    return [bool(each) for each in wanted.entries(np.array(codes, np.int64))]


def of_codes(*codes: int) -> PullFilter:
    return PullFilter(np.array(codes, np.int32))


def test_entries_pass_by_the_hash_codes_of_tags() -> None:
    """SubscriptionData's codes are Java ints; a tagsCode is one in 8 bytes."""
    wanted = wanted_by(subscription_of("T", "A || AB", None, 0), PROFILE)
    assert passes(wanted, A, AB, A + 1, 0, -A) == [True, True, False, False, False]
    assert passes(of_codes(MIN_INT, -1), MIN_INT, -1, 1) == [True, True, False]
    assert passes(of_codes(), 0, A) == [False, False]
    assert wanted.record is None


def test_an_entry_whose_tag_is_elsewhere_passes() -> None:
    """A ConsumeQueueExt address is below Integer.MIN_VALUE; the client filters too."""
    assert passes(of_codes(A), MIN_INT - 1, -(1 << 63), MIN_INT) == [True, True, False]


@pytest.mark.parametrize("text", ["*", "", None])
def test_no_text_and_a_star_are_everything(text: str | None) -> None:
    own = subscription_of("T", text, "TAG", 3)
    assert own == Subscription("T", "*", "TAG", 3)
    assert wanted_by(own, PROFILE) is EVERYTHING
    assert passes(EVERYTHING, 0, A, MIN_INT - 1) == [True] * 3


def test_a_kind_is_of_tags_where_it_is_missing_or_says_so() -> None:
    """ExpressionType.isTagType."""
    assert [is_tags(kind) for kind in (None, "", "TAG", "SQL92", "tag")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    with pytest.raises(WrongTags):
        subscription_of("T", "||", None, 0)
    for empty in ("", None):
        with pytest.raises(WrongTags):
            subscription_of("T", empty, "SQL92", 0)


def test_sql_looks_at_records_by_their_properties() -> None:
    wanted = wanted_by(subscription_of("T", "a > 5", "SQL92", 0), PROFILE)
    assert wanted.record is not None
    assert passes(wanted, 0, A) == [True, True]
    record: Any = Record
    texts = [properties(("a", "6")), properties(("a", "5")), properties(("b", "6")),
             properties(("a", "5.0")), b""]  # fmt: skip
    records = [record(b"T", *[0] * 16, text) for text in texts]
    assert [wanted.record(each) for each in records] == [True, False, False, False, False]


def test_a_long_expression_looks_at_fewer_records_and_too_long_a_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    short, long = (
        wanted_by(Subscription("T", f"a = '{'x' * many}'", "SQL92"), PROFILE) for many in (1, 9000)
    )
    assert short.looked_at > 10 * long.looked_at >= 10
    monkeypatch.setattr(attendance, "_SQL_MOST", 5)
    assert compiled("a > 7", PROFILE)
    with pytest.raises(WrongExpression, match="6 characters"):
        compiled("a > 77", PROFILE)
