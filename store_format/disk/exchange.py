"""One atomic step for a whole folder: it takes its place, or nothing has changed."""

from collections.abc import Callable

from reput.store_format.disk.files import Files
from reput.store_format.faults import StoreChanged


class NotDurable(OSError):
    """The step was taken, but its fsync failed: after a power cut either set may be there.

    So neither may be removed. The fsync is not tried again: it would succeed without having
    written what the first one lost.
    """


def put_in_place(
    files: Files, folder: str, to: str, replace: bool,
    approve: Callable[[str], object] = lambda path: None,
) -> None:  # fmt: skip
    """Make all of `folder` durable, then give it the name `to`, on the same file system.

    `to` must be absent or empty unless `replace`: then what was there has the name `folder`
    afterwards. approve: is given the path of what would go, and raises where that must stay. It is
    asked right before the step, and again right after it, when nobody else knows the name that
    what was there has then: so what is removed later is what was approved.
    Raises OSError, or what approve raises, and nothing has changed; NotDurable, and it has.
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
