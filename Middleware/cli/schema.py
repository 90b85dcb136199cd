"""`schema`: write the JSON Schemas of all kinds of files; editors complete and check with them."""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from Middleware.app import INSTALL
from Middleware.cli.written import write_changed
from Middleware.config.schema import DRAFT, Schema, embed, file_schemas, object_schema
from Middleware.conversations.profiles import ProfileFile
from Middleware.core.arguments import OptionParser
from Middleware.llm import backends as backends
from Middleware.llm.backend import backend_types
from Middleware.llm.backends.scripted import ScriptedReply, ScriptedRule
from Middleware.workflows.managers.later_types import later_names
from Middleware.workflows.schema import workflow_schema
from Middleware.workflows.testing.files import WorkflowTests

FOLDER = INSTALL / "Public" / "Configs" / "schema"


def main(arguments: Sequence[str]) -> int:
    """Write what has changed and name it."""
    folder: Path = _parser().parse_args(arguments).folder
    write_changed(folder, schema_files())
    return 0


def schema_files() -> Mapping[str, str]:
    """Name of a file -> its text."""
    return {
        f"{kind}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
        for kind, schema in all_schemas().items()
    }


def all_schemas() -> dict[str, Schema]:
    """Kind of file -> its schema, with what the models of files leave to others."""
    schemas = file_schemas()
    properties = schemas["endpoint"]["properties"]
    properties["rules"]["items"] = embed(schemas["endpoint"], ScriptedRule)
    properties["default"]["anyOf"] = [embed(schemas["endpoint"], ScriptedReply), {"type": "null"}]
    schemas["api-type"]["properties"]["type"]["examples"] = [*backend_types.names()]
    return {
        **schemas,
        "workflow": workflow_schema(later_names()),
        "conversation-profile": {
            "$schema": DRAFT,
            "title": "A profile of durable conversations: Conversations/<name>.json",
            **object_schema(ProfileFile),
        },
        "workflow-test": {
            "$schema": DRAFT,
            "title": "Tests of workflows: for `test-workflow`",
            **object_schema(WorkflowTests),
        },
    }


def _parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="python3 start.py schema",
        description="Write the JSON Schemas of configuration and workflow files.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=FOLDER,
        metavar="FOLDER",
        help="where to (default: Public/Configs/schema)",
    )
    return parser
