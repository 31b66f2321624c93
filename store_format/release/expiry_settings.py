"""The broker's settings that decide what it deletes; `expire` obeys them."""

from dataclasses import dataclass

from reput.store_format.release.setting_table import parse_number
from reput.store_format.release.settings import SettingError, Settings, setting

_HOURS = 24
# Bounds within which a broker keeps each ratio, whatever its file says.
_USED_MOST = 10, 95  # MessageStoreConfig.getDiskMaxUsedSpaceRatio, in all releases
_FORCIBLY = 30, 85  # CleanCommitLogService.getDiskSpaceCleanForciblyRatio, as the next from 5.0.0
_WARNING = 35, 90  # getDiskSpaceWarningLevelRatio; before 5.0.0 no file could set these two


@dataclass(frozen=True)
class ExpirySettings(Settings):
    """Defaults are RocketMQ's; file_reserved_time in hours, ratios in percent of the disk."""

    file_reserved_time: int = setting("fileReservedTime", least=0)
    delete_when: str = setting("deleteWhen")
    delete_file_batch_max: int = setting("deleteFileBatchMax", least=1)
    clean_file_forcibly_enable: bool = setting("cleanFileForciblyEnable")
    disk_max_used_space_ratio: int = setting("diskMaxUsedSpaceRatio")
    disk_space_clean_forcibly_ratio: int = setting("diskSpaceCleanForciblyRatio")
    disk_space_warning_level_ratio: int = setting("diskSpaceWarningLevelRatio")

    @property
    def hours(self) -> tuple[int, ...]:
        """The hours of the day for deleting files (UtilAll.isItTimeToDo). Raises SettingError."""
        parts = self.delete_when.rstrip(";").split(";")  # as String.split drops empty ones
        try:
            found = tuple(parse_number(part) for part in parts if parts != [""])
        except ValueError:
            found = (_HOURS,)
        if any(not 0 <= hour < _HOURS for hour in found):
            raise SettingError(f"deleteWhen={self.delete_when}: hours as 04 or 04;05 are wanted")
        return found

    @property
    def used_most(self) -> int:
        """Used percent of the disk above which expired files are deleted at any hour."""
        return _within(self.disk_max_used_space_ratio, _USED_MOST)

    @property
    def forced(self) -> tuple[int, str]:
        """Used percent above which files of any age are deleted; the name of its setting.

        A broker does so too above the ratio from which it takes no message (isSpaceToDelete).
        """
        forcibly = _within(self.disk_space_clean_forcibly_ratio, _FORCIBLY)
        warning = _within(self.disk_space_warning_level_ratio, _WARNING)
        return min(
            (forcibly, "diskSpaceCleanForciblyRatio"), (warning, "diskSpaceWarningLevelRatio")
        )


def _within(ratio: int, bounds: tuple[int, int]) -> int:
    least, most = bounds
    return min(max(ratio, least), most)
