"""WebFetch (nodes §22, memory-and-state §22.3)."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from Middleware.config.models import Text
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import ConfigError, WorkflowError
from Middleware.tools.html_text import visible_text
from Middleware.tools.http_call import Answer
from Middleware.tools.web_fetch import Fetch, FetchFailed, fetch
from Middleware.workflows.handlers.base.node_handler import NodeHandler, node_type, options_of
from Middleware.workflows.handlers.base.option_types import Exactly
from Middleware.workflows.handlers.impl.outgoing import (
    OutgoingOptions,
    cap_of,
    failed,
    leads_astray,
    policy_of,
    proxy_of,
)
from Middleware.workflows.handlers.impl.rendering import rendered
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.variables.pieces import joined

logger = logging.getLogger(__name__)

_AGENT = "Headrace"


class WebFetchOptions(OutgoingOptions):
    """Fetch a page or call an interface over HTTP.

    Redirects are followed, ten at most; a header that may hold a secret is not sent to another
    server. A status from 400 on, a body that is too large, a blocked address and an answer that
    is no JSON where JSON is wanted are failures, as is a call that gets no answer.
    """

    url: Text = Field(min_length=1)
    """``https://api.example.com/items/{agent1Output}``; ``http`` or ``https``."""
    method: Text = "GET"
    """In upper or lower case."""
    headers: Mapping[str, Any] = Field(default_factory=dict)
    """Variables are filled in in the values."""
    body: Any = None
    """A text, or an object or list that is sent as JSON; variables are filled in in its texts."""
    output_format: Literal["text", "json", "full", "html-stripped"] = "text"
    """``text``: the body. ``json``: the body read as JSON and written again. ``html-stripped``:
    what a reader of the page sees, a line a piece. ``full``: JSON with ``status_code``,
    ``headers`` and ``body``."""
    verify: Exactly = True
    """Whether the server's certificate must be in order."""
    ca_bundle: Text = ""
    """File with the certificates to trust."""
    allow_redirects: Exactly = True
    """Whether redirects are followed, ten at most; otherwise the first answer is the output."""


@node_type("WebFetch", options=WebFetchOptions)
class WebFetchHandler(NodeHandler):
    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        options = options_of(context, WebFetchOptions)
        asked = _fetch_of(context, options)
        scope = context.request_scope
        try:
            answer = fetch(asked, scope.cancel if scope else CancelToken())
            return WorkflowPayload.of(_shown(options, answer))
        except FetchFailed as error:
            if failed(options):
                raise WorkflowError(error.message) from error
            logger.warning("WebFetch failed: %s", error.message)
            return WorkflowPayload.of(_failure(options, error))


def _fetch_of(context: ExecutionContext, options: WebFetchOptions) -> Fetch:
    url = context.pieces(options.url)
    if not joined(url).strip():
        raise ConfigError("`url` is empty.")
    if not options.verify:
        logger.warning("WebFetch: the certificate of the server is not looked at (verify)")
    proxy, proxy_policy = proxy_of(context, options)
    headers = {"User-Agent": _AGENT, "Accept": "*/*"}
    own = {name: context.render(text) for name, text in options.headers.items()}
    taken = {name.lower() for name in own}
    headers = {**{k: v for k, v in headers.items() if k.lower() not in taken}, **own}
    body = _body(context, options)
    if isinstance(options.body, dict | list) and "content-type" not in taken:
        headers["Content-Type"] = "application/json"
    return Fetch(
        url=joined(url),
        method=options.method.strip().upper() or "GET",
        headers=headers,
        body=body,
        timeout_seconds=options.timeout,
        proxy=proxy,
        verify=options.verify,
        ca_bundle=_bundle(context, options),
        follow_redirects=options.allow_redirects,
        max_bytes=cap_of(options),
        policy=policy_of(context, options, host_is_data=leads_astray(url)),
        proxy_policy=proxy_policy,
        guard_redirects=options.block_private_addresses is not False,
    )


def _body(context: ExecutionContext, options: WebFetchOptions) -> bytes | None:
    if options.body is None:
        return None
    if isinstance(options.body, dict | list):
        return json.dumps(rendered(context, options.body)).encode()
    return context.render(options.body).encode("utf-8", "replace")


def _bundle(context: ExecutionContext, options: WebFetchOptions) -> str | None:
    name = context.render(options.ca_bundle).strip()
    if not name or not options.verify:
        return None
    try:
        path = Path(name).expanduser()
        if path.is_file():
            return str(path)
    except (OSError, ValueError, RuntimeError):
        pass
    raise ConfigError("`caBundle` names a file that does not exist.")


def _shown(options: WebFetchOptions, answer: Answer) -> str:
    if options.output_format == "full":
        return json.dumps(
            {
                "status_code": answer.status,
                "headers": dict(answer.headers),
                "body": answer.text,
            }
        )
    if options.output_format == "html-stripped":
        return visible_text(answer.text)
    if options.output_format == "json":
        try:
            return json.dumps(json.loads(answer.text))
        except (ValueError, RecursionError) as error:
            raise FetchFailed("The answer is no JSON.", answer) from error
    return answer.text


def _failure(options: WebFetchOptions, error: FetchFailed) -> str:
    """The output of a failed fetch that may not stop the run."""
    answer = error.answer
    if options.output_format == "full":
        return json.dumps(
            {
                "error": error.message,
                "status_code": answer.status if answer else None,
                "headers": dict(answer.headers) if answer else None,
                "body": answer.text if answer else None,
            }
        )
    text = answer.text if answer else ""
    if options.output_format == "html-stripped":
        text = visible_text(text)
    return text or error.message
