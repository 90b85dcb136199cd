"""The command line: which programs are tried, where things are kept, what is told at the end."""

import argparse
import datetime
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from tests.acceptance import claude_code, codex, open_webui, page, sillytavern
from tests.acceptance.programs import Place
from tests.acceptance.server import ROOT, Headrace, headrace
from tests.acceptance.steps import FAILED, NotInstalled, Report

PAGE = ROOT / "docs/acceptance.md"
Check = Callable[[Report, Place, Headrace], None]


def main(words: list[str]) -> int:
    asked = _parser().parse_args(words)
    checks: Mapping[str, tuple[str, Check]] = {
        "open-webui": ("Open WebUI", partial(open_webui.check, torch=asked.torch)),
        "sillytavern": ("SillyTavern", partial(sillytavern.check, folder=asked.sillytavern)),
        "recorded": ("SillyTavern (recorded requests)", sillytavern.check_recorded),
        "codex": ("Codex CLI", codex.check),
        "claude-code": ("Claude Code", claude_code.check),
    }
    unknown = sorted(set(asked.programs) - set(checks))
    if unknown:
        sys.stderr.write(f"There is no {unknown[0]}; there are {', '.join(checks)}.\n")
        return 2
    results = asked.keep or Path(tempfile.mkdtemp(prefix="headrace-acceptance-"))
    place = Place(cache=asked.cache.absolute(), results=results.absolute())
    with headrace(place.folder("headrace")) as site:
        reports = [
            _tried(Report(name), check, place, site)
            for key, (name, check) in checks.items()
            if key in (asked.programs or checks)
        ]
    page.write(PAGE, reports, datetime.date.today().isoformat())
    return _conclude(reports, place.results)


def _tried(report: Report, check: Check, place: Place, site: Headrace) -> Report:
    try:
        check(report, place, site)
    except NotInstalled as error:
        report.add("install it", f"not installed: {error}")
    # What keeps a program from starting at all is a result too.
    except Exception as error:  # noqa: BLE001
        report.add("start it", f"{FAILED}: {type(error).__name__}: {error}")
    return report


def _conclude(reports: list[Report], results: Path) -> int:
    failed = 0
    sys.stdout.write("\n")
    for report in reports:
        for step in report.steps:
            failed += step.failed
            sys.stdout.write(f"{report.program:32} {step.tried[:70]:70} {step.result[:60]}\n")
    sys.stdout.write(f"\n{failed} failed. Logs and pictures: {results}. Page: {PAGE}\n")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run.py",
        description="Point real front ends at a running server and look what they do.",
    )
    parser.add_argument(
        "programs",
        nargs="*",
        metavar="PROGRAM",
        help="open-webui, sillytavern, recorded, codex, claude-code (all of them)",
    )
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="folder for logs, data and pictures (a new one)"
    )
    parser.add_argument(
        "--cache",
        type=Path,
        metavar="DIR",
        default=Path.home() / ".cache/headrace-acceptance",
        help="folder for installed programs; remove it to have the newest (%(default)s)",
    )
    parser.add_argument(
        "--sillytavern", type=Path, metavar="DIR", help="a SillyTavern that is there already"
    )
    parser.add_argument(
        "--torch",
        metavar="REQUIREMENT",
        help="torch for Open WebUI, as torch==2.13.0+cpu, where PyTorch's index is out of reach; "
        "UV_FIND_LINKS says where it is",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
