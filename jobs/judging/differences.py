"""How a derived file differs from the file that the log gives."""

from collections.abc import Sequence
from dataclasses import dataclass

NO_SUCH_FILE = "the log gives no such file"
MISSING = "the file is missing"
FILE_LENGTH = "file length"
MISSING_AT_END = "entries are missing at its end"
ONE_TOO_MANY = "one entry too many"


@dataclass
class Difference:
    """The first difference of one file.

    offset: bytes in the file; there, wanted: the field's value in the file, and by the log.
    """

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
    """A text of what was compared. files: number of files; shown: the text for them, left out if
    only rows of RocksDB were compared; in_rocksdb: a text for each kind of rows.
    """
    rows = f"{', '.join(in_rocksdb)} in RocksDB" if in_rocksdb else ""
    return ", ".join(filter(None, (shown if files or not rows else "", rows)))
