"""Date and time variables (variables §2.1), by the local clock."""

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType


def _formatted(pattern: str) -> Callable[[datetime], str]:
    return lambda now: now.strftime(pattern)


DATE_VARIABLES: Mapping[str, Callable[[datetime], str]] = MappingProxyType(
    {
        "todays_date_pretty": _formatted("%B %d, %Y"),
        "todays_date_iso": _formatted("%Y-%m-%d"),
        "YYYY_MM_DD": _formatted("%Y_%m_%d"),
        "current_time_12h": lambda now: now.strftime("%I:%M %p").removeprefix("0"),
        "current_time_24h": _formatted("%H:%M"),
        "current_month_full": _formatted("%B"),
        "current_day_of_week": _formatted("%A"),
        "current_day_of_month": _formatted("%d"),
    }
)
