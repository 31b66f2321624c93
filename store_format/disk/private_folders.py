"""Folders that only this user can change, for files that are loaded as code: compiled kernels.

Whoever may write to a folder, or rename a folder above it, decides its content. So each folder and
link on the path must belong to root or to this user, and nobody else may write to it. Others may
write to a folder with the sticky bit, such as /tmp: they cannot rename or remove others' files.
"""

import os
import stat
from contextlib import suppress

_LINKS_MOST = 40  # as many as Linux follows
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class NotPrivate(OSError):
    """Others can change a folder's content, or it cannot be written to; the message says why."""


def private_folder(path: str) -> str:
    """The folder `path` without links in its name; made (mode 0700) if it is missing.

    Only this user and root can change its content, or the folders above it. Raises NotPrivate.
    """
    folder = _walk(os.path.abspath(path))
    about = os.lstat(folder)
    if about.st_uid != os.geteuid():
        raise NotPrivate(f"{folder}: belongs to user {about.st_uid}")
    if about.st_mode & _OTHERS_WRITE:
        raise NotPrivate(f"{folder}: others may write to it")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotPrivate(f"{folder}: cannot be written to")
    return folder


def safe_parent(path: str) -> str:
    """The folder `path`, in which nobody else can change or rename this user's files.

    All may write to it, as to /tmp. Raises NotPrivate.
    """
    folder = _walk(os.path.abspath(path))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise NotPrivate(f"{folder}: cannot be written to")
    return folder


def _walk(path: str) -> str:
    """Go down to `path` from the root, folder by folder, and check each one."""
    here, left, links = "/", _parts(path), 0
    _check("/")
    while left:
        if left[0] == "..":  # from a link's target; the folder above was checked on the way
            here, left = os.path.dirname(here), left[1:]
            continue
        here, left = os.path.join(here, left[0]), left[1:]
        try:
            about = _made(here)
        except OSError as error:
            raise NotPrivate(f"{here}: {error.strerror}") from None
        if stat.S_ISLNK(about.st_mode):
            links += 1
            if links > _LINKS_MOST:
                raise NotPrivate(f"{path}: too many links")
            _check_owner(here, about)
            target = os.readlink(here)
            here = "/" if target.startswith("/") else os.path.dirname(here)
            left = _parts(target) + left
        else:
            _check(here)
    return here


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def _made(folder: str) -> os.stat_result:
    try:
        return os.lstat(folder)
    except FileNotFoundError:
        # Another process may have made the folder meanwhile; the following check sees whose it is.
        with suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        return os.lstat(folder)


def _check(folder: str) -> None:
    about = os.lstat(folder)
    if not stat.S_ISDIR(about.st_mode):
        raise NotPrivate(f"{folder}: is no folder")
    _check_owner(folder, about)
    if about.st_mode & _OTHERS_WRITE and not about.st_mode & stat.S_ISVTX:
        raise NotPrivate(f"{folder}: others may write to it")


def _check_owner(path: str, about: os.stat_result) -> None:
    if about.st_uid not in (0, os.geteuid()):
        raise NotPrivate(f"{path}: belongs to user {about.st_uid}")
