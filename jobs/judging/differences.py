"""How a derived file differs from what the log gives."""

from collections.abc import Sequence
from dataclasses import dataclass

NO_SUCH_FILE = "the log gives no such file"
MISSING = "the file is missing"
FILE_LENGTH = "file length"
MISSING_AT_END = "entries are missing at its end"
ONE_TOO_MANY = "one entry too many"


@dataclass
class Difference:
    """The first difference of one file: where, which field, what is there and should be."""

    path: str
    offset: int
    field: str
    there: int | None
    wanted: int | None

    def text(self) -> str:
        if self.there is None or self.wanted is None:
            return f"{self.path}: {self.field}"
        return (
            f"{self.path}: offset {self.offset}: {self.field}: "
            f"is {self.there}, should be {self.wanted}"
        )


def compared_text(files: int, shown: str, in_rocksdb: Sequence[str]) -> str:
    """What was compared, for people. shown: the number of files, as a text that is left out where
    there are rows alone; in_rocksdb: the same of each kind of rows.
    """
    rows = f"{', '.join(in_rocksdb)} in RocksDB" if in_rocksdb else ""
    return ", ".join(filter(None, (shown if files or not rows else "", rows)))
