"""What a pull subscribes to: which entries and records it wants (ExpressionMessageFilter)."""

from typing import Any, Protocol

import numpy as np

from reput.store_format.derived.queue_slices import Numbers
from reput.store_format.filter.filters import WrongTags, tag_filter
from reput.store_format.filter.sql import SqlFilter, sql_filter
from reput.store_format.log.one_record import Record
from reput.store_format.message.property_text import parse_properties
from reput.store_format.release.profiles import Profile
from reput.store_format.serving.consumers import TAG, Subscription

SQL92 = "SQL92"
_EVERYTHING = "*"  # SubscriptionData.SUB_ALL
_LOWEST_INT = -(1 << 31)


class Wanted(Protocol):
    """Says which messages a pull is to get. In doubt they are delivered: the client looks too."""

    def entries(self, tags_codes: Numbers) -> Any:
        """Of each of a queue's entries, whether it may be of a wanted message."""

    needs_record: bool  # whether `record` has something to say

    def record(self, record: Record) -> bool:
        """Whether a record is a wanted message."""


class ByTags:
    """By the hash codes of tags; the client compares the texts."""

    needs_record = False

    def __init__(self, codes: frozenset[int] | None) -> None:
        """codes: None for every message."""
        self._codes = None if codes is None else np.array(sorted(codes), np.int32)

    def entries(self, tags_codes: Numbers) -> Any:
        if self._codes is None:
            return np.ones(len(tags_codes), np.bool_)
        elsewhere = tags_codes < _LOWEST_INT  # the code stands in a ConsumeQueueExt file
        return elsewhere | np.isin(tags_codes.astype(np.int32), self._codes)

    def record(self, record: Record) -> bool:
        return True


class BySql:
    """By an SQL92 expression, over the message's properties."""

    needs_record = True

    def __init__(self, chosen: SqlFilter, split_properties: bool) -> None:
        self._filter, self._split = chosen, split_properties

    def entries(self, tags_codes: Numbers) -> Any:
        return np.ones(len(tags_codes), np.bool_)

    def record(self, record: Record) -> bool:
        properties = parse_properties(record.properties, self._split)
        return self._filter.matches(record, properties, bytes)


EVERYTHING = ByTags(None)


def wanted_by(subscription: Subscription, profile: Profile) -> Wanted:
    """What a subscription wants. Raises WrongTags, WrongExpression (ValueErrors)."""
    if not is_tags(subscription.kind):
        return BySql(sql_filter(subscription.text, profile), profile.split_properties)
    if subscription.text == _EVERYTHING:
        return EVERYTHING
    return ByTags(subscription.codes)


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
