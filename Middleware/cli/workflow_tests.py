"""`test-workflow FILE…`: tests of workflows, with fake replies in the place of models."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from Middleware.api.options import ServerOptions
from Middleware.app import build_parts, build_store
from Middleware.cli.folders import add_folders
from Middleware.cli.unset_keys import unset_keys_filled_in
from Middleware.config.syntax import SUFFIXES
from Middleware.core.arguments import OptionParser
from Middleware.core.errors import MiddlewareError
from Middleware.runs.recorder import Silent
from Middleware.workflows.testing.expectations import failures
from Middleware.workflows.testing.files import WorkflowTests, read_tests
from Middleware.workflows.testing.junit import Result, junit_xml
from Middleware.workflows.testing.recording import record
from Middleware.workflows.testing.runner import TestBench, run_case

WRONG_USE = 2


def main(arguments: Sequence[str]) -> int:
    """0 when every test passed, 1 when one failed, 2 on wrong use (an unreadable file, or nothing
    to run)."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.record is None and not given.files:
        parser.error("name a file of tests, or record one with --record")
    if (given.record is None) != (given.message is None):
        parser.error("--record and --message go together")
    # What nodes log is in the results, or of no use here.
    logging.disable(logging.WARNING)
    try:
        return _test(given) if given.record is None else _record(given)
    finally:
        logging.disable(logging.NOTSET)


def _test(given: argparse.Namespace) -> int:
    options = _options(given)
    try:
        read = [(path, read_tests(path)) for path in _files(given.files)]
        configs = build_store(options).locations.configs
        with unset_keys_filled_in(configs), _bench(options) as bench:
            return _run(bench, read, given)
    except MiddlewareError as error:
        print(error.message, file=sys.stderr)
        return WRONG_USE


def _record(given: argparse.Namespace) -> int:
    try:
        with _bench(_options(given)) as bench:
            text = record(bench, given.record, given.message, user=given.user or "")
    except MiddlewareError as error:
        print(error.message, file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return 0


def _options(given: argparse.Namespace) -> ServerOptions:
    return ServerOptions(
        public_directory=given.public_directory,
        config_directory=given.config_directory,
        workflows_directory=given.workflows_directory,
        users=(given.user,) if given.user else (),
        allow_inline_python=given.allow_inline_python,
    )


@contextmanager
def _bench(options: ServerOptions) -> Iterator[TestBench]:
    parts = build_parts(options, recorder=Silent())
    try:
        yield TestBench(store=parts.store, backends=parts.backends, server=parts.server)
    finally:
        parts.close()


def _files(named: Iterable[Path]) -> Iterable[Path]:
    """The files; of a folder those in it."""
    for path in named:
        if path.is_dir():
            yield from sorted(file for file in path.iterdir() if file.suffix in SUFFIXES)
        else:
            yield path


def _run(
    bench: TestBench, read: Sequence[tuple[Path, WorkflowTests]], given: argparse.Namespace
) -> int:
    results: list[Result] = []
    for path, tests in read:
        for result in _of_file(bench, path, tests, given.only or ""):
            results.append(result)
            _tell(result, verbose=given.verbose)
    if given.junit is not None:
        given.junit.write_bytes(junit_xml(results))
    failed = sum(bool(result.failures) for result in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    if not results:
        print("There is no such test.", file=sys.stderr)
        return WRONG_USE
    return int(failed > 0)


def _of_file(bench: TestBench, path: Path, tests: WorkflowTests, only: str) -> Iterable[Result]:
    for case in tests.tests:
        if only.lower() not in case.name.lower():
            continue
        started = time.monotonic()
        outcome = run_case(bench, case, workflow=tests.workflow, user=tests.user)
        yield Result(
            file=path.as_posix(),
            name=case.name,
            seconds=time.monotonic() - started,
            failures=tuple(failures(case.expect, outcome)),
        )


def _tell(result: Result, *, verbose: bool) -> None:
    if not result.failures:
        if verbose:
            print(f"passed  {result.file}: {result.name}")
        return
    print(f"FAILED  {result.file}: {result.name}")
    for failure in result.failures:
        print("\n".join(f"  {line}" for line in failure.splitlines()))


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py test-workflow",
        description="Run tests of workflows. No model server is called: a test gives the replies "
        "of the models itself.",
    )
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE", help="files of tests, or folders of them"
    )
    parser.add_argument("-k", dest="only", metavar="TEXT", help="only tests with this in the name")
    parser.add_argument("-v", "--verbose", action="store_true", help="name those that pass too")
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML")
    parser.add_argument(
        "--record",
        metavar="WORKFLOW",
        help="run this workflow on its real models, and print the test that repeats it",
    )
    parser.add_argument("--message", "-m", metavar="TEXT", help="what you say, for --record")
    parser.add_argument("--User", dest="user", metavar="NAME", help="whose configuration")
    parser.add_argument(
        "--allow-inline-python", action="store_true", help="run code that stands in workflows"
    )
    add_folders(parser)
    return parser
