"""One node of a workflow file becomes a :class:`Node`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from Middleware.config.files import Source
from Middleware.config.problems import Problem
from Middleware.config.validation import problems_of
from Middleware.core.registry import nearest
from Middleware.workflows.handlers.base.node_handler import NodeType, node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions, known_keys
from Middleware.workflows.managers.later_types import later_type
from Middleware.workflows.models.error_policy import ErrorPolicy
from Middleware.workflows.models.workflow import Node
from Middleware.workflows.variables.early import EARLY_NUMBERS

_EARLY_TEXTS = ("endpointName", "preset")
_DEFAULT_TYPE = "Standard"
_NOT_IN_SLUGS = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the file a node stands."""

    source: Source
    index: int
    id: str

    @property
    def place(self) -> str:
        return f"nodes[{self.index}]"

    def warn(self, code: str, key: str, message: str, remedy: str = "") -> None:
        self.source.report(
            Problem(
                code=code,
                severity="warning",
                file=self.source.file,
                place=f"{self.place}.{key}" if key else self.place,
                message=message,
                remedy=remedy,
            )
        )


def parse_node(raw: Mapping[str, Any], spot: Spot) -> Node | list[Problem]:
    """The node, or everything that is wrong with it."""
    kind = _type_of(raw, spot)
    try:
        options = kind.options.read(raw)
    except ValidationError as error:
        return list(problems_of(error, spot.source.file, spot.place))
    if kind.options is not NodeOptions:
        _warn_of_unknown_keys(raw, kind.options, spot)
    return Node(
        id=spot.id,
        position=spot.index + 1,
        type_name=kind.name,
        name=options.title or options.agent_name or spot.id,
        slug=slug_of(options.agent_name or options.title) or spot.id,
        options=options,
        handler=kind.handler,
        early_fields=_early_fields(raw, spot),
        takes_prompt="systemPrompt" in raw or "prompt" in raw,
        policy=_policy_of(options, spot),
    )


def node_ids(entries: Sequence[Any], source: Source) -> list[str]:
    """The nodes' ids; a node without one is ``node_N`` by its place."""
    ids: list[str] = []
    for index, entry in enumerate(entries):
        given = entry.get("id") if isinstance(entry, Mapping) else None
        own = given.strip() if isinstance(given, str) and given.strip() else f"node_{index + 1}"
        if own in ids:
            Spot(source, index, own).warn(
                "duplicate_node_id",
                "id",
                f"node {ids.index(own) + 1} has the id {own!r} too; this one is called "
                f"node_{index + 1}.",
                "Give every node an id of its own.",
            )
            own = f"node_{index + 1}"
        ids.append(own)
    return ids


def slug_of(title: str) -> str:
    """``Ask the judge!`` -> ``ask_the_judge``."""
    return _NOT_IN_SLUGS.sub("_", title.lower()).strip("_")


def _type_of(raw: Mapping[str, Any], spot: Spot) -> NodeType:
    """The node's type; what is missing or unknown runs as Standard, with a warning (nodes S24)."""
    name = raw.get("type") or _DEFAULT_TYPE
    known = node_types.find(str(name)) or later_type(str(name))
    if known is not None:
        return known
    close = nearest(str(name), node_types.names())
    spot.warn(
        "unknown_node_type",
        "type",
        f"there is no node type {name!r}; it runs as {_DEFAULT_TYPE}.",
        f"Did you mean {close!r}?" if close else "",
    )
    return node_types.get(_DEFAULT_TYPE)


def _policy_of(options: NodeOptions, spot: Spot) -> ErrorPolicy:
    return ErrorPolicy(
        retries=options.retry.times if options.retry else 0,
        delay_seconds=options.retry.delay_seconds if options.retry else 0.0,
        on_error=_on_error(options, spot),
        value=options.on_error_value,
        route=options.on_error_route or "error",
        fallback_endpoints=options.fallback_endpoints,
        timeout_seconds=options.timeout_seconds,
    )


def _on_error(options: NodeOptions, spot: Spot) -> Any:
    word = options.on_error
    if word in ("fail", "continue", "value", "route"):
        return word
    if word not in ("", "raise", "return"):
        # `raise` and `return` are words of a few node types (nodes §22-24).
        close = nearest(word, ["fail", "continue", "value", "route", "raise", "return"])
        spot.warn(
            "invalid_on_error",
            "onError",
            f"{word!r} is not known; the node fails.",
            f"Did you mean {close!r}?" if close else "Write fail, continue, value or route.",
        )
    return "fail"


def _early_fields(raw: Mapping[str, Any], spot: Spot) -> Mapping[str, str]:
    fields: dict[str, str] = {}
    for key in (*_EARLY_TEXTS, *EARLY_NUMBERS):
        value = raw.get(key)
        if not isinstance(value, str) or _is_plain(key, value):
            continue
        fields[key] = value
        if "{" not in value:
            spot.warn("not_a_number", key, f"{value!r} is no number; the default is used.")
    return fields


def _is_plain(key: str, value: str) -> bool:
    if "{" in value:
        return False
    if key in _EARLY_TEXTS or not value.strip():
        return True
    try:
        float(value)
    except ValueError:
        return False
    return True


def _warn_of_unknown_keys(raw: Mapping[str, Any], options: type[NodeOptions], spot: Spot) -> None:
    known = known_keys(options)
    for key in raw:
        close = None if key in known else nearest(key, known)
        if close is not None:
            spot.warn(
                "unknown_key",
                key,
                "this key is not known and has no effect.",
                f"Did you mean {close!r}?",
            )
