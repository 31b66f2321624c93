"""Completes a writer's settings with the sizes that the store's own files have."""

from dataclasses import fields, replace
from typing import Any

from reput.store_format.derived.store_sizes import SIZES, sizes_of_store
from reput.store_format.disk.files import Files
from reput.store_format.release.writer_settings import WriterSettings


def as_the_store_tells(
    settings: WriterSettings, files: Files
) -> tuple[WriterSettings, dict[str, int]]:
    """The settings with the sizes that the store's files have; and by name those that are neither
    given nor RocketMQ's defaults.

    A default never wins over a file. Raises SizeDisagrees where a given one does not agree.
    """
    default = WriterSettings().by_name()
    mine = settings.by_name()
    given = {name: mine[name] for name in SIZES if name in settings.given_names}
    told = sizes_of_store(files, given, {name: default[name] for name in SIZES})
    told = {name: told[name] for name in told if name not in given and told[name] != default[name]}
    field_of = {f.metadata["name"]: f.name for f in fields(settings)}
    changed: dict[str, Any] = {field_of[name]: size for name, size in told.items()}
    return replace(settings, given=settings.given_names, **changed), told
