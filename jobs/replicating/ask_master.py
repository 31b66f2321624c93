"""Asks a live master for what its replication port does not show: start of its log, file sizes."""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from reput.broker.wire.codes import RequestCode
from reput.broker.wire.peers import CONFIG_FILES, decode_answer, encode_question, runtime_info
from reput.broker.wire.remoting import FRAME_MOST, Frames
from reput.store_format.faults import StoreError
from reput.store_format.release.profiles import UnknownRelease, release_named
from reput.store_format.release.settings import parse_properties

_RECEIVE_BYTES = 1 << 16
_SECONDS = 10.0
# The settings by which a log is cut and derived; the other settings do not matter here.
_WANTED = (
    "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue", "mapperFileSizeBatchConsumeQueue",
    "maxHashSlotNum", "maxIndexNum", "messageIndexEnable", "messageDelayLevel",
    "enableMultiDispatch", "enableLmq",
)  # fmt: skip


@dataclass
class MasterSays:
    """A broker's answers. start, end: physical offsets of its log, -1 if unknown."""

    start: int = -1
    end: int = -1
    release: str | None = None
    settings: dict[str, str] = field(default_factory=dict)


class Asking:
    """Sends requests to a broker's own port, with a new connection for each, as they are few."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address

    def ask(self, code: int) -> bytes:
        """The body of the answer. Raises OSError, ProtocolError; StoreError for a refusal."""
        frames = Frames(FRAME_MOST)
        with socket.create_connection(self.address, _SECONDS) as peer:
            peer.sendall(encode_question(code, code))
            while (answer := decode_answer(frames)) is None:
                data = peer.recv(_RECEIVE_BYTES)
                if not data:
                    raise ConnectionError("the broker closed the connection before its answer")
                frames.feed(data)
        if answer.code:
            host, port = self.address
            raise StoreError(
                f"{host}:{port}: refuses request {code}: {answer.code} {answer.remark}"
            )
        return answer.body

    def says(self) -> MasterSays:
        """The master's log start and end, release and settings. Raises as `ask`."""
        said = MasterSays()
        info = runtime_info(self.ask(RequestCode.GET_BROKER_RUNTIME_INFO))
        said.start, said.end = (
            _number(info, "commitLogMinOffset"),
            _number(info, "commitLogMaxOffset"),
        )
        try:
            version = info.get("brokerVersionDesc", "").removeprefix("V").replace("_", ".")
            said.release = release_named(version)
        except UnknownRelease:
            said.release = None
        found = parse_properties(self.ask(RequestCode.GET_BROKER_CONFIG).decode("utf-8", "replace"))
        said.settings = {name: found[name] for name in _WANTED if name in found}
        return said

    def config(self, name: str) -> bytes:
        """The content of a file of config/, requested as by SlaveSynchronize; in CONFIG_FILES."""
        return self.ask(next(code for code, file in CONFIG_FILES.items() if file == name))


def _number(info: Mapping[str, str], name: str) -> int:
    text = info.get(name, "")
    return int(text) if re.fullmatch("[0-9]{1,30}", text) else -1
