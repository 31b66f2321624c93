"""Filters of a pull: which queue entries and records it wants (ExpressionMessageFilter)."""

from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from reput.broker.serving.clients import TAG, Subscription
from reput.store_format.derived.queues import Numbers
from reput.store_format.filter.filters import WrongTags, tag_filter
from reput.store_format.filter.sql import SqlFilter, WrongExpression, sql_filter
from reput.store_format.log.record import Record
from reput.store_format.message.message import parse_properties
from reput.store_format.release.profiles import Profile

SQL92 = "SQL92"
_EVERYTHING = "*"  # SubscriptionData.SUB_ALL
_LOWEST_INT = -(1 << 31)
# A broker has no limits; here one client's expression would keep all others waiting.
_SQL_MOST = 1 << 15  # characters of an expression
_WORK_MOST = 1 << 20  # characters that one pull evaluates; each record counts as _RECORD_WORK more
_RECORD_WORK = 200


class PullFilter(Protocol):
    """Which messages a pull gets; in doubt it gets a message, as the client filters too."""

    def entries(self, tags_codes: Numbers) -> Any:
        """For each queue entry, whether its message may be wanted."""

    needs_record: bool  # whether `record` must be called
    looked_at: int  # how many positions one pull goes through at most

    def record(self, record: Record) -> bool:
        """Whether a record's message is wanted."""


class ByTags:
    """By the hash codes of tags; the client compares the texts."""

    needs_record = False
    looked_at = 1 << 31

    def __init__(self, codes: frozenset[int] | None) -> None:
        """codes: None for every message."""
        self._codes = None if codes is None else np.array(sorted(codes), np.int32)

    def entries(self, tags_codes: Numbers) -> Any:
        if self._codes is None:
            return np.ones(len(tags_codes), np.bool_)
        elsewhere = tags_codes < _LOWEST_INT  # the tagsCode is in a ConsumeQueueExt file
        return elsewhere | np.isin(tags_codes.astype(np.int32), self._codes)

    def record(self, record: Record) -> bool:
        return True


class BySql:
    """By an SQL92 expression, over the message's properties."""

    needs_record = True

    def __init__(self, chosen: SqlFilter, split_properties: bool, characters: int) -> None:
        """characters: the expression's length; the longer, the fewer records one pull looks at."""
        self._filter, self._split = chosen, split_properties
        self.looked_at = max(_WORK_MOST // (_RECORD_WORK + characters), 1)

    def entries(self, tags_codes: Numbers) -> Any:
        return np.ones(len(tags_codes), np.bool_)

    def record(self, record: Record) -> bool:
        properties = parse_properties(record.properties, self._split)
        return self._filter.matches(record, properties, bytes)


EVERYTHING = ByTags(None)


def wanted_by(subscription: Subscription, profile: Profile) -> PullFilter:
    """The filter of a subscription. Raises WrongTags, WrongExpression (ValueErrors)."""
    if not is_tags(subscription.kind):
        chosen = compiled(subscription.text, profile)
        return BySql(chosen, profile.split_properties, len(subscription.text))
    if subscription.text == _EVERYTHING:
        return EVERYTHING
    return ByTags(subscription.codes)


@lru_cache(maxsize=64)
def compiled(text: str, profile: Profile) -> SqlFilter:
    """The filter of an SQL92 expression. Raises WrongExpression."""
    if len(text) > _SQL_MOST:
        raise WrongExpression(f"has {len(text)} characters, more than {_SQL_MOST}", 1, 1)
    return sql_filter(text, profile)


def is_tags(kind: str | None) -> bool:
    """Whether an expressionType is that of tags (ExpressionType.isTagType)."""
    return kind in (None, "", TAG)


def subscription_of(topic: str, text: str | None, kind: str | None, version: int) -> Subscription:
    """The subscription that a pull request carries itself (FilterAPI.build). Raises WrongTags."""
    if not is_tags(kind):
        if not text:
            raise WrongTags("an expression is empty")
        return Subscription(topic, text, str(kind), version)
    chosen = tag_filter(text or _EVERYTHING)
    codes = getattr(chosen, "codes", None)
    if codes is None:
        return Subscription(topic, _EVERYTHING, TAG, version)
    return Subscription(topic, text or _EVERYTHING, TAG, version, frozenset(codes))
