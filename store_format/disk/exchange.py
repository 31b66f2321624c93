"""Gives a whole folder its final name in one atomic step; if that fails nothing has changed."""

from collections.abc import Callable

from reput.store_format.disk.files import Files
from reput.store_format.faults import StoreChanged


class NotDurable(OSError):
    """The folder got its name, but the fsync after that failed, so a power cut may undo it.

    Neither the old set nor the new one may be removed then. The fsync is not tried again: a second
    one may succeed without having written what the first one lost.
    """


def put_in_place(
    files: Files, folder: str, to: str, replace: bool,
    approve: Callable[[str], object] = lambda path: None,
) -> None:  # fmt: skip
    """Make all of `folder` durable, then give it the name `to`, on the same file system.

    Without `replace`, `to` must be missing or empty. With it, what was at `to` has the name
    `folder` afterwards. approve: is called with the path of what would be replaced, and raises if
    that must stay. It is called right before the step and again right after it. The second call
    sees a name that no other process knows, so that what was approved is what is removed later.
    Raises OSError, or what approve raises, if nothing has changed; NotDurable if it has.
    """
    files.sync_all(folder)
    if replace and files.exists(to):
        approve(to)
        known = files.inode(to)
        files.exchange(folder, to)
        try:
            if files.inode(folder) != known:
                raise StoreChanged(f"{to}: another folder came there meanwhile: it was put back")
            approve(folder)
        except BaseException:
            _put_back(files, folder, to)
            raise
    else:
        files.rename(folder, to)
    parent = to.rpartition("/")[0]
    try:
        files.sync_folder(parent)
    except OSError as error:
        raise NotDurable(
            error.errno, f"the new set is there, but may not outlast a power cut: {error}", to
        ) from None


def _put_back(files: Files, folder: str, to: str) -> None:
    files.exchange(to, folder)
