"""What the whole log says of a damaged segment's pieces, whoever reads the segments."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from reput.jobs.compare import compare
from reput.jobs.export import export, verify_export
from reput.jobs.opening.questions import open_store
from reput.store_format.faults import SALVAGE
from tests.damaged import damaged
from tests.in_process import Session, as_text
from tests.jobs.sources.reading import table, write
from tests.logs.encoder import Message
from tests.seeds import some
from tests.store_format.damage.generator import queues_of, salvaged
from tests.store_format.damage.lives import SEGMENT, two_lives

_SEAMS = 2 * 7  # `two_lives` puts back so many pieces of an older life at most
_OF_QUEUES = (0, 0x8)  # transaction types whose records are in queues
# By the records around them alone 27 messages of the older life were taken too.
QUICK = [(10, False)]


def only(store: str, folder: Path, given: dict[str, Any]) -> int:
    """How many messages of a store another one lacks, as `compare` counts them."""
    other = str(write(damaged([Message("Other")], SEGMENT).log, folder / "other"))
    found, _ = compare(Session(), store, [other], **given).pairs[0].found
    return found.count("only") + found.count("again")


def unlike(seed: int, crc: bool, folder: Path) -> list[str]:
    """Which of export, table and stats take other messages than a rebuild."""
    hurt = two_lives(seed, crc)
    store, out = str(write(hurt.log.log, folder / "store")), str(folder / "out")
    queues = queues_of(salvaged(hurt, derived=False).files).values()
    wanted = sorted({place for queue in queues for place in queue.values()})
    settings, release = as_text(hurt.log.settings), hurt.log.version
    rows = table(store, **settings, rocketmq=release, onDamage=SALVAGE)
    given = {"rocketmq": release, "settings": settings}
    export(Session(), store, out, on_damage=SALVAGE, **given)  # type: ignore[arg-type]
    with open_store(store, **given) as opened:  # type: ignore[arg-type]
        counted = sum(each.records for each in opened.stats(["topic"]))
    kinds = zip(rows["physicalOffset"].to_pylist(), rows["sysFlag"].to_pylist(), strict=True)
    found = {
        "table": [place for place, flags in kinds if flags & 0xC in _OF_QUEUES] == wanted,
        "export": pq.read_table(f"{out}/data")["physicalOffset"].equals(rows["physicalOffset"]),
        "verify": verify_export(Session(), store, out, **given).same,  # type: ignore[arg-type]
        "compare": only(store, folder, given) == len(rows),
        # a record that only its `__CRC32#` contradicts is counted: stats reads no checksums
        "stats": counted - len(rows) in range(_SEAMS + 1 if crc else 1),
    }
    return [name for name, same in found.items() if not same]


@pytest.mark.parametrize(("seed", "crc"), QUICK)
def test_messages_of_an_older_life_are_in_no_answer(seed: int, crc: bool, tmp_path: Path) -> None:
    assert unlike(seed, crc, tmp_path) == []


@pytest.mark.long
@pytest.mark.explore
@pytest.mark.parametrize("crc", [False, True], ids=["bare", "crc"])
def test_all_answers_have_the_same_life(crc: bool, tmp_path: Path) -> None:
    for seed in some(range(15)):
        assert unlike(seed, crc, tmp_path / str(seed)) == [], seed
