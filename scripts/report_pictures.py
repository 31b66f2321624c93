"""Draws the pictures of a report that README and docs/ show: `python -m scripts.report_pictures`.

Wants a Chromium of the system. The store has a week of messages of a shop; of the damaged one
a record has lost its head.
"""

import random
import shutil
import subprocess
import tempfile
from pathlib import Path

import reput
from tests.jobs.page.stores import AT, Message, of_messages
from tests.logs.encoder import properties

TO = Path(__file__).resolve().parent.parent / "docs/pictures"
_TOPICS = {"orders": 6, "clicks": 5, "payments": 3, "invoices-europe-v2": 2, "audit": 1}
_SHOWN = "/data/store"  # in the pictures, for the folder where the store was made
_MESSAGES, _SEGMENT, _HEIGHT = 20_000, 1 << 24, 860
_SETTINGS = {"maxHashSlotNum": "2000", "maxIndexNum": "8000", "mappedFileSizeConsumeQueue": "20000"}


def messages() -> list[Message]:
    """A week of them, more at day than at night."""
    dice, made, time, ends = random.Random(1), [], AT, dict[tuple[str, int], int]()
    for n in range(_MESSAGES):
        night = time // 3_600_000 % 24 < 6
        time += dice.randrange(1, 120_000 if night else 50_000)
        queue = (dice.choices(list(_TOPICS), list(_TOPICS.values()))[0], dice.randrange(4))
        ends[queue] = ends.get(queue, -1) + 1
        made.append(
            Message(
                topic=queue[0], queue_id=queue[1], queue_offset=ends[queue], store_timestamp=time,
                body=bytes(dice.randrange(20, 3000)), properties=properties(("KEYS", str(n))),
            )
        )  # fmt: skip
    return made


def main() -> None:
    """Make both stores, their reports, and a picture of the top of each."""
    with tempfile.TemporaryDirectory() as folder:
        store = of_messages(messages(), Path(folder), _SEGMENT)
        reput.rebuild(str(store), f"{folder}/rebuilt", rocketmq="5.3.3", settings=_SETTINGS)
        shutil.copytree(f"{folder}/rebuilt", store, dirs_exist_ok=True)
        (store / "manifest.json").unlink()
        for name in ("report", "report-damaged"):
            if name == "report-damaged":
                segment = min((store / "commitlog").iterdir())
                data = bytearray(segment.read_bytes())
                at = data.index(b"\xda\xa3\x20\xa7", 9_000_000)  # the magic code of a record
                data[at] ^= 0xFF
                segment.write_bytes(data)
            file = Path(folder, f"{name}.html")
            reput.report(str(store), str(file), rocketmq="5.3.3")
            file.write_text(file.read_text("utf-8").replace(str(store), _SHOWN), "utf-8")
            subprocess.run(
                ["chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                 f"--user-data-dir={folder}/browser", f"--window-size=1280,{_HEIGHT}",
                 "--virtual-time-budget=60000", f"--screenshot={TO / name}.png", file.as_uri()],
                check=True, capture_output=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
