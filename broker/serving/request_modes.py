"""Whether a group pulls or pops a topic, as operators have set (MessageRequestModeManager)."""

from typing import NamedTuple

PULL, POP = "PULL", "POP"  # MessageRequestMode
_MOST = 20_000  # a broker has no limit


class TooManyModes(ValueError):
    """More modes than are kept."""


class RequestMode(NamedTuple):
    """A SetMessageRequestModeRequestBody without topic and group."""

    mode: str = PULL
    shared: int = 0  # popShareQueueNum: number of other members whose queues a member pops too


class RequestModes:
    """The modes that were set, kept in memory: the store is not written to."""

    def __init__(self) -> None:
        self._modes: dict[tuple[str, str], RequestMode] = {}

    def put(self, topic: str, group: str, mode: RequestMode) -> None:
        """Raises TooManyModes."""
        if (topic, group) not in self._modes and len(self._modes) >= _MOST:
            raise TooManyModes(f"{_MOST} request modes are kept, and no more")
        self._modes[topic, group] = mode

    def of(self, topic: str, group: str) -> RequestMode:
        """The mode that was set, or defaultMessageRequestMode, as always for %RETRY% topics."""
        return self._modes.get((topic, group), RequestMode())

    def table(self) -> dict[str, dict[str, dict[str, object]]]:
        """All modes, by topic and group (MessageRequestModeSerializeWrapper)."""
        found: dict[str, dict[str, dict[str, object]]] = {}
        for (topic, group), each in self._modes.items():
            found.setdefault(topic, {})[group] = {
                "consumerGroup": group, "mode": each.mode, "popShareQueueNum": each.shared,
                "topic": topic,
            }  # fmt: skip
        return found
