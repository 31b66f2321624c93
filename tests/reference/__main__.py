"""`python -m tests.reference FOLDER...`: compares golden stores with what the reference derives."""

import sys
from pathlib import Path

from tests.golden_stores import read
from tests.reference import compare, derive


def main(folders: list[str]) -> int:
    differ = 0
    for folder in folders:
        store = read(Path(folder))
        with store.segments() as segments:
            derivation = derive(segments, store.settings, store.version, store.topic_attributes)
        difference = compare(derivation, store.expect)
        differ += difference is not None
        print(f"{store.root.name}: {difference or 'OK'} ({derivation.messages} messages, "
            f"{len(derivation.files)} files, end {derivation.end}: {derivation.stop})")  # fmt: skip
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
