"""What lies in the folders of a broker's files: its own files, and what others have left there.

The one look that all commands share: what is no broker's file is never read, moved or removed.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from reput.store_format import names
from reput.store_format.files.folder import Folder
from reput.store_format.files.protocol import Files, FileState, Listed, is_folder
from reput.store_format.log.segments import Finding
from reput.store_format.release.profiles import Profile

# What is in a folder below a store; nothing if there is no such folder.
Lists = Callable[[str], Iterable[Listed]]


class Stranger(NamedTuple):
    """What stands in the way among a broker's files: `lost+found`, `.nfs...`, `.DS_Store`,
    somebody's copy, or a last file of 0 bytes, which may be a broker's own.
    """

    path: str
    folder: str  # the kind of folder that it lies in: COMMIT_LOG, INDEX, or that of queues
    state: FileState | None  # None for what is no regular file
    mapped: bool = True  # whether it lies among files that a MappedFileQueue loads
    empty: bool = False  # the last segment, or the last of all names, without a byte
    behind: str = ""  # what sorts behind it, last of all

    def is_passed_over(self, profile: Profile) -> bool:
        """Whether a broker of that release starts as if it were not there.

        IndexService.load logs a name that is no number, ConsumeQueueStore.load goes by numbers.
        MappedFileQueue.doLoad passes folders over from 5.1.0 on, removes an empty file that is the
        last of all names from 5.1.3 on, and ends at any other file of another length.
        """
        if self.folder == names.INDEX:
            return not self._is_number
        if self.empty:
            return profile.removes_empty_last and not self.behind
        return not self.mapped or (self.state is None and profile.passes_folders_over)

    @property
    def _is_number(self) -> bool:
        return self.path.rpartition("/")[2].isdigit()

    def text(self, profile: Profile) -> str:
        """For people: what it is, and what a broker does with it."""
        passed = self.is_passed_over(profile)
        if self.empty:
            what = "has 0 bytes, as a crash leaves it, and a broker"
            if passed:
                return f"{what} removes it"
            if profile.removes_empty_last:
                return f"{what} does not start with it, as {self.behind} sorts behind it"
            return f"{what} before 5.1.3 does not start with it"
        what = "is not a file of RocketMQ's" if self.state else "is neither a file nor RocketMQ's"
        if passed:
            return f"{what}, which passes it over; it is left as it is"
        if self._is_number and (self.state or self.folder == names.INDEX):
            return f"{what}, which takes it for a file of its own; it is left as it is"
        if self.state is None:
            return f"{what}, which before 5.1.0 does not start with it; it is left as it is"
        return f"{what}, which does not start with it; it is left as it is"

    @property
    def todo(self) -> str:
        """What a person does where a broker does not start with it."""
        if self.empty:
            return f"remove {self.path}, while no broker runs"
        return f"move {self.path} out of the store, while no broker runs"


Found = str | Stranger  # the path of a broker's file below the store, or what is none


def of_storage(store: Folder) -> Lists:
    """Lists the folders of a store by a storage; a link to a file counts as that file."""

    def lists(path: str) -> Iterator[Listed]:
        for name, state in store.listed(path):
            linked = store.storage.follow(f"{store}/{path}/{name}")[1] if state is None else None
            yield Listed(name, state or linked)

    return lists


def of_files(files: Files, store: str) -> Lists:
    """Lists the folders of a store by `Files`; each file's state is the same, its size unknown.

    Raises StoreError for a link.
    """
    some = FileState(-1, 0, 0)

    def lists(path: str) -> Iterator[Listed]:
        for name in files.names(f"{store}/{path}"):
            is_folder = files.is_folder(f"{store}/{path}/{name}")
            yield Listed(name, None if is_folder else some)

    return lists


def derived_there(lists: Lists) -> Iterator[Found]:
    """The queue files below a store, then the index files, and what lies among them.

    Of a RocksDB of queues nothing is named.
    """
    for kind in (names.CONSUME_QUEUE, names.BATCH_CONSUME_QUEUE):
        topics = list(lists(kind))
        in_rocksdb = any(name == names.CURRENT for name, _ in topics)
        for topic, state in topics:
            if state is None:
                yield from _of_topic(lists, kind, topic)
            elif not in_rocksdb:
                yield Stranger(f"{kind}/{topic}", kind, state, mapped=False)
    yield from index_there(lists)


def index_there(lists: Lists) -> Iterator[Found]:
    """The index files below a store, and what lies among them."""
    for name, state in lists(names.INDEX):
        path = f"{names.INDEX}/{name}"
        yield path if names.is_index_name(name) else Stranger(path, names.INDEX, state)


def _of_topic(lists: Lists, kind: str, topic: str) -> Iterator[Found]:
    if topic.startswith(names.LMQ_PREFIX):
        folders: dict[str, set[str]] = {}
        for queue in names.queues_of_topic(
            kind, topic, partial(_noted, lists, folders), partial(_is_folder, folders)
        ):
            files = (each for each in lists(str(queue)) if each.state is not None)
            yield from _mapped(str(queue), kind, files)
        return
    for name, state in lists(f"{kind}/{topic}"):
        path = f"{kind}/{topic}/{name}"
        if state is None and names.is_queue_folder(name):
            yield from _mapped(path, kind, lists(path))
        else:
            yield Stranger(path, kind, state, mapped=False)


def _noted(lists: Lists, folders: dict[str, set[str]], path: str) -> list[str]:
    found = list(lists(path))
    folders[path] = {name for name, state in found if state is None}
    return [name for name, _ in found]


def _is_folder(folders: dict[str, set[str]], path: str) -> bool:
    above, _, name = path.rpartition("/")
    return name in folders[above] if above in folders else True


def _mapped(folder: str, kind: str, there: Iterable[Listed]) -> Iterator[Found]:
    """What lies in a folder of files that a MappedFileQueue loads."""
    for name, state in there:
        path = f"{folder}/{name}"
        is_file = state is not None and names.segment_start(name) is not None
        yield path if is_file else Stranger(path, kind, state)


class There(NamedTuple):
    """The derived files below a store, by paths below it, and the strangers among those of queues,
    by whole paths; `strangers` has the others.
    """

    files: list[str]
    strangers: list[Stranger]


def derived_files(store: Folder) -> There:
    """What `derived_there` finds in a store or a set. Raises OSError."""
    found = list(derived_there(of_storage(store)))
    return There(
        [each for each in found if isinstance(each, str)],
        [
            _below(store.path, each)
            for each in found
            if isinstance(each, Stranger) and each.folder != names.INDEX
        ],
    )


def _below(store: str, stranger: Stranger) -> Stranger:
    return stranger._replace(path=f"{store}/{stranger.path}")


def strangers(store: Folder, log_folders: Sequence[str]) -> list[Stranger]:
    """The strangers among a log's segments, and in `index/`, by their whole paths.

    A MappedFileQueue sorts the names of all folders of the log as one list.
    """
    among = sorted(
        (name, folder, state)
        for folder in log_folders
        for name, state in Folder(store.storage, folder).listed()
    )
    found = []
    ended = False  # whether a segment's name was passed, from the last on
    for number, (name, folder, state) in reversed(list(enumerate(among))):
        is_segment = names.segment_start(name) is not None and not (
            state is None and is_folder(store.storage, f"{folder}/{name}")
        )
        last = number == len(among) - 1
        empty = state is not None and not state.size and (last or (is_segment and not ended))
        if empty or not is_segment:
            behind = "" if last else among[-1][0]
            path = f"{folder}/{name}"
            found.append(Stranger(path, names.COMMIT_LOG, state, empty=empty, behind=behind))
        ended |= is_segment
    found.reverse()
    index = index_there(of_storage(store))
    return found + [_below(store.path, each) for each in index if isinstance(each, Stranger)]


def of_strangers(found: Iterable[Stranger], rules: Profile) -> tuple[list[str], list[Finding]]:
    """(warnings of strangers that a broker passes over, findings of those that stop its start)."""
    said, findings = [], []
    for each in found:
        if each.is_passed_over(rules):
            said.append(f"{each.path}: {each.text(rules)}")
        else:
            findings.append(Finding(each.path, each.text(rules), todo=each.todo))
    return said, findings


def said_of_strangers(found: Iterable[Stranger], rules: Profile) -> list[str]:
    """Warnings of all of them, for a command that goes on."""
    said, in_the_way = of_strangers(found, rules)
    return said + [f"{each.path}: {each.reason}" for each in in_the_way]
