"""Which lines of a query log are wanted."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from rag_cluster.errors import UsageError
from rag_cluster.querylog.reading import Line

_AGO = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_STATUS = re.compile(r"[1-5](?:\d\d|xx)|error")


@dataclass(frozen=True)
class Selection:
    """The lines that fit all that is given.

    `since` is a time, or how long ago (30m, 2h, 7d); `status` a number, a class such as 5xx, or
    error. Raises UsageError for others.
    """

    since: datetime | None = None
    route: str | None = None
    status: str | None = None
    key: str | None = None
    slower_than_ms: float | None = None
    empty: bool = False

    def __post_init__(self) -> None:
        if self.status is not None and not _STATUS.fullmatch(self.status):
            raise UsageError(
                f"the status {self.status!r} is none: give a number such as 504, a class such as "
                "5xx, or error for all from 400"
            )

    def takes(self, time: datetime, line: Line) -> bool:
        """Whether a line fits."""
        return (
            (self.since is None or time >= self.since)
            and (self.route is None or line["route"] == self.route)
            and (self.status is None or self._has_status(line["status"]))
            and (self.key is None or line.get("key") == self.key)
            and (self.slower_than_ms is None or line["seconds"] * 1e3 > self.slower_than_ms)
            and (not self.empty or line.get("hits") == 0)
        )

    def _has_status(self, status: int) -> bool:
        if self.status == "error":
            return status >= 400
        return str(status)[0] + "xx" == self.status or str(status) == self.status


def moment(text: str, now: datetime) -> datetime:
    """The time that `--since` means: ISO 8601, in local time without an offset, or how long ago.

    Raises UsageError.
    """
    try:
        if match := _AGO.fullmatch(text):
            return now - timedelta(**{_UNITS[match.group(2)]: float(match.group(1))})
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):  # before the year 1 or after 9999
        raise UsageError(
            f"{text!r} is no time: write one such as 2026-01-31T08:00, or how long ago, such as "
            "30m, 2h or 7d"
        ) from None
