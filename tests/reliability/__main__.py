"""`python -m tests.reliability [TABLE ...] [--every N]`: the tables of docs/reliability.md."""

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import product
from queue import SimpleQueue
from typing import Any

from tests.reliability import derived
from tests.reliability.hostile import STORES, Hostile
from tests.reliability.inputs import LAST, PLACES, VERSION, Input, Small, cuts, flips, holes, small
from tests.reliability.outcome import Class, Outcome, classify, ours
from tests.reliability.rocketmq import RocketMQ, rocketmq
from tests.store_format.damage import generator as drawn

_RANDOM_LOGS = 4  # of each kind, with and without `__CRC32#`, with and without queue files
_JVMS = 12  # mostly asleep: half a second at each stop, 30 s where a topic can be no folder
_HEAD = ("as if undamaged", "touched message given up", "named, kept as it reads",
         "accepted wrong", "others lost", "all lost")  # fmt: skip
_CLASSES = (Class.SAME, Class.LOST, Class.NAMED_WRONG, Class.WRONG,
            Class.OTHERS_LOST, Class.ALL_LOST)  # fmt: skip


class Engines:
    """RocketMQ's recoveries, a few at a time."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._free: SimpleQueue[RocketMQ] = SimpleQueue()
        self._started = False

    def map(self, ask: Callable[[RocketMQ, Any], Any], given: Iterable[Any]) -> Iterator[Any]:
        if not self._started:
            for _ in range(_JVMS):
                self._free.put(self._stack.enter_context(rocketmq()))
            self._started = True

        def one(each: Any) -> Any:
            engine = self._free.get()
            try:
                return ask(engine, each)
            finally:
                self._free.put(engine)

        with ThreadPoolExecutor(_JVMS) as pool:
            yield from pool.map(one, given)


def _rows(
    engines: Engines, name: str, store: Small, inputs: list[Input],
    note: Callable[[Input, Class, Class, Outcome], None] = lambda *_: None,
) -> Iterator[str]:  # fmt: skip
    """RocketMQ's row and ours; note: is told of each input, our class of it, RocketMQ's."""
    mine_sound = ours(store)
    (theirs_sound,) = engines.map(lambda engine, _: engine.recover(store), [None])
    assert theirs_sound.messages == mine_sound.messages
    theirs = engines.map(lambda engine, each: engine.recover(store, each), inputs)
    counts: tuple[Counter[Class], Counter[Class]] = Counter(), Counter()
    for each, their in zip(inputs, theirs, strict=True):
        mine = ours(store, each)
        found = (classify(store, theirs_sound, their, each.number),
                 classify(store, mine_sound, mine, each.number))  # fmt: skip
        for count, kind in zip(counts, found, strict=True):
            count[kind] += 1
        note(each, found[1], found[0], mine)
    for who, count in zip(("RocketMQ", "reput salvage"), counts, strict=True):
        yield f"| {name}: {who} | " + " | ".join(str(count[kind]) for kind in _CLASSES) + " |"


def _header(first: str) -> list[str]:
    return [f"| {first} | " + " | ".join(_HEAD) + " |", "|---|" + "---:|" * len(_HEAD)]


def flips_table(engines: Engines, every: int) -> Iterator[str]:
    """Every bit of three records: totals, and the fields in which a flip is not named."""
    store = small()
    yield from _header(f"flips of a record, RocketMQ {VERSION} and reput")
    fields: dict[str, Counter[str]] = {}
    lost = (Class.OTHERS_LOST, Class.ALL_LOST)

    def note(given: Input, my: Class, their: Class, outcome: Outcome) -> None:
        field = fields.setdefault(given.field, Counter())
        field.update(bits=1, named=outcome.reported, ours=my in lost, theirs=their in lost)

    for name, number in PLACES.items():
        inputs = [*flips(store, number, every)]
        yield from _rows(engines, f"{name} record", store, inputs, note)
    yield ""
    yield "| field | bits | named by reput | reput: others lost | RocketMQ: others lost |"
    yield "|---|---:|---:|---:|---:|"
    for name, found in fields.items():
        counts = " | ".join(str(found[each]) for each in ("bits", "named", "ours", "theirs"))
        yield f"| {name} | {counts} |"


def tails_table(engines: Engines, every: int) -> Iterator[str]:
    """Every cut of the last record and every hole in it, for each kind of record."""
    yield from _header(f"last record, RocketMQ {VERSION} and reput")
    for kind in LAST:
        store = small(kind)
        for what, inputs in (("cuts", cuts(store)), ("holes", holes(store))):
            yield from _rows(engines, f"{kind}, {what}", store, [*inputs][::every])


def derived_table(engines: Engines, every: int) -> Iterator[str]:
    """Every bit of three queue entries, an index header and a checkpoint."""
    store = small()
    (sound,) = engines.map(lambda engine, _: engine.closed(store), [None])
    index = next(path for path in sound if path.startswith("index/"))
    # so that what is counted as wrong is the flip's doing
    untouched = derived.Wrong("none", "", 0)
    assert [*engines.map(lambda engine, _: engine.reopen(store, sound, untouched), [0])] == [
        "right"
    ]
    bits = [*derived.wrong_bits(index, every)]
    found: dict[str, Counter[str]] = {}
    theirs = engines.map(lambda engine, wrong: engine.reopen(store, sound, wrong), bits)
    assert derived.verified(store, sound).same
    for wrong, their in zip(bits, theirs, strict=True):
        part = found.setdefault(wrong.part, Counter())
        part["bits"] += 1
        part["named"] += not derived.verified(store, sound, wrong).same
        part[their] += 1
    yield "| part | bits | named by reput verify | RocketMQ: put right | kept wrong | fails |"
    yield "|---|---:|---:|---:|---:|---:|"
    for name, part in found.items():
        yield (f"| {name} | {part['bits']} | {part['named']} | {part['right']} | "
               f"{part['wrong']} | {part['fails']} |")  # fmt: skip


def hostile_table(engines: Engines, every: int) -> Iterator[str]:
    """Each hostile store: what reput ends with and says, what RocketMQ makes of it."""
    yield f"| store | `reput rebuild` | RocketMQ {VERSION} after a crash |"
    yield "|---|---|---|"
    stores = STORES[::every]
    answers = engines.map(lambda engine, each: engine.hostile(each), stores)
    for each, (outcome, outside) in zip(stores, answers, strict=True):
        theirs = outcome.failed[:90] or f"{outcome.messages} messages"
        if outside:
            theirs += ", **a folder outside its store**"
        yield f"| {each.name} | {_mine(each)} | {theirs} |"


def _mine(given: Hostile) -> str:
    done = "refused" if given.left is None else f"{given.left} messages"
    return f"exit code {given.code}: {done}"


def random_table(engines: Engines, every: int) -> Iterator[str]:
    """Random damage of every kind, with and without `__CRC32#` and queue files, judged against the
    truth. RocketMQ is not asked."""
    yield "| kind | logs | untouched | displaced or lost | made up | kept, unnamed | contradicted |"
    yield "|---|---:|---:|---:|---:|---:|---:|"
    for kind in [*drawn.KINDS][::every]:
        total, logs = drawn.Judged(), 0
        for crc, with_queues, seed in product((False, True), (False, True), range(_RANDOM_LOGS)):
            hurt = drawn.generate(kind, seed, crc)
            made = drawn.salvaged(hurt, with_queues)
            total.add(
                drawn.judge(
                    hurt, drawn.queues_of(made.files), drawn.named_in(made.summary), with_queues
                )
            )
            logs += 1
        yield (f"| {kind} | {logs} | {total.untouched:,} | {total.displaced} | "
               f"{total.fabricated} | {total.unnamed} | {total.contradicted} |")  # fmt: skip


TABLES = {"random": random_table, "flips": flips_table, "tails": tails_table,
          "derived": derived_table, "hostile": hostile_table}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability", description=__doc__)
    parser.add_argument("tables", nargs="*", default=[], metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--every", type=int, default=1, help="only each N-th input")
    given = parser.parse_args()
    with ExitStack() as stack:
        engines = Engines(stack)
        for name in given.tables or TABLES:
            for line in TABLES[name](engines, given.every):
                print(line, flush=True)
            print(flush=True)


if __name__ == "__main__":
    main()
