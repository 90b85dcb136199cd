"""Tools as clients of the Responses interface write them, groups of tools included.

A ``namespace`` is a named group. Elsewhere tools have no groups, so a grouped tool gets a name of
its own made of both; calls of it go back under the two names that the client gave, because that
is how the client finds it again.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from Middleware.core.errors import MalformedRequest
from Middleware.wire.fields import list_in, needed_text_in
from Middleware.wire.openai_chat_request import parse_tool_choice

DEFAULT_NAMESPACE: Final = "functions"
"""The group of tools that are in no group."""

_LONGEST_NAME: Final = 64
_BAD_IN_NAME: Final = re.compile(r"[^A-Za-z0-9_-]")
_CHOICE_WORDS: Final = frozenset(("none", "auto", "required"))


@dataclass(frozen=True, slots=True)
class ToolNames:
    """The names of grouped tools: what models see, and what the client calls them."""

    by_joined: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Joined name -> namespace and name."""

    def joined(self, namespace: Any, name: str) -> str:
        """The name that models see."""
        if not isinstance(namespace, str) or namespace in ("", DEFAULT_NAMESPACE):
            return name
        for joined, pair in self.by_joined.items():
            if pair == (namespace, name):
                return joined
        return _join(namespace, name)

    def parted(self, joined: str) -> dict[str, str]:
        """``name``, and ``namespace`` where there is one, as a call carries them."""
        pair = self.by_joined.get(joined)
        return {"name": joined} if pair is None else {"name": pair[1], "namespace": pair[0]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The tools of one request."""

    tools: tuple[Mapping[str, Any], ...] = ()
    """In OpenAI's function format, as chats have it."""
    names: ToolNames = field(default_factory=ToolNames)
    skipped: tuple[str, ...] = ()
    """Kinds of tools that only OpenAI's own servers can run: ``tools.web_search``."""


def parse_tools(value: list[Any]) -> Tools:
    """Raises MalformedRequest; tools of unknown kinds are skipped."""
    tools: list[Mapping[str, Any]] = []
    pairs: dict[str, tuple[str, str]] = {}
    skipped: list[str] = []
    for index, tool in enumerate(value):
        place = f"tools.{index}"
        kind = _kind(tool, place)
        if kind == "namespace":
            group = needed_text_in(tool, "name", f"{place}.")
            for at, inner in enumerate(list_in(tool, "tools", f"{place}.")):
                where = f"{place}.tools.{at}"
                if _kind(inner, where) != "function":
                    skipped.append(f"tools.{inner['type']}")
                    continue
                name = needed_text_in(inner, "name", f"{where}.")
                tools.append(_function(inner, _registered(pairs, group, name)))
        elif kind == "function":
            tools.append(_function(tool, needed_text_in(tool, "name", f"{place}.")))
        else:
            skipped.append(f"tools.{kind}")
    return Tools(tools=tuple(tools), names=ToolNames(pairs), skipped=tuple(dict.fromkeys(skipped)))


def parse_choice(value: Any, found: Tools) -> str | Mapping[str, Any] | None:
    """As chats have it. A choice among tools that were skipped is no choice."""
    if not isinstance(value, dict):
        return None if value is None else parse_tool_choice(value, found.tools)
    if value.get("type") == "function":
        name = needed_text_in(value, "name", "tool_choice.")
        function = {"name": found.names.joined(value.get("namespace"), name)}
        return parse_tool_choice({"type": "function", "function": function}, found.tools)
    mode = value.get("mode")
    return mode if isinstance(mode, str) and mode in _CHOICE_WORDS and found.tools else None


def _kind(tool: Any, place: str) -> str:
    if not isinstance(tool, dict):
        raise MalformedRequest(place, "must be an object")
    kind = tool.get("type")
    if not isinstance(kind, str):
        raise MalformedRequest(f"{place}.type", "is missing" if kind is None else "must be a text")
    return kind


def _function(tool: Mapping[str, Any], name: str) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name}
    for key in ("description", "parameters", "strict"):
        if tool.get(key) is not None:
            function[key] = tool[key]
    return {"type": "function", "function": function}


def _registered(pairs: dict[str, tuple[str, str]], namespace: str, name: str) -> str:
    """The joined name, kept in ``pairs``. Names that became equal by cutting are numbered."""
    if namespace == DEFAULT_NAMESPACE:
        return name
    joined = base = _join(namespace, name)
    number = 2
    while joined in pairs:
        joined = f"{base[: _LONGEST_NAME - 4]}_{number}"
        number += 1
    pairs[joined] = (namespace, name)
    return joined


def _join(namespace: str, name: str) -> str:
    """A name that every vendor takes. The end of a long one tells more than its beginning."""
    between = "" if namespace.endswith("__") else "__"
    return _BAD_IN_NAME.sub("_", f"{namespace}{between}{name}")[-_LONGEST_NAME:]
