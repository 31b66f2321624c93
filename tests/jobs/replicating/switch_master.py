"""A master under a controller (AutoSwitchHAConnection), as far as a slave notices."""

import struct

from reput.broker.wire.peers import MasterLog, Send, SlaveConnection


class SwitchConnection(SlaveConnection):
    """Sends its epochs first, and after them transfers of that one epoch."""

    def __init__(self, now: float, batch: int = 700) -> None:
        super().__init__(now, batch)
        self._came, self._hello_due = b"", False

    def receive(self, data: bytes, log: MasterLog, now: float) -> None:
        self._heard_at = now
        self._came += data
        while len(self._came) >= (size := 16 if self._came[:4] == b"\0\0\0\1" else 12):
            frame, self._came = self._came[:size], self._came[size:]
            if size == 16:
                self._hello_due = True
            else:
                self._reported(struct.unpack(">iq", frame)[1], log)

    def next(self, log: MasterLog, now: float) -> Send | None:
        if self._hello_due:
            self._hello_due = False
            return Send(struct.pack(">iiqiiq", 1, 12, log.end, 1, 1, log.start))
        send = super().next(log, now)
        if send is None:
            return None
        head = struct.pack(">iiqiqq", 2, send.size, send.at, 1, log.start, log.end)
        return send._replace(header=head)
