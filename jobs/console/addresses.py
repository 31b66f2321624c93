"""Addresses as options have them."""

from reput.store_format.release.settings import SettingError

_PORT_MOST = (1 << 16) - 1


def host_port(option: str, text: str, least: int = 0) -> tuple[str, int]:
    """Host, an IPv6 one without its brackets, and port, `least` or above. Raises SettingError."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not least <= int(port) <= _PORT_MOST:
        raise SettingError(f"{option} {text!r} is no address: HOST:PORT")
    return host.strip("[]"), int(port)
