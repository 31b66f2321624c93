"""One atomic step for a whole folder: it takes its place, or nothing has changed."""

from store_format.file_layer import Files


class NotDurable(OSError):
    """The step was taken, but its fsync failed: after a power cut either set may be there.

    So neither may be removed. The fsync is not tried again: it would succeed without having
    written what the first one lost.
    """


def put_in_place(files: Files, folder: str, to: str, replace: bool) -> None:
    """Make all of `folder` durable, then give it the name `to`, on the same file system.

    `to` must be absent or empty unless `replace`: then what was there has the name `folder`
    afterwards. Raises OSError, and nothing has changed; NotDurable, and it has.
    """
    files.sync_all(folder)
    if replace and files.exists(to):
        files.exchange(folder, to)
    else:
        files.rename(folder, to)
    parent = to.rpartition("/")[0]
    try:
        files.sync_folder(parent)
    except OSError as error:
        raise NotDurable(
            error.errno, f"the new set is there, but may not outlast a power cut: {error}", to
        ) from None
