"""CurlCommand (nodes §23, memory-and-state §22.4)."""

import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import WorkflowError
from Middleware.tools.curl import Command, CurlFailed, CurlResult, run
from Middleware.tools.curl_arguments import Argument
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.option_types import Exactly
from Middleware.workflows.handlers.impl.outgoing import (
    OutgoingOptions,
    cap_of,
    failed,
    policy_of,
    proxy_of,
)
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import Piece, joined

logger = logging.getLogger(__name__)


class CurlCommandOptions(OutgoingOptions):
    """Run curl with these arguments, without a shell.

    Where addresses are guarded, curl gets the addresses that were looked at, follows no redirect,
    reads no settings file and takes only options of which it is known that they lead nowhere
    else. What a guard refuses is always an error of the node.
    """

    args: tuple[Any, ...] = Field(min_length=1)
    """``["-sS", "--data-raw", "{agent1Output}", "https://api.example.com/x"]``"""
    output_format: Literal["stdout", "stdout+stderr", "full"] = "stdout"
    """``full``: JSON with ``stdout``, ``stderr`` and ``returncode``."""
    block_option_injection: Exactly = False
    """Refuse an argument that a variable turns into an option, or into the name of a file. Always
    so where addresses are guarded."""
    allow_scheme_injection: Exactly = False
    """Let a variable bring in another scheme than http and https."""


@node_type("CurlCommand", options=CurlCommandOptions)
class CurlCommandHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, CurlCommandOptions)
        scope = context.request_scope
        try:
            result = run(_command(context, options), scope.cancel if scope else CancelToken())
        except CurlFailed as error:
            if failed(options):
                raise WorkflowError(f"{error.message}.") from error
            logger.warning("CurlCommand failed: %s", error.message)
            return WorkflowPayload.of(_shown(options, error.result, error.message))
        if result.returncode and failed(options):
            raise WorkflowError(_told(result))
        return WorkflowPayload.of(_shown(options, result, None))


def _command(context: ExecutionContext, options: CurlCommandOptions) -> Command:
    proxy, proxy_policy = proxy_of(context, options)
    return Command(
        arguments=[_argument(context.pieces(item)) for item in options.args],
        timeout_seconds=options.timeout,
        max_bytes=cap_of(options),
        proxy=context.render(options.proxy).strip(),
        proxy_at=proxy,
        proxy_policy=proxy_policy,
        policy=policy_of(context, options, host_is_data=proxy_policy.block_private),
        guards_data=options.block_private_addresses is None,
        refuses_options=options.block_option_injection,
        refuses_schemes=not options.allow_scheme_injection,
    )


def _argument(parts: Sequence[Piece]) -> Argument:
    def marks() -> Iterator[bool]:
        for piece in parts:
            yield from (piece.is_data,) * len(piece.text)

    return Argument(joined(parts), tuple(marks()))


def _shown(options: CurlCommandOptions, result: CurlResult, problem: str | None) -> str:
    if options.output_format == "full":
        told = {"stdout": result.stdout, "stderr": result.stderr, "returncode": result.returncode}
        return json.dumps(told if problem is None else {**told, "error": problem})
    if problem is not None:
        return problem
    if options.output_format == "stdout+stderr":
        return result.stdout + result.stderr
    return result.stdout


def _told(result: CurlResult) -> str:
    """curl's own last word; other lines may hold headers and their secrets."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("curl: ")]
    said = f": {lines[-1][:300]}" if lines else "."
    return f"curl ended with exit code {result.returncode}{said}"
