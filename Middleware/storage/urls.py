"""What ``--database`` may say. No driver is loaded to read it."""

import argparse
import re
from typing import Final

_POSTGRES: Final = re.compile(r"\A(postgres(?:ql)?)(?:\+\w+)?://")


def is_postgres(url: str | None) -> bool:
    """Whether it names a PostgreSQL; without one, and with ``sqlite:``, files are used."""
    return url is not None and _POSTGRES.match(url) is not None


def postgres_url(url: str) -> str:
    """As PostgreSQL's own programs have it, without the name of a Python driver."""
    return _POSTGRES.sub("postgresql://", url)


def database_argument(given: str) -> str | None:
    """For the parser of a command line; nothing counts as not said. Raises ArgumentTypeError."""
    text = given.strip()
    if not text:
        return None
    if is_postgres(text):
        return postgres_url(text)
    if text.startswith("sqlite:///") and text != "sqlite:///":
        return text
    raise argparse.ArgumentTypeError(
        f"{text!r} names no database; write postgresql://HOST/NAME or sqlite:///FILE"
    )
