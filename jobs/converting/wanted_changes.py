"""The user's changes, checked: topics, new names, the store's host."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches

from reput.store_format.message.message import check_sendable, check_topic, encode_host
from reput.store_format.message.refusals import Refused
from reput.store_format.names import LMQ_PREFIX
from reput.store_format.release.profiles import Profile
from reput.store_format.release.setting_table import SettingError
from reput.store_format.rewrite.selection import Changes, is_shared

_NAMES_SHOWN = 5
_V1_MOST, _V2_MOST = 127, 255  # characters of a topic: HookUtils.MAX_TOPIC_LENGTH


def parse_renames(pairs: Iterable[str]) -> dict[str, str]:
    """`A=B` words, as --rename takes them. Raises SettingError."""
    renames: dict[str, str] = {}
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old or not new:
            raise SettingError(f"--rename {pair[:80]!r}: OLD=NEW is wanted, two topics' names")
        if old in renames:
            raise SettingError(f"--rename {pair[:80]!r}: {old!r} has a new name already")
        renames[old] = new
    return renames


def wanted_changes(
    topics: Sequence[str], dropped: Sequence[str], renames: Mapping[str, str],
    store_host: str | None, release: Profile,
) -> Changes:  # fmt: skip
    """The changes for a new store of a release. Raises SettingError."""
    if topics and dropped:
        raise SettingError("--topic names all topics that are taken: --drop has nothing to add")
    for old, new in renames.items():
        _check_rename(old, new, release)
    if len(set(renames.values())) < len(renames):
        raise SettingError("--rename: two topics would get the same name; choose two names")
    host = b""
    if store_host is not None:
        try:
            host = encode_host(store_host)
        except Refused as error:
            raise SettingError(f"--store-host: {error}; HOST is an IP address") from None
    return Changes(
        tuple(dict.fromkeys(topics)),
        tuple(dict.fromkeys(dropped)),
        tuple(renames.items()),
        store_host=host,
    )


def _check_rename(old: str, new: str, release: Profile) -> None:
    for name in (old, new):
        if is_shared(name) or name.startswith(LMQ_PREFIX):
            raise SettingError(
                f"--rename {old[:80]!r}: {name[:80]!r} is a topic of the broker's, or of a group's "
                "own; only the topics of producers can be renamed"
            )
    try:
        check_sendable(new)
        check_topic(new, _V2_MOST if release.long_topics else _V1_MOST)
    except Refused as error:
        raise SettingError(f"--rename {old[:80]!r}: {error}") from None


def refuse_unknown_topics(changes: Changes, there: set[str]) -> None:
    """Raise SettingError for a topic that the store lacks, or a new name that is in use."""
    asked = (*changes.topics, *changes.dropped, *(old for old, _ in changes.renames))
    for name in asked:
        if name not in there:
            near = get_close_matches(name, there, _NAMES_SHOWN) or sorted(there)[:_NAMES_SHOWN]
            raise SettingError(f"no topic {name[:80]!r} in this store; it has {', '.join(near)}")
    left = there - {old for old, _ in changes.renames}
    for old, new in changes.renames:
        if new in left and changes.of_queue(new).fate:
            raise SettingError(
                f"--rename {old}={new}: the store has a topic {new}: their messages would be one "
                "topic's; choose another name, or --drop the other"
            )
