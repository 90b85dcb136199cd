"""JSON Schemas of configuration files, made from the models that read them.

They are as lenient as the reader, so that a file which loads is also valid: numbers and booleans
may be text, null stands for "not given", and unknown keys are allowed (`check` tells of those).
Draft 7, because every editor knows it.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import AliasChoices, BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from Middleware.config.descriptions import class_text, field_texts
from Middleware.config.models import (
    ApiType,
    Endpoint,
    McpServer,
    PromptTemplate,
    Route,
    User,
)
from Middleware.config.prices import Prices

Schema = dict[str, Any]

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_OF_THE_LOADER: Final = ("name", "file")
"""Fields of the models of whole files that are not in the file."""


def file_schemas() -> dict[str, Schema]:
    """Kind of file -> its schema: all kinds but workflows."""
    return {
        "current-user": _current_user(),
        "user": _of_file(User, "Settings of one user: Users/<name>.json"),
        "endpoint": _of_file(Endpoint, "A model server: Endpoints/<name>.json"),
        "api-type": _of_file(ApiType, "A kind of model server: ApiTypes/<name>.json"),
        "preset": _preset(),
        "prompt-template": _of_file(
            PromptTemplate, "Tokens around messages: PromptTemplates/<name>.json"
        ),
        "routing": _routing(),
        "mcp-server": _of_file(McpServer, "A server of tools: MCPServers/<name>.json"),
        "prices": _headed("What models cost: Prices.json", object_schema(Prices)),
    }


def object_schema(model: type[BaseModel]) -> Schema:
    """The schema of one model; what it consists of is under ``$defs``."""
    return model.model_json_schema(schema_generator=_Generator, mode="validation")


def embed(schema: Schema, model: type[BaseModel]) -> Schema:
    """A reference to ``model``, whose schema is put among the definitions of ``schema``."""
    part = object_schema(model)
    definitions = schema.setdefault("$defs", {})
    definitions.update(part.pop("$defs", {}))
    definitions[model.__name__] = part
    return {"$ref": f"#/$defs/{model.__name__}"}


def keys_of(name: str, field: FieldInfo) -> tuple[str, ...]:
    """The keys under which a file may have a field; the first one is the usual."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        return tuple(str(choice) for choice in alias.choices)
    return (str(alias or field.alias or name),)


class _Generator(GenerateJsonSchema):
    """Descriptions from docstrings, null where it means "not given", and no titles."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        described = super().model_schema(schema)
        model: type[BaseModel] = schema["cls"]
        texts = field_texts(model)
        given: Schema = described.get("properties", {})
        required: list[str] = described.get("required", [])
        properties: Schema = {}
        for name, field in model.model_fields.items():
            key, *others = keys_of(name, field)
            shown = _simplified(given[key], nullable=key not in required)
            if name in texts:
                shown = {"description": texts[name], **shown}
            if shown.get("default", 0) is None or "Default:" in texts.get(name, ""):
                shown.pop("default", None)
            properties.update(dict.fromkeys((key, *others), shown))
        whole = {"description": class_text(model), "type": "object", "properties": properties}
        return {**whole, "required": required} if required else whole


def _simplified(schema: Schema, *, nullable: bool) -> Schema:
    """Null allowed, and one list of types in place of alternatives that are nothing but types:
    what is wrong then has its own place, and not that of all alternatives.
    """
    alternatives: list[Schema] = schema.pop("anyOf", None) or [_taken_out(schema)]
    null = {"type": "null"}
    if nullable and null not in alternatives and {} not in alternatives:
        alternatives = [*alternatives, null]
    detailed = [one for one in alternatives if one.keys() != {"type"}]
    if not detailed or (len(detailed) == 1 and _takes_more_types(detailed[0])):
        return {**_of_types(alternatives), **schema}
    if len(alternatives) == 1 and "$ref" not in alternatives[0]:
        return {**alternatives[0], **schema}
    return {"anyOf": alternatives, **schema}


def _takes_more_types(schema: Schema) -> bool:
    """Whether all it says is about values of its own type."""
    return "type" in schema and not schema.keys() & {"const", "enum"}


def _of_types(alternatives: list[Schema]) -> Schema:
    types = [one["type"] for one in alternatives]
    if "number" in types and "integer" in types:
        types.remove("integer")
    merged: Schema = {}
    for one in alternatives:
        merged.update(one)
    return {**merged, "type": types[0] if len(types) == 1 else types}


def _taken_out(schema: Schema) -> Schema:
    """What the schema demands, as one alternative; description and default stay behind."""
    kept = {"default", "description"}
    return {key: schema.pop(key) for key in list(schema) if key not in kept}


def _of_file(model: type[BaseModel], title: str) -> Schema:
    schema = object_schema(model)
    for name in _OF_THE_LOADER:
        schema["properties"].pop(name, None)
    return _headed(title, schema)


def _headed(title: str, schema: Mapping[str, Any]) -> Schema:
    """What every file begins with; definitions go to the end."""
    rest = {key: value for key, value in schema.items() if key not in ("description", "$defs")}
    headed = {"$schema": DRAFT, "title": title, **rest}
    return {**headed, "$defs": schema["$defs"]} if "$defs" in schema else headed


def _current_user() -> Schema:
    name = {"type": "string", "description": "A file of Users/, without its suffix."}
    return _headed(
        "The user when the command line names none: Users/_current-user.json",
        {"type": "object", "properties": {"currentUser": name}, "required": ["currentUser"]},
    )


def _preset() -> Schema:
    return _headed(
        "Fields of the payload, as they are: Presets/<presetType>/<name>.json", {"type": "object"}
    )


def _routing() -> Schema:
    schema: Schema = {
        "type": "object",
        "properties": {"$schema": {"type": "string"}},
    }
    schema["additionalProperties"] = embed(schema, Route)
    return _headed("Category -> workflow: Routing/<name>.json", schema)
