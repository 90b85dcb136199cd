"""`run WORKFLOW --message TEXT`: one run in the terminal, its steps shown as they happen."""

import argparse
import sys
from collections.abc import Sequence

from Middleware.api.options import ServerOptions
from Middleware.app import Parts, build_parts
from Middleware.cli.folders import add_databases, add_folders
from Middleware.cli.run_output import AnswerOutput as AnswerOutput
from Middleware.cli.run_output import TerminalRecorder
from Middleware.cli.run_trace import TraceRecorder
from Middleware.core.arguments import OptionParser
from Middleware.core.cancellation import CancelToken
from Middleware.core.events import TextDelta
from Middleware.core.messages import Message
from Middleware.workflows.managers.request_runner import RequestInfo
from Middleware.workflows.managers.workflow_catalog import find_workflow
from Middleware.workflows.models.workflow_call import WorkflowCall


def main(arguments: Sequence[str]) -> int:
    """The answer goes to standard output, steps to standard error. 1 when the run failed."""
    given = _parser().parse_args(arguments)
    options = ServerOptions(
        public_directory=given.public_directory,
        config_directory=given.config_directory,
        workflows_directory=given.workflows_directory,
        users=(given.user,) if given.user else (),
        sqlite_directory=given.sqlite_directory,
        database=given.database,
        allow_inline_python=given.allow_inline_python,
    )
    answer = AnswerOutput(sys.stdout, shares_screen=sys.stdout.isatty() and sys.stderr.isatty())
    shown = TraceRecorder if given.trace else TerminalRecorder
    recorder = shown(sys.stderr, answer.make_room)
    parts = build_parts(options, recorder=recorder)
    parts.run_log.start()
    try:
        _run(parts, given.workflow, given.message, answer, recorder)
    finally:
        recorder.close()
        parts.close()
    return 0


def _run(
    parts: Parts, name: str, message: str, answer: AnswerOutput, recorder: TerminalRecorder
) -> None:
    folder, workflow = find(parts, name)
    call = WorkflowCall(
        workflow=workflow, folder=folder, messages=(Message("user", message),), streaming=True
    )
    info = RequestInfo(door="terminal", request_id=parts.clock.new_id(), cancel=CancelToken())
    for event in parts.runner.run_workflow(call, info):
        if isinstance(event, TextDelta):
            recorder.make_way()
            answer.write(event.text)
    answer.end_line()


def find(parts: Parts, name: str) -> tuple[str | None, str]:
    """``folder/name``, the name of a shared workflow, or a file of the user's own folder.

    Raises UnknownWorkflow with the nearest name when there is none.
    """
    return find_workflow(parts.store.snapshot(), name)


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py run",
        description="Run one workflow in the terminal. The answer goes to standard output, the "
        "steps to standard error.",
    )
    parser.add_argument("workflow", metavar="WORKFLOW", help="name, or folder/name")
    parser.add_argument("--message", "-m", required=True, metavar="TEXT", help="what you say")
    parser.add_argument("--User", dest="user", metavar="NAME", help="whose configuration")
    parser.add_argument(
        "--trace",
        action="store_true",
        help="show of every step what went in and what came out, and a line while it works",
    )
    parser.add_argument(
        "--allow-inline-python", action="store_true", help="run code that stands in workflows"
    )
    add_folders(parser)
    add_databases(parser)
    return parser
