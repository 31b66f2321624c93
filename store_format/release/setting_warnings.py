"""Warnings about settings that a command does not obey as RocketMQ would, by `setting_table`."""

from collections.abc import Callable, Mapping
from typing import Literal

from reput.store_format.release.profiles import release_key
from reput.store_format.release.setting_table import BY_NAME, KnownSetting, SettingError, Status
from reput.store_format.release.settings import ignored_by

Doing = Literal["derive", "append"]


def setting_warnings(given: Mapping[str, str], release: str, doing: Doing) -> list[str]:
    """A line for each given setting that RocketMQ would obey and this command does not.

    given: name -> text, for known names.
    doing: "derive" for every command that derives files from a log, "append" for the writer. A
    setting with its default value changes nothing and gets no line. Raises SettingError for a
    malformed value, and for a setting that the command refuses.
    """
    return [
        line
        for name, text in given.items()
        for line in _SAID[_status(name, doing)](BY_NAME[name], name, text, release, doing)
    ]


def _status(name: str, doing: Doing) -> Status:
    return BY_NAME[name].derive if doing == "derive" else BY_NAME[name].append


def _obeyed(known: KnownSetting, name: str, text: str, release: str, doing: Doing) -> list[str]:
    if ignored_by(name, release):
        if not known.differs(text, name):
            return []
        return [
            f"{name}={text}: RocketMQ {release} has no such setting (since {known.since}) and "
            f"takes no notice of it: nor is it done here"
        ]
    spelling = next(each for each in known.in_any if each.name == name)
    newer = name != known.name and not spelling.known_to(release)
    if newer and release_key(release) >= release_key(known.since):
        return [
            f"{name}={text}: RocketMQ {release} calls it {known.name} and takes no notice of "
            f"{name}; here it counts as {known.name}"
        ]
    return []


def _warned(known: KnownSetting, name: str, text: str, release: str, doing: Doing) -> list[str]:
    there = any(spelling.known_to(release) for spelling in known.in_any)
    if not there or not known.differs(text, name):
        return []
    return [f"{name}={text}: not done: {known.reason}"]


def _refused(known: KnownSetting, name: str, text: str, release: str, doing: Doing) -> list[str]:
    if known.name == "brokerRole":
        return _role(known, name, text)
    # `refuse_unsupported` refuses others; a command refuses folders as it compares them
    return []


def _role(known: KnownSetting, name: str, text: str) -> list[str]:
    """HookUtils.checkBeforePutMessage: a slave answers SERVICE_NOT_AVAILABLE to every put."""
    role = known.value(text, name)
    if role == "SLAVE":
        raise SettingError(
            f"{name}=SLAVE: a slave's log is a copy of its master's, and takes no messages: append "
            f"to the master's store"
        )
    if role == "SYNC_MASTER":
        return [
            f"{name}=SYNC_MASTER: not done: nothing is replicated: PUT_OK speaks of this disk alone"
        ]
    return []


def _harmless(known: KnownSetting, name: str, text: str, release: str, doing: Doing) -> list[str]:
    return []


_SAID: dict[Status, Callable[[KnownSetting, str, str, str, Doing], list[str]]] = {
    Status.OBEYED: _obeyed,
    Status.HARMLESS: _harmless,
    Status.WARNED: _warned,
    Status.REFUSED: _refused,
}
