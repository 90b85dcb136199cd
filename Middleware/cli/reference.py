"""The pages of ``docs/reference``: what the code itself can tell, so that they are always true."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from Middleware.api.options import ServerOptions, build_parser
from Middleware.api.served_routes import ServedRoute
from Middleware.app import create_app
from Middleware.cli.route_fields import fields_of_routes
from Middleware.cli.tables import model_tables, option_tables, rows_of, table
from Middleware.config import check as config_check
from Middleware.config.descriptions import class_paragraphs, class_text, plain_text
from Middleware.config.models import (
    ApiKey,
    ApiType,
    Endpoint,
    McpServer,
    PromptTemplate,
    Route,
    RunLog,
    StructuredOutputRule,
    ThinkingRule,
    User,
)
from Middleware.conversations import check as conversation_check
from Middleware.llm import check as llm_check
from Middleware.llm.backend import backend_types
from Middleware.llm.backends.scripted import ScriptedCall, ScriptedFailure, ScriptedRule
from Middleware.llm.presets import CANONICAL_SAMPLERS
from Middleware.workflows import check as workflow_check
from Middleware.workflows.handlers.base.node_handler import NodeType, node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions, Retry, known_keys
from Middleware.workflows.handlers.impl.sub_workflow_handler import RouteOverride
from Middleware.workflows.managers.later_types import later_names
from Middleware.workflows.variables.early import EARLY_NUMBERS
from Middleware.workflows.variables.known import CATEGORY_MEANINGS, FAMILIES, MEANINGS

_NOTE = "<!-- Written by `python3 start.py docs` from the code. Changes here are lost. -->\n\n"
_PARTS: Mapping[str, tuple[type[Any], ...]] = {
    "ConditionalCustomWorkflow": (RouteOverride,),
}
"""Node type -> objects inside of its options."""
_PARAMETER = re.compile(r"<(?:\w+:)?(\w+)>")


def pages() -> dict[str, str]:
    """Name of a file -> its text."""
    written = {
        "settings.md": settings(),
        "nodes.md": nodes(),
        "variables.md": variables(),
        "routes.md": routes(),
        "checks.md": checks(),
    }
    return {name: f"{_NOTE}{text}" for name, text in written.items()}


def settings() -> str:
    return "\n".join(
        [
            "# Settings",
            "",
            "Every key of every file. Keys are case-sensitive. No key is needed unless it says so;",
            "`null` is the same as leaving a key out. true and false, and numbers, may also be",
            'written as text (`"true"`, `"5"`). Files may be JSON or YAML.',
            "",
            "## Users",
            "",
            "`Public/Configs/Users/<name>.json`: what one user of the server gets.",
            "",
            model_tables(User, ["name"]),
            "An entry of `apiKeys` that is an object:",
            "",
            model_tables(ApiKey),
            "`runLog`:",
            "",
            model_tables(RunLog),
            "## Endpoints",
            "",
            "`Public/Configs/Endpoints/<name>.json`: one model on one server.",
            "",
            model_tables(Endpoint, ["name", "file"]),
            "Names for `presetSamplers`: "
            f"{_listed(sorted((*CANONICAL_SAMPLERS, 'thinkingMode', 'chat_template_kwargs')))}.",
            "",
            "### Scripted endpoints",
            "",
            "An endpoint whose API type has the type `scripted` needs no model server. An entry of",
            "`rules` (`default` has the same keys, without `match`):",
            "",
            model_tables(ScriptedRule),
            "An entry of `toolCalls`:",
            "",
            model_tables(ScriptedCall),
            "`fail`:",
            "",
            model_tables(ScriptedFailure),
            "## API types",
            "",
            "`Public/Configs/ApiTypes/<name>.json`: how a kind of model server is spoken to.",
            f"`type` is one of {_listed(backend_types.names())}.",
            "",
            model_tables(ApiType, ["name"]),
            "`thinking`:",
            "",
            model_tables(ThinkingRule),
            "`structuredOutput`:",
            "",
            model_tables(StructuredOutputRule),
            "## Presets",
            "",
            "`Public/Configs/Presets/<presetType>/<name>.json`: fields that are sent to the model",
            "server as they are. A field that is `null` is left out.",
            "",
            "## Routing",
            "",
            "`Public/Configs/Routing/<name>.json`: an object whose keys are categories.",
            "",
            model_tables(Route),
            "## Prompt templates",
            "",
            "`Public/Configs/PromptTemplates/<name>.json`: tokens around messages for text APIs.",
            "",
            model_tables(PromptTemplate, ["name"]),
            "## Tool servers",
            "",
            "`Public/Configs/MCPServers/<name>.json`: a server of tools that nodes can call.",
            "",
            model_tables(McpServer, ["name"]),
            "## Options of the server",
            "",
            "`python3 start.py [options]` or `python server.py [options]`.",
            "",
            option_tables(build_parser()),
        ]
    )


def nodes() -> str:
    every = model_tables(NodeOptions)
    known = {name for name, _ in node_types}
    later = [name for name in later_names() if name not in known]
    return "\n".join(
        [
            "# Node types",
            "",
            "What stands in the list `nodes` of a workflow. [Workflows](../workflows.md) explains",
            "how they work together.",
            "",
            "## Every node",
            "",
            every,
            "`retry` is a number of times, or:",
            "",
            model_tables(Retry),
            *(_node_type(names, kind) for names, kind in _grouped()),
            "## Not available yet",
            "",
            "Files with nodes of these types load, so that the rest of a folder can be used.",
            "Running such a node is an error that says so.",
            "",
            f"{_listed(later)}.",
            "",
        ]
    )


def _grouped() -> list[tuple[list[str], NodeType]]:
    """Types of one kind are told together; the one that everybody begins with comes first."""
    groups: dict[type[NodeOptions], tuple[list[str], NodeType]] = {}
    for name, kind in node_types:
        groups.setdefault(kind.options, ([], kind))[0].append(name)
    ordered = ((sorted(names, key=_standard_first), kind) for names, kind in groups.values())
    return sorted(ordered, key=lambda group: _standard_first(group[0][0]))


def _standard_first(name: str) -> tuple[bool, str]:
    return name != "Standard", name


def _node_type(names: list[str], kind: NodeType) -> str:
    common = [row.keys[0] for row in rows_of(NodeOptions)]
    title, *aliases = names
    shown = [f"## {title}", "", class_paragraphs(kind.options), ""]
    if aliases:
        shown += [f"{_listed(aliases)} {'is' if len(aliases) == 1 else 'are'} the same.", ""]
    if any(row.keys[0] not in common for row in rows_of(kind.options)):
        shown.append(model_tables(kind.options, common))
    for part in _PARTS.get(title, ()):
        shown += [f"{class_text(part).rstrip('.')}:", "", model_tables(part)]
    return "\n".join(shown)


def variables() -> str:
    keys = {key for _, kind in node_types for key in known_keys(kind.options)}
    early = [name for name in EARLY_NUMBERS if name in keys]
    return "\n".join(
        [
            "# Variables",
            "",
            "`{name}` in a prompt or another text of a node. What is no variable stays as it is.",
            "",
            "## In every node",
            "",
            _meanings(MEANINGS),
            "Chat endpoints have no prompt template: there, `templated_…` is the text alone.",
            "",
            "## Of other nodes",
            "",
            _meanings(FAMILIES),
            "## Your own",
            "",
            table(
                ("Variable", "Value"),
                [
                    ("`{key}`", "a top-level key of the workflow file other than `nodes`"),
                    ("`{key}`", "a key of `userWideWorkflowVariables` in the user file"),
                ],
            ),
            "Their values may hold variables once more.",
            "",
            "## In the categorization workflow",
            "",
            _meanings(CATEGORY_MEANINGS),
            "## In settings of a node",
            "",
            "`endpointName`, `preset` and numbers may be variables too. There, only inputs,",
            "outputs of earlier nodes and your own variables exist. The numbers:",
            "",
            f"{_listed(early)}.",
            "",
        ]
    )


def routes() -> str:
    app = create_app(ServerOptions())
    found = sorted(app.site.routes(), key=lambda route: (route.paths[0], route.method))
    fields = fields_of_routes(app.site.document(""))
    app.close()
    return "\n".join(
        [
            "# Routes",
            "",
            "What can be asked for. A slash at the end makes no difference. `GET /openapi.json`",
            "says the same, and what is answered, to programs, as an OpenAPI 3.1 document. It asks",
            "for a key where keys are demanded.",
            "",
            table(("Method", "Path", "Also", "What"), map(_route_cells, found)),
            "## Fields",
            "",
            "What may be posted, as JSON. null is the same as leaving a field out. A field is",
            "*used* by the server; *passed on* to the model of the answering node, where",
            "[`honourRequestParameters`](../configuration.md#what-a-request-may-change) allows it;",
            "or *ignored*. What was not used is named in the header `X-Headrace-Ignored`; so are",
            "fields that are not listed here. [Doors](../doors.md) tells more.",
            "",
            fields,
        ]
    )


def _route_cells(route: ServedRoute) -> tuple[str, str, str, str]:
    path, *others = (_PARAMETER.sub(r"{\1}", one) for one in route.paths)
    return route.method, f"`{path}`", _listed(others), plain_text(route.text)


def checks() -> str:
    checks = (config_check, llm_check, workflow_check, conversation_check)
    meanings = {code: text for one in checks for code, text in one.CODES.items()}
    return "\n".join(
        [
            "# Codes of problems",
            "",
            "What `check`, `/health` and the log say about files. Every problem has a code, a",
            "file, a place in it, a message and a remedy.",
            "",
            table(
                ("Code", "Meaning"),
                ((f"`{code}`", _sentence(text)) for code, text in sorted(meanings.items())),
            ),
        ]
    )


def _meanings(meanings: Mapping[str, str]) -> str:
    return table(
        ("Variable", "Value"), ((f"`{{{name}}}`", text) for name, text in meanings.items())
    )


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].rstrip('.')}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
