"""The numbers by which peers name their release (MQVersion.Version's ordinals)."""

from reput.store_format.release.profiles import release_key

_FIRST = {4: 213, 5: 413}  # V4_0_0, V5_0_0
_PER_MINOR = 20  # ten releases, and a snapshot before each of them
_STANDARD_JSON = 401  # V4_9_4


def ordinal(release: str) -> int:
    """The number of a release from 4.0.0 on: 479 for 5.3.3."""
    major, minor, patch = release_key(release)
    return _FIRST[major] + _PER_MINOR * minor + 2 * patch


def reads_standard_json(version: int) -> bool:
    """Whether a client of this version asks for integer keys in quotes (ClientRequestProcessor)."""
    return version >= _STANDARD_JSON
