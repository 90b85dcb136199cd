"""The command line of the server (config-files §2, decisions §8)."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path

from Middleware.core.arguments import OptionParser
from Middleware.storage.urls import database_argument


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the owner typed. None means: not given, so that files or defaults decide."""

    public_directory: Path | None = None
    config_directory: Path | None = None
    workflows_directory: Path | None = None
    logging_directory: str | None = None
    """May hold ``<user>``, see :func:`logging_directory`."""
    sqlite_directory: Path | None = None
    discussion_directory: Path | None = None
    users: tuple[str, ...] = ()
    file_logging: bool = False
    port: int | None = None
    """0 picks a free one."""
    listen: str = "127.0.0.1"
    concurrency: int = 0
    """Slots of the concurrency gate; 0 is no gate."""
    concurrency_timeout_seconds: int = 900
    concurrency_level: str = "wilmer"
    threads: int = 600
    """Requests that can be answered at once."""
    database: str | None = None
    api_key: str | None = None
    no_auth: bool = False
    cors: tuple[str, ...] = ()
    allow_inline_python: bool = False
    log_format: str = "text"
    log_level: str = "info"
    max_body_megabytes: int = 64
    grace_seconds: float = 5.0
    """What running requests get before they are cancelled when the server stops."""


def logging_directory(options: ServerOptions, public: Path, user: str | None) -> tuple[Path, bool]:
    """Where log files go, and whether a ``<user>`` in it had to be dropped.

    ``user`` is the single or legacy user; None with several of them.
    """
    given = options.logging_directory
    if given is None:
        return public / "logs", False
    dropped = user is None and "<user>" in given
    return Path(given.replace("<user>", user or "")), dropped


def parse_options(arguments: Sequence[str]) -> ServerOptions:
    """Exits with status 2 and a message when something is wrong, as argparse does."""
    given = build_parser().parse_args(arguments)
    given.users = tuple(filter(None, given.users)) or tuple(filter(None, [given.user_name]))
    given.cors = tuple(filter(None, given.cors))
    given.config_directory = given.config_directory or given.config_dir
    names = (field.name for field in fields(ServerOptions))
    # What was left out, or left blank by a launch script, keeps the default.
    return ServerOptions(
        **{name: getattr(given, name) for name in names if getattr(given, name) is not None}
    )


def build_parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py",
        usage="%(prog)s [options] [CONFIG_DIR [USER]]",
        description="Runs workflows behind OpenAI-compatible and other front doors.",
    )
    _add_places(parser)
    _add_network(parser)
    _add_behaviour(parser)
    return parser


def _add_places(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "config_dir",
        metavar="CONFIG_DIR",
        nargs="?",
        type=_path,
        help="configuration folder; --ConfigDirectory wins",
    )
    parser.add_argument(
        "user_name", metavar="USER", nargs="?", type=_text, help="user; --User wins"
    )
    add = parser.add_argument_group("files").add_argument
    for option, field_name, meaning in _FOLDERS:
        add(option, dest=field_name, metavar="DIR", type=_path, help=meaning)
    add(
        "--LoggingDirectory",
        dest="logging_directory",
        metavar="DIR",
        type=_folder,
        help="log files (<public>/logs); <user> in it stands for the user",
    )
    add(
        "--User",
        dest="users",
        metavar="NAME",
        type=_text,
        action="append",
        default=[],
        help="user to serve; may be repeated",
    )
    add("--file-logging", action="store_true", help="write log files whatever the user file says")
    add(
        "--database",
        metavar="URL",
        type=database_argument,
        help="postgresql://HOST/NAME for all that is kept, or sqlite:///FILE for conversations",
    )


def _add_network(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("network").add_argument
    add("--port", type=_port, metavar="N", help="the user's, else 5050; 0 picks a free one")
    add(
        "--listen",
        metavar="ADDRESS",
        nargs="?",
        const="0.0.0.0",
        type=_text,
        help="address to listen on (127.0.0.1); without a value: all",
    )
    add("--api-key", metavar="KEY", type=_text, help="a key for clients, beside those of users")
    add("--no-auth", action="store_true", help="demand no keys, wherever the server listens")
    add(
        "--cors",
        metavar="ORIGIN",
        type=_text,
        action="append",
        default=[],
        help="origin of web pages that may call, or *; may be repeated",
    )
    add("--threads", metavar="N", type=_from_one, help="requests answered at once (600)")
    add(
        "--max-body-mb",
        dest="max_body_megabytes",
        metavar="N",
        type=_from_one,
        help="largest request (64)",
    )
    add("--concurrency", metavar="N", type=_from_zero, help="requests at once; 0: no limit (0)")
    add(
        "--concurrency-timeout",
        dest="concurrency_timeout_seconds",
        metavar="S",
        type=_from_one,
        help="seconds that a request waits for its turn (900)",
    )
    add(
        "--concurrency-level",
        choices=("wilmer", "endpoint"),
        help="what the limit counts: requests (wilmer), or calls of each endpoint (endpoint)",
    )


def _add_behaviour(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("behaviour").add_argument
    add(
        "--allow-inline-python",
        action="store_true",
        help="run Python code that stands in workflow files",
    )
    add("--log-format", choices=("text", "json"), help="form of log lines (text)")
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="least level that is logged (info); debug shows prompts and answers",
    )
    add(
        "--grace",
        dest="grace_seconds",
        metavar="S",
        type=_from_zero,
        help="seconds for running requests when the server stops (5)",
    )


_FOLDERS = (
    ("--PublicDirectory", "public_directory", "root of configuration and run-time data"),
    ("--ConfigDirectory", "config_directory", "configuration (<public>/Configs)"),
    ("--WorkflowsDirectory", "workflows_directory", "workflows (<config>/Workflows or Workflows)"),
    ("--UserLevelSqlLiteDirectory", "sqlite_directory", "in place of the user's sqlLiteDirectory"),
    ("--DiscussionDirectory", "discussion_directory", "in place of the user's discussionDirectory"),
)


def _text(value: str) -> str | None:
    return value.strip() or None


def _folder(value: str) -> str | None:
    text = value.strip()
    if not text:
        return None
    shortened = text.rstrip("/\\") or text[0]
    try:
        return str(Path(shortened).expanduser())
    except RuntimeError:
        # A home that nobody has: the name is taken as it stands.
        return shortened


def _path(value: str) -> Path | None:
    folder = _folder(value)
    return None if folder is None else Path(folder)


def _whole(value: str, least: int, most: int) -> int | None:
    if not value.strip():
        return None
    try:
        number = int(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(
            f"must be a whole number from {least} to {most}, not {value!r}"
        )
    return number


_from_zero = partial(_whole, least=0, most=1_000_000)
_from_one = partial(_whole, least=1, most=1_000_000)
_port = partial(_whole, least=0, most=65535)
