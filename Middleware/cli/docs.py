"""`docs`: write the reference pages of the documentation."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from Middleware.app import INSTALL
from Middleware.cli.reference import pages
from Middleware.cli.written import write_changed
from Middleware.core.arguments import OptionParser

FOLDER = INSTALL / "docs" / "reference"


def main(arguments: Sequence[str]) -> int:
    """Write what has changed and name it."""
    folder: Path = _parser().parse_args(arguments).folder
    write_changed(folder, pages())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py docs",
        description="Write the reference pages of the documentation from the code.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where to (default: docs/reference)",
    )
    return parser
