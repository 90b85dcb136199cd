"""The options of commands that say where a configuration is: those of the server."""

import argparse
from pathlib import Path

from Middleware.storage.urls import database_argument


def add_folders(parser: argparse.ArgumentParser) -> None:
    """``public_directory``, ``config_directory`` and ``workflows_directory``, None by default."""
    for option, name, meaning in (
        ("--PublicDirectory", "public_directory", "root of configuration and run-time data"),
        ("--ConfigDirectory", "config_directory", "configuration (<public>/Configs)"),
        ("--WorkflowsDirectory", "workflows_directory", "workflows (<config>/Workflows)"),
    ):
        parser.add_argument(option, dest=name, type=Path, metavar="DIR", help=meaning)


def add_databases(parser: argparse.ArgumentParser) -> None:
    """``sqlite_directory`` and ``database``, None by default."""
    parser.add_argument(
        "--UserLevelSqlLiteDirectory",
        dest="sqlite_directory",
        type=Path,
        metavar="DIR",
        help="where the run log is (the user's sqlLiteDirectory)",
    )
    parser.add_argument(
        "--database",
        metavar="URL",
        type=database_argument,
        help="postgresql://HOST/NAME, where the servers keep what has run",
    )
