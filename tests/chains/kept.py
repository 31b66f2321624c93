"""The kept stores of upgraded brokers."""

from pathlib import Path

STORES = Path(__file__).parent / "stores"


HEADER, SLOT, ENTRY = 40, 4, 20


SLOTS, ENTRIES = 20, 100
FIRST_ENTRY = HEADER + SLOT * SLOTS + ENTRY


def index_files(store: Path) -> list[Path]:
    return sorted((store / "index").iterdir())
