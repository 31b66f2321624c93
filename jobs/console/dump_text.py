"""The items of `reput dump` as text: tables for records and entries, sentences for the rest."""

from collections.abc import Callable
from typing import Any, NamedTuple

from reput.jobs.console.voice import in_zone, safe, time_text

Item = dict[str, Any]

_NO_CELL = ("kind", "family")
# Key hashes of a message that its line shows; JSON has all.
_KEYS_SHOWN = 6


class TextColumn(NamedTuple):
    """A column of a table. width: in characters, negative for left-aligned; 0 for times."""

    name: str
    width: int
    text: Callable[[Item], str]

    @property
    def title(self) -> str:
        return self.name if self.width else in_zone(self.name)

    def cell(self, text: str) -> str:
        width = self.width or -max(len(self.title), len(time_text(0)))
        return text.ljust(-width) if width < 0 else text.rjust(width)


def _plain(name: str, width: int) -> TextColumn:
    return TextColumn(name, width, lambda item: "-" if item[name] is None else str(item[name]))


def _time(name: str) -> TextColumn:
    return TextColumn(name, 0, lambda item: time_text(item[name]))


def _keys(item: Item) -> str:
    hashes = [str(key) for key in item["keyHashes"]]
    more = f" and {len(hashes) - _KEYS_SHOWN} more" if len(hashes) > _KEYS_SHOWN else ""
    return ",".join(hashes[:_KEYS_SHOWN]) + more


def _chain(item: Item) -> str:
    more = item["entries"] - len(item["chain"])
    return " ".join(map(str, item["chain"])) + (f" and {more} more" if more else "")


_RECORD = (
    _plain("physicalOffset", 14),
    _plain("size", 9),
    _time("storeTimestamp"),
    TextColumn("topic/queue", -32, lambda item: f"{safe(item['topic'])}/{item['queueId']}"),
    _plain("queueOffset", 11),
    TextColumn(
        "transaction", -11, lambda i: "" if i["transaction"] == "none" else i["transaction"]
    ),
    _plain("tagsCode", 13),
    TextColumn("keyHashes", -1, _keys),
)
_QUEUE_ENTRY = tuple(
    _plain(name, width)
    for name, width in (
        ("position", 14), ("at", 11), ("physicalOffset", 14), ("size", 10), ("tagsCode", 20)
    )
)  # fmt: skip
_BATCH_ENTRY = (
    *_QUEUE_ENTRY,
    _time("storeTimestamp"),
    _plain("baseOffset", 12),
    _plain("batchSize", 9),
    _plain("compactedOffset", 15),
)
_INDEX_ENTRY = tuple(
    _plain(name, width)
    for name, width in (
        ("number", 9), ("at", 11), ("keyHash", 11), ("slot", 8), ("physicalOffset", 14),
        ("timeDiff", 10), ("previous", 9)
    )
)  # fmt: skip
_TIERED_INDEX_ENTRY = tuple(
    _plain(name, width)
    for name, width in (
        ("number", 9), ("at", 11), ("keyHash", 11), ("slot", 8), ("topicId", 8), ("queueId", 8),
        ("offset", 14), ("size", 9), ("timeDiff", 10)
    )
)  # fmt: skip
_SLOT = (
    _plain("slot", 9),
    _plain("at", 11),
    _plain("newest", 9),
    _plain("entries", 8),
    TextColumn("chain, newest first", -1, _chain),
)


_ROW = (_plain("family", -8), TextColumn("row", -1, lambda item: " ".join(
    f"{name} {safe(str(item[name]))}" for name in item if name not in _NO_CELL
)))  # fmt: skip
_FIELD = (_plain("at", 4), _plain("name", -22), _plain("value", 20))

_SENTENCES: dict[str, Callable[[Item], str]] = {
    "damage": lambda i: (
        f"DAMAGE at {i.get('physicalOffset', i['at'])}: {i['field']}{_value(i)}: {i['reason']}"
    ),
    "skipped": lambda i: f"-- {i['bytes']} bytes from {i['physicalOffset']} on belong to no record",
    "blank": lambda i: (
        f"-- end of the segment at {i['physicalOffset']}: BLANK of {i['size']} bytes"
        + ("" if i["restIsZero"] else ", old bytes behind it")
    ),
    "zeros": lambda i: f"-- zeros from {i['physicalOffset']} on, {i['bytes']} bytes",
    "end": lambda i: f"-- end of the file's entries, at {i['at']}",
    "preBlank": lambda i: f"-- pre-blank: {i['entries']} entries from position {i['position']} on",
    "unused": lambda i: f"-- unused: {i['entries']} entries from position {i['position']} on",
    "rest": lambda i: f"-- {i['bytes']} bytes after the last whole entry, at {i['at']}",
    "unknown": lambda i: f"-- bytes of unknown meaning from {i['at']} on",
    "header": lambda i: "\n".join(
        f"{name:<16} {value}" + (f"  {time_text(value)}" if name.endswith("Timestamp") else "")
        for name, value in i.items()
        if name not in ("kind", "at")
    ),
    "abort": lambda i: f"abort: {i['bytes']} bytes, process id {safe(i['text']) or 'none'}",
    "lock": lambda i: f"lock: {i['bytes']} bytes, {safe(i['text'])!r}",
}


def _value(item: Item) -> str:
    value = item["value"]
    if value is None:
        return ""
    # magic numbers are known by their hex digits
    return f" {value & 0xFFFFFFFF:08X}" if item["field"] == "magic" else f" {safe(str(value))}"


def _columns(item: Item) -> tuple[TextColumn, ...] | None:
    match item["kind"]:
        case "record":
            return _RECORD
        case "slot":
            return _SLOT
        case "field":
            return _FIELD
        case "entry" if "topicId" in item:
            return _TIERED_INDEX_ENTRY
        case "row":
            return _ROW
        case "entry" if "number" in item:
            return _INDEX_ENTRY
        case "entry" if "batchSize" in item:
            return _BATCH_ENTRY
        case "entry":
            return _QUEUE_ENTRY
    return None


class TextTable:
    """Turns items into lines, in order, with a heading wherever another table begins."""

    def __init__(self) -> None:
        self._heading: tuple[TextColumn, ...] | None = None
        self._after_break = False

    def show(self, item: Item) -> str:
        """The lines of one item, each with its line end."""
        columns = _columns(item)
        if columns is None:
            return _SENTENCES[item["kind"]](item) + "\n"
        lines = []
        if item.get("afterBreak") and not self._after_break:
            self._after_break = True
            lines.append("-- records after the break: live ones, unless a doubt is noted")
        if columns is not self._heading:
            self._heading = columns
            lines.append(_row(column.cell(column.title) for column in columns))
        lines.append(_row(column.cell(column.text(item)) for column in columns))
        lines += _below(item)
        return "\n".join(lines) + "\n"


def _row(cells: Any) -> str:
    return "  ".join(cells).rstrip()


def _below(item: Item) -> list[str]:
    """The lines below an item's own line: its doubts, properties and body."""
    lines = [f"    doubt: {doubt}" for doubt in item.get("doubts", ())]
    for name, value in item.get("properties", {}).items():
        lines.append(f"    {safe(name)} = {safe(value)}")
    lines += [f"    not a property: {safe(text)}" for text in item.get("notProperties", ())]
    for name in ("body", "bodyHex"):
        if name in item:
            cut = f" (its first {item['bodyShown']} bytes)" if "bodyShown" in item else ""
            lines.append(f"    {name}{cut}: {safe(item[name])}")
    return lines
