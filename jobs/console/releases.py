"""`reput help releases`: what RocketMQ's releases do differently, and how a store tells its own."""

from textwrap import wrap

_WIDTH = 100
_SAYS_RELEASE = """\
A store's own files mostly tell its release, and the log says whether a difference counts: then no
option is needed. A store whose broker was upgraded is of several releases, each from an offset on,
which the index shows: `reput check STORE` says them, and every command that adds to it goes on as
the last one. A release that the files contradict is refused.
"""
# (since, what the release does, where it shows)
CHANGES = (
    ("4.2.0", "a queueOffset below the queue's next position is skipped", "queues"),
    ("4.3.0", "half messages stand in a topic of their own", "new records"),
    ("4.5.1", "a message counts as dispatched by where it ends, before: begins", "queues"),
    ("4.6.0", "IPv6 hosts", "log"),
    ("4.7.1", "hashSlotCount counts the slots in use, before: all keys", "index"),
    ("4.9.1", "malformed properties are read in another way", "queues, index"),
    ("4.9.3", "multi-dispatch to further queues, where it is on", "queues"),
    ("5.0.0", "batch queues, timers; an index without keys has indexCount 1, before: 0", "all"),
    ("5.1.0", "topics of more than 127 bytes; op messages are lists", "log, new records"),
    ("5.1.1", "no multi-dispatch of %RETRY% topics", "queues"),
    ("5.1.2", "nor of delayed messages, nor to names with a slash", "queues"),
    ("5.2.0", "nor of rmq_sys_ topics; the property __CRC32#", "queues, new records"),
    ("5.4.0", "one more key for a message's tags", "index"),
)  # fmt: skip


def text() -> str:
    from reput.store_format.release.profiles import RELEASES, Has, groups, span

    rows = [f"  {since:<7}{what:<74}{where}" for since, what, where in CHANGES]
    alike = ", ".join(map(span, groups(RELEASES, Has(multi_dispatch=False))))
    return "\n".join((
        f"RocketMQ's releases, {RELEASES[0]} to {RELEASES[-1]}, and what each began to do:",
        *rows,
        "",
        *wrap(f"These derive the same bytes, without multi-dispatch: {alike}.", _WIDTH),
        "",
        *wrap(_SAYS_RELEASE, _WIDTH),
        "",
        "Example: reput rebuild STORE --output DIR --rocketmq 5.3.3",
    )) + "\n"  # fmt: skip
