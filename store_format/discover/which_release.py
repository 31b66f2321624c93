"""The release that wrote a store last, by its clues; where these do not tell, the user is asked."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from reput.store_format.release.profiles import Clue, Has, UnknownRelease, groups, left_by, span

_WHICH = "Which RocketMQ release should this store follow?"
_LISTED = 4  # groups of releases, in a question
_EXAMPLE = "Example: --rocketmq 5.3.3 (`reput help releases` says what differs)"


class ReleaseFound(NamedTuple):
    """A release that a store's files show, and by what. others: if the release is only assumed, one
    of each group of releases that might be meant instead, newest first.
    """

    release: str
    by: str
    others: tuple[str, ...] = ()
    alike: str = ""  # the releases that would write the same, as a text


def release_found(
    clues: Sequence[Clue], hints: Sequence[Clue], has: Has,
    look: Callable[[Has], Has] = lambda has: has, assume: bool = False,
) -> ReleaseFound:  # fmt: skip
    """The release that wrote last.

    hints: clues that choose among releases that derive the same files. look: reads the log for what
    `has` asks, only if that matters. assume: take the newest where several releases are left.

    Raises UnknownRelease where more than one is left: it lists them.
    """
    releases = left_by(clues)
    seen = "; ".join(dict.fromkeys(clue.seen for clue in clues)) or "the files show nothing"
    if not releases:
        raise UnknownRelease(f"{_WHICH} Its files fit no single one: {seen}. {_EXAMPLE}")
    grouped, by = groups(releases, has), "write the same"
    plain = has._replace(odd_positions=False, malformed=False, index_without_keys=False)
    if len(grouped) > 1 and not assume and len(groups(releases, plain)) == 1:
        grouped, by = groups(releases, look(has)), "derive the same from this log"
    if len(grouped) > 1 and not assume:
        raise UnknownRelease(
            f"{_WHICH} Its files don't say: it may be {_any_of(grouped)}. {_EXAMPLE}"
        )
    chosen = releases[-1]
    for release in reversed(grouped[-1]):
        if all(release in left_by([hint]) for hint in hints):
            chosen = release
            break
    if len(grouped) > 1:
        others = tuple(group[-1] for group in reversed(grouped[:-1]))
        alike = f"{span(grouped[-1])}, assumed"
        return ReleaseFound(chosen, f"assumed, of {span(releases)}: {seen}", others, alike)
    by = f"{span(releases)} {by}: {seen}" if len(releases) > 1 else seen
    return ReleaseFound(chosen, by, alike=span(releases))


def _any_of(grouped: Sequence[Sequence[str]]) -> str:
    """`4.7.1 to 4.9.0 or 4.9.1 to 5.3.4`; of many only the first and the last."""
    if len(grouped) > _LISTED:
        return f"any from {grouped[0][0]} to {grouped[-1][-1]}"
    return f"{', '.join(map(span, grouped[:-1]))} or {span(grouped[-1])}"
