"""`check [CONFIG_DIR]`: every problem of a configuration tree, with its remedy."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from Middleware.api.options import ServerOptions
from Middleware.app import build_store, check_everything
from Middleware.cli.folders import add_folders
from Middleware.config.locations import NoFolder
from Middleware.config.problems import Problem, tally
from Middleware.config.store import ConfigStore
from Middleware.core.arguments import OptionParser


def main(arguments: Sequence[str]) -> int:
    """0 when no problem is an error, 1 when one is, 2 on wrong use (decisions §7)."""
    given = _parser().parse_args(arguments)
    # Every problem is told below; the log would tell them a second time.
    logging.disable(logging.CRITICAL)
    try:
        problems = check_everything(_store(given))
    finally:
        logging.disable(logging.NOTSET)
    if given.json:
        print(json.dumps([problem.to_dict() for problem in problems], ensure_ascii=False))
    else:
        _tell(problems)
    return int(any(problem.severity == "error" for problem in problems))


def _store(given: argparse.Namespace) -> ConfigStore:
    options = ServerOptions(
        public_directory=given.public_directory,
        config_directory=given.config_dir or given.config_directory,
        workflows_directory=given.workflows_directory,
        users=tuple(given.users),
    )
    try:
        return build_store(options)
    except NoFolder as error:
        print(error.message, file=sys.stderr)
        raise SystemExit(2) from None


def _tell(problems: list[Problem]) -> None:
    for problem in problems:
        where = ": ".join(part for part in (problem.file, problem.place) if part)
        print(f"{problem.severity}: {where}: {problem.message} [{problem.code}]")
        if problem.remedy:
            print(f"    {problem.remedy}")
    print(tally(problems))


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py check",
        description="Read a whole configuration tree and tell everything that is wrong with it.",
    )
    parser.add_argument(
        "config_dir", nargs="?", type=Path, metavar="CONFIG_DIR", help="default: the one in use"
    )
    parser.add_argument("--json", action="store_true", help="problems as a JSON list")
    parser.add_argument(
        "--User", dest="users", action="append", default=[], metavar="NAME", help="only these"
    )
    add_folders(parser)
    return parser
