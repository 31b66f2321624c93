"""Addresses in the values of options."""

from reput.store_format.release.settings import SettingError

_PORT_MOST = (1 << 16) - 1


def host_port(option: str, text: str, least: int = 0) -> tuple[str, int]:
    """Host (IPv6 without brackets) and port. Raises SettingError, also for a port below `least`."""
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or not least <= int(port) <= _PORT_MOST:
        raise SettingError(f"{option} {text!r} is no address: HOST:PORT")
    return host.strip("[]"), int(port)
