"""`setting_names` as a table: each setting's names, releases, type, default and treatment."""

import re
from enum import StrEnum
from typing import NamedTuple

from reput.store_format.release.profiles import RELEASES, release_key
from reput.store_format.release.setting_names import HARMLESS, TABLE

_ALSO = "also:"
_INT = re.compile(r"([+-]?)([0-9]+)")
_DIGITS_MOST = 20  # that are looked at; a long has 19
_BITS = {"int": 32, "long": 64}
_MACHINE = "*"


class SettingError(ValueError):
    """A setting is unknown, malformed, or asks for something that reput does not do."""


class Status(StrEnum):
    """How reput treats a setting; see `setting_names`."""

    OBEYED = "obeyed"
    HARMLESS = "harmless"
    WARNED = "warned"
    REFUSED = "refused"


def parse_number(text: str) -> int:
    """As Integer.parseInt: at most one sign, then ASCII digits, and no blank. Raises ValueError.

    Of a number beyond every long its first digits.
    """
    found = _INT.fullmatch(text)
    if found is None:
        raise ValueError("no number")
    return int(found[1] + (found[2].lstrip("0")[:_DIGITS_MOST] or "0"))


class Spelling(NamedTuple):
    """A name, and the releases whose classes have it; if `since` is empty, no class has it."""

    name: str
    since: str
    until: str  # the last release; empty: up to now

    def known_to(self, release: str) -> bool:
        """Whether this release's broker takes the name from its file."""
        if not self.since:
            return False
        last = release_key(self.until or RELEASES[-1])
        return release_key(self.since) <= release_key(release) <= last


class KnownSetting(NamedTuple):
    """One setting: its newest spelling, its older ones, and how reput treats it.

    A plain tuple, as each start makes some hundreds of them.

    kind: int, long, double, boolean, text, or all allowed values with | between them.
    default: as text in a broker's file; None if it depends on the machine.
    """

    name: str
    since: str
    until: str
    older: tuple[Spelling, ...]
    kind: str
    default: str | None
    derive: Status
    append: Status
    reason: str

    @property
    def in_any(self) -> tuple[Spelling, ...]:
        """All spellings, the newest first."""
        return (Spelling(self.name, self.since, self.until), *self.older)

    def known_to(self, release: str) -> bool:
        """`Spelling.known_to` of the newest name."""
        return self.in_any[0].known_to(release)

    def value(self, text: str, name: str = "") -> bool | int | str:
        """The value that MixAll.properties2Object reads from a text.

        Raises SettingError, with the given name, if RocketMQ would silently keep its default (a
        number with a blank after it) or read false (yes, 1, on).
        """
        name = name or self.name
        if self.kind == "boolean":
            if text.lower() not in ("true", "false"):
                raise SettingError(
                    f"{name}={text!r}: true or false is wanted (RocketMQ reads all else as false)"
                )
            return text.lower() == "true"
        if self.kind in _BITS:
            return self._number(text, name)
        text = text.strip()  # RocketMQ strips texts, but not numbers
        if "|" in self.kind and text not in self.kind.split("|"):
            raise SettingError(f"{name}={text}: one of {self.kind.replace('|', ', ')} is wanted")
        return text

    def _number(self, text: str, name: str) -> int:
        try:
            value, limit = parse_number(text), 1 << (_BITS[self.kind] - 1)
        except ValueError:
            raise SettingError(
                f"{name}={text!r}: a whole number is wanted, without blanks or other characters "
                f"(RocketMQ would keep its default{self._default_text})"
            ) from None
        if not -limit <= value < limit:
            raise SettingError(
                f"{name}={text[:40]}: out of range {-limit}..{limit - 1} of a Java {self.kind} "
                f"(RocketMQ would keep its default{self._default_text})"
            )
        return value

    @property
    def _default_text(self) -> str:
        return f", {self.default}" if self.default else ""

    def differs(self, text: str, name: str) -> bool:
        """Whether the text's value is not the default."""
        value = self.value(text, name)
        return self.default is None or value != self.value(self.default)


def _read(table: str) -> tuple[KnownSetting, ...]:
    rows: list[KnownSetting] = []
    derive = append = Status.HARMLESS
    reason = ""
    for line in table.strip().splitlines():
        if line[0] == "[":
            how, _, reason = line[1:].partition("] ")
            derive, append = (Status(each) for each in how.split())
            continue
        about, _, default = line.partition(" = ")
        name, kind, releases, *also = about.split(" ")
        since, _, until = releases.partition("-")
        rows.append(
            KnownSetting(
                name, since, until, _older(also[0].removeprefix(_ALSO) if also else ""),
                kind, None if default == _MACHINE else default, derive, append, reason,
            )
        )  # fmt: skip
    return tuple(rows)


def _older(text: str) -> tuple[Spelling, ...]:
    spellings = []
    for part in filter(None, text.split(",")):
        name, _, releases = part.partition("@")
        since, _, until = releases.partition("-")
        spellings.append(Spelling(name, since, until))
    return tuple(spellings)


SETTINGS = _read(TABLE + HARMLESS)
BY_NAME = {spelling.name: known for known in SETTINGS for spelling in known.in_any}
