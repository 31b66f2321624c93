"""Takes out of messages what nobody is to see, wherever it stands in them.

A redaction takes out bodies, or properties by name. Brokers and clients copy a property's value
into others (`__transactionId__` of UNIQ_KEY: TransactionalMessageBridge.parseHalfMessageInner;
ORIGIN_MESSAGE_ID: SendMessageProcessor), and producers copy it into bodies. A property that repeats
a redacted value is taken out too. A body, topic or host that repeats it is only counted.
"""

import hashlib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from reput.store_format import layouts
from reput.store_format.filter.texts import LEAST, Repeats
from reput.store_format.message import bodies
from reput.store_format.message.message import parse_properties
from reput.udfs.staging import ids_of, schema
from reput.udfs.table.columns import Choice, batches_of
from reput.udfs.table.log_parts import LogPart, LogParts

BODY, BODY_HASH, PROPERTY = "body", "body:hash", "property:"
BODY_MOST = 64 << 20  # bytes of one decompressed body
_COMPRESSED = layouts.SYS_COMPRESSED | layouts.SYS_COMPRESSION_MASK
# flags of a packed body; the text put in a body's place is not packed
_PACKED = _COMPRESSED | layouts.SYS_INNER_BATCH | layouts.SYS_NEED_UNWRAP
_CRC_MASK = 0x7FFFFFFF
_CRC = "__CRC32#"  # a CRC over the whole old record, and so over redacted values too
_WHOLE = ("topic", "bornHost", "storeHost")  # columns that are never changed

# A redacted value and how often it stands, or a column that repeats one and in how many messages.
FOUND = schema(text=pa.binary(), messages=pa.int64())

Pairs = list[tuple[str, str]]


@dataclass(frozen=True)
class Redaction:
    """What is taken out of messages.

    body: BODY, BODY_HASH, or None to keep bodies; properties: names of redacted properties;
    repeats: the values of redacted properties in all messages, which go wherever they are.
    """

    body: str | None = None
    properties: frozenset[str] = frozenset()
    repeats: Repeats = field(default_factory=lambda: Repeats(()))

    def values(self, batch: pa.RecordBatch) -> Iterator[bytes]:
        for pairs in batch["properties"].to_pylist():
            yield from self._values_of(pairs)
        if "body" in batch.schema.names:
            for body, flag in zip(*_bodies(batch), strict=True):
                for inner in _inner(body, flag) or ():
                    yield from self._values_of(_pairs(inner))

    def _values_of(self, pairs: Pairs) -> Iterator[bytes]:
        for name, value in pairs:
            if name in self.properties:
                yield value.encode("utf-8", "replace")

    def cannot_clear(self, batch: pa.RecordBatch) -> Counter[str]:
        """In how many messages `body`, `topic`, `bornHost` or `storeHost` repeats a redacted value,
        which cannot be taken out there.
        """
        found: Counter[str] = Counter()
        for name in _WHOLE:
            texts = [text.encode("utf-8", "replace") for text in batch[name].to_pylist()]
            found[name] += len(self.repeats.found_in(texts))
        if self.body is None and "body" in batch.schema.names:
            left = (self._redacted(*each) for each in zip(*_bodies(batch), strict=True))
            found["body"] += len(self.repeats.found_in([_searched(*each) for each in left]))
        return +found

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without what is redacted; `tags`, `keys`, `uniqueKey` follow the properties."""
        new: dict[str, list[Any]] = {
            name: batch[name].to_pylist() for name in ("properties", "sysFlag", "bodyCRC")
        }
        if "body" in batch.schema.names:
            new["body"] = batch["body"].to_pylist()
            for number, pairs in enumerate(new["properties"] if self.body is not None else ()):
                whole = _searched(new["body"][number], new["sysFlag"][number])
                new["properties"][number] = self._without_body(pairs, whole)
            for number, (body, flag) in enumerate(zip(new["body"], new["sysFlag"], strict=True)):
                body, flag = self._redacted(body, flag)
                if body is not new["body"][number]:
                    new["bodyCRC"][number] = zlib.crc32(body) & _CRC_MASK
                    new["body"][number], new["sysFlag"][number] = body, flag
        elif self.body is not None:
            new["bodyCRC"] = [0] * len(batch)
        new["properties"] = self._kept(new["properties"])
        columns = [dict(pairs) for pairs in new["properties"]]
        new["tags"] = [pairs.get("TAGS") for pairs in columns]
        new["uniqueKey"] = [pairs.get("UNIQ_KEY") for pairs in columns]
        keys = batch["keys"].to_pylist()
        new["keys"] = [k if "KEYS" in p else [] for k, p in zip(keys, columns, strict=True)]
        return pa.RecordBatch.from_arrays(
            [pa.array(new[f.name], f.type) if f.name in new else batch[f.name]
             for f in batch.schema], schema=batch.schema,
        )  # fmt: skip

    def _kept(self, many: list[Pairs]) -> list[Pairs]:
        """The properties of many messages without redacted ones and repeats of their values."""
        kept = [[p for p in pairs if p[0] not in self.properties and p[0] != _CRC]
                for pairs in many]  # fmt: skip
        places = [(i, k) for i, pairs in enumerate(kept) for k in range(len(pairs))]
        texts = ["\1".join(kept[i][k]).encode("utf-8", "replace") for i, k in places]
        gone = {places[number] for number in self.repeats.found_in(texts)}
        return [[p for k, p in enumerate(pairs) if (i, k) not in gone]
                for i, pairs in enumerate(kept)]  # fmt: skip

    def _without_body(self, pairs: Pairs, body: bytes) -> Pairs:
        if len(body) < LEAST:
            return pairs
        texts = [value.encode("utf-8", "replace") for _, value in pairs]
        return [
            pair for pair, text in zip(pairs, texts, strict=True)
            if body not in text or not Repeats([body]).found_in([text])
        ]  # fmt: skip

    def _redacted(self, body: bytes, flag: int) -> tuple[bytes, int]:
        """The redacted body and its sysFlag; the same object if nothing is taken out."""
        if self.body is not None:
            hashed = hashlib.sha256(body).hexdigest().encode()
            return hashed if self.body == BODY_HASH else b"", flag & ~_PACKED
        inner = _inner(body, flag)
        if inner is None:
            return body, flag
        pairs = [_pairs(each) for each in inner]
        kept = self._kept(pairs)
        if kept == pairs:
            return body, flag
        made = [each._replace(properties=_text(k)) for each, k in zip(inner, kept, strict=True)]
        return bodies.encode_inner(made), flag & ~_COMPRESSED


def _bodies(batch: pa.RecordBatch) -> tuple[list[bytes], list[int]]:
    return batch["body"].to_pylist(), batch["sysFlag"].to_pylist()


def _searched(body: bytes, flag: int) -> bytes:
    """A body as its producer gave it; unchanged if it contradicts its sysFlag."""
    try:
        return bodies.decompressed(body, flag, BODY_MOST)
    except bodies.BodyError:
        return body


def _inner(body: bytes, flag: int) -> list[bodies.InnerMessage] | None:
    """The messages of an inner batch; None for another body, or an unreadable one."""
    if not bodies.is_batch(flag):
        return None
    try:
        return list(bodies.inner_messages(_searched(body, flag)))
    except bodies.BodyError:
        return None


def _pairs(inner: bodies.InnerMessage) -> Pairs:
    return list(parse_properties(inner.properties).items())


def _text(pairs: Pairs) -> bytes:
    return "".join(f"{name}\1{value}\2" for name, value in pairs).encode("utf-8", "replace")


@dataclass(frozen=True)
class LookThrough:
    """In tasks: FOUND rows of those of `parts` whose indices arrive in the column `id`.

    Without `repeats` they list each redacted value; with them, the columns that cannot be cleared.
    """

    log: LogParts
    parts: tuple[LogPart, ...]
    choice: Choice
    wanted: Any
    columns: pa.Schema
    system_topics: bool
    redaction: Redaction

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in ids_of(batches):
            found = self.found(self.parts[number])
            yield pa.RecordBatch.from_pydict(
                {"text": list(found), "messages": list(found.values())}, FOUND
            )

    def found(self, part: LogPart) -> Counter[bytes]:
        """In one part: how often each value stands, or how many messages repeat one."""
        found: Counter[bytes] = Counter()
        for batch in batches_of(
            self.log, part, self.choice, self.columns, self.wanted, _nobody,
            system_topics=self.system_topics,
        ):  # fmt: skip
            if self.redaction.repeats.texts:
                for name, many in self.redaction.cannot_clear(batch).items():
                    found[name.encode()] += many
            else:
                found.update(self.redaction.values(batch))
        return found


def _nobody(line: str) -> None:
    """What is left out is reported when the messages are written."""
