"""`run WORKFLOW --message TEXT`: one run in the terminal, its steps shown as they happen."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any, TextIO

from Middleware.api.options import ServerOptions
from Middleware.app import Parts, build_parts
from Middleware.cli.folders import add_folders
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError
from Middleware.core.events import TextDelta
from Middleware.core.messages import Message
from Middleware.core.registry import nearest
from Middleware.runs.recorder import Recordable, RunRecord, Silent
from Middleware.workflows.managers.request_runner import ENTRY_WORKFLOW


class TerminalRecorder(Silent):
    """Tells of every run and step, a sub-workflow's further in."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._depth = 0

    def run_started(self, run: RunRecord) -> None:
        self._say(f"> {_name(run.to_dict())}")
        self._depth += 1

    def step_finished(self, run: RunRecord, step: Recordable) -> None:
        told = step.to_dict()
        meta = told["meta"]
        title = meta.get("title") or told["nodeName"]
        said = " ".join((told["outputData"]["content"] or "").split())
        endpoint = f" on {meta['endpoint']}" if meta.get("endpoint") else ""
        seconds = (told["processingTimeMs"] or 0) / 1000
        self._say(f"{title} ({meta['module_type']}{endpoint}, {seconds:.2f} s): {_short(said)}")
        if meta.get("error"):
            self._say(f"! {meta['error']}")

    def run_finished(self, run: RunRecord) -> None:
        self._depth -= 1
        told = run.to_dict()
        self._say(f"< {_name(told)} {told['status']}, {told['durationMs'] / 1000:.2f} s")

    def _say(self, text: str) -> None:
        self._out.write(f"{'  ' * self._depth}{text}\n")
        self._out.flush()


def _name(run: dict[str, Any]) -> str:
    """As one would name it to this command."""
    folder, workflow = str(run["folder"] or ""), str(run["workflow"])
    if workflow == ENTRY_WORKFLOW and folder:
        return folder.rpartition("/")[2]
    return f"{folder}/{workflow}" if folder else workflow


def _short(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def main(arguments: Sequence[str]) -> int:
    """The answer goes to standard output, steps to standard error. 1 when the run failed."""
    given = _parser().parse_args(arguments)
    options = ServerOptions(
        public_directory=given.public_directory,
        config_directory=given.config_directory,
        workflows_directory=given.workflows_directory,
        users=(given.user,) if given.user else (),
    )
    parts = build_parts(options, recorder=TerminalRecorder(sys.stderr))
    folder, workflow = find(parts, given.workflow)
    events = parts.runner.run_workflow(
        workflow, folder, (Message("user", given.message),), CancelToken()
    )
    for event in events:
        if isinstance(event, TextDelta):
            sys.stdout.write(event.text)
            sys.stdout.flush()
    sys.stdout.write("\n")
    return 0


def find(parts: Parts, name: str) -> tuple[str | None, str]:
    """``folder/name``, the name of a shared workflow, or a file of the user's own folder.

    Raises ConfigError with the nearest name when there is neither.
    """
    folder, _, workflow = name.rpartition("/")
    if folder:
        return folder, workflow
    config = parts.store.snapshot()
    shared = config.shared_workflow(name)
    if shared is not None:
        return shared, ENTRY_WORKFLOW
    try:
        config.workflow_file(name)
    except ConfigError as error:
        known = config.shared_workflows()
        close = nearest(name, known)
        raise ConfigError(
            f"There is no workflow {name!r}.",
            remedy=f"Did you mean {close!r}?"
            if close
            else f"There are: {', '.join(known) or 'none'}; others are called folder/name.",
        ) from error
    return None, name


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 start.py run",
        description="Run one workflow in the terminal. The answer goes to standard output, the "
        "steps to standard error.",
        allow_abbrev=False,
    )
    parser.add_argument("workflow", metavar="WORKFLOW", help="name, or folder/name")
    parser.add_argument("--message", "-m", required=True, metavar="TEXT", help="what you say")
    parser.add_argument("--User", dest="user", metavar="NAME", help="whose configuration")
    add_folders(parser)
    return parser
