"""What is wrong with endpoints and API types beyond each file by itself: part of ``check``.

Severity: an error fails a call sooner or later; a warning tells of a setting without effect.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from Middleware.config.check import files_below
from Middleware.config.files import Snapshot
from Middleware.config.loaders import parse_api_type, parse_endpoint
from Middleware.config.lookup import Place, find
from Middleware.config.models import ApiType, Endpoint
from Middleware.config.paths import UnsafeName, parts_of
from Middleware.config.problems import Problem
from Middleware.config.references import Checked, api_type_of
from Middleware.config.store import CURRENT_USER_FILE, ConfigStore
from Middleware.core.errors import ConfigError
from Middleware.core.registry import nearest
from Middleware.llm import backends as backends
from Middleware.llm.backend import Kind, backend_types
from Middleware.llm.backends.embeddings import EmbeddingsBackend
from Middleware.llm.backends.http_backend import Format
from Middleware.llm.presets import CANONICAL_SAMPLERS, ENDLESS

CODES = {
    "backup_cycle": "backup endpoints that lead in a circle",
    "missing_template": "a text endpoint without a prompt template",
    "unknown_api_type": "an API type of a `type` that does not exist",
    "unknown_sampler": "a sampling parameter that does not exist; it is left out",
    "unused_setting": "a setting that this type of endpoint does not use",
    "wrong_kind_of_endpoint": "an endpoint for vectors where one that writes is needed, or reverse",
}

_SPECIAL_SAMPLERS: Final = ("thinkingMode", "chat_template_kwargs")
_OF_SCRIPTS: Final = ("script", "rules", "default")
_OF_CONNECTIONS: Final = (
    *("endpoint", "api_key", "connect_timeout_in_seconds", "read_timeout_in_seconds", "retries"),
)
_OF_CHAT_TYPES: Final = (
    "ensure_text_added_to_assistant_when_chat_completion",
    "backend_supports_tool_turns",
)
_OF_OPENAI_CHATS: Final = ("strict_content",)
_NAMES_A_MODEL: Final = frozenset(
    (
        *("claudeMessages", "openAIResponses", "openAIEmbeddings", "ollamaEmbeddings"),
        *("ollamaApiChat", "ollamaApiChatImageSpecific", "ollamaApiGenerate"),
    )
)
"""Types whose servers have many models and answer nobody who names none."""
_OF_WRITERS: Final = (
    *("preset_samplers", "append_preset_name", "backup_endpoint_name", "remove_thinking"),
    *("add_text_to_start_of_system", "add_text_to_start_of_prompt"),
    *("add_text_to_start_of_completion", "trim_beginning_and_end_line_breaks"),
    *("remove_custom_text_from_response_start_endpoint_wide", "retries"),
    *("max_concurrent_requests",),
)


def check_models(store: ConfigStore) -> list[Problem]:
    """Every problem of API types, of endpoints and of what users say about endpoints."""
    problems = [*_of_api_types(store), *_Endpoints(store).problems()]
    return list(dict.fromkeys(problems))


def kind_of(api_type: ApiType) -> Kind | None:
    """What endpoints of this type do; None for a ``type`` that does not exist."""
    chosen = backend_types.find(api_type.type)
    if chosen is None:
        return None
    if issubclass(chosen, EmbeddingsBackend):
        return "embeddings"
    form = getattr(chosen, "format", None)
    return form.kind if isinstance(form, Format) else "chat"


def problems_of_use(
    config: Snapshot, endpoint: Endpoint, api_type: ApiType, file: str, place: str
) -> Iterator[Problem]:
    """What keeps a node of a workflow, at ``place`` of ``file``, from writing with ``endpoint``."""
    kind = kind_of(api_type)
    if kind == "embeddings":
        yield _wrong_kind(file, place, endpoint.name, "chat or text")
    elif kind == "text" and not (endpoint.prompt_template or config.user.chat_prompt_template_name):
        yield _problem(
            *("missing_template", "error", file, place),
            f"Endpoint {endpoint.name!r} needs a prompt template, and none is named.",
            "Set `promptTemplate` in the endpoint, or `chatPromptTemplateName` in the user file.",
        )


# API types


def _of_api_types(store: ConfigStore) -> Iterator[Problem]:
    for path in files_below(store, store.locations.configs / "ApiTypes"):
        loaded = store.cache.file(path, parse_api_type)
        loaded.refresh()
        if loaded.newest is not None:
            yield from _of_api_type(loaded.file, loaded.newest.value.value)


def _of_api_type(file: str, api_type: ApiType) -> Iterator[Problem]:
    if backend_types.find(api_type.type) is None:
        known = backend_types.names()
        close = nearest(api_type.type, known)
        yield _problem(
            *("unknown_api_type", "error", file, "type"),
            f"There is no type {api_type.type!r}.",
            f"Did you mean {close!r}?" if close else f"Known are: {', '.join(known)}.",
        )
    for name in api_type.sampler_field_map:
        close = nearest(name, tuple(CANONICAL_SAMPLERS))
        # Names that resemble none are the owner's own: endpoints may use them.
        if name not in CANONICAL_SAMPLERS and close:
            place = f"samplerFieldMap.{name}"
            yield _unknown_sampler(file, place, f"There is no common name {name!r}.", close)
    rule = api_type.thinking
    if rule.mode != "unsupported":
        nested = rule.location == "chat_template_kwargs"
        if not rule.field:
            message = "Without `field` nothing is ever said about thinking."
            yield _unused(file, "thinking", message, "Name the server's field.")
        elif nested and not api_type.supports_chat_template_kwargs:
            message = "`chat_template_kwargs` is not sent, so nothing is said about thinking."
            remedy = "Set `supportsChatTemplateKwargs` to true, or another `location`."
            yield _unused(file, "thinking.location", message, remedy)
    writes = kind_of(api_type) not in ("embeddings", None) and api_type.type not in ENDLESS
    if writes and api_type.max_new_tokens_property_name is None:
        message = "Without it the length of answers is never limited, whatever a node says."
        remedy = "Name the server's field, as in `max_tokens`."
        yield _problem("incomplete", "warning", file, "maxNewTokensPropertyName", message, remedy)
    if api_type.always_stream and api_type.stream_property_name is None:
        message = "Without `streamPropertyName` the server is not asked to stream."
        yield _unused(file, "alwaysStream", message, "Name the server's field, as in `stream`.")


# Endpoints


class _Endpoints:
    """The endpoints of a tree, with the users who name them."""

    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        self._root = store.locations.configs / "Endpoints"
        self._configs = list(_snapshots(store))
        self._folders = sorted(
            {config.user.endpoint_configs_sub_directory.strip("/") for config in self._configs}
        )
        self._all: dict[Path, tuple[str, Endpoint]] = {}
        for path in files_below(store, self._root):
            loaded = store.cache.file(path, parse_endpoint)
            loaded.refresh()
            if loaded.newest is not None:
                self._all[path] = loaded.file, loaded.newest.value.value

    def problems(self) -> Iterator[Problem]:
        for path, (file, endpoint) in self._all.items():
            api_type = api_type_of(self._store, endpoint.api_type_config_file_name)
            if api_type is not None:
                yield from _of_endpoint(file, endpoint, api_type)
                if self._folder(path) in self._folders:
                    # Elsewhere it may be an example, to be filled in.
                    yield from _of_the_model(file, endpoint, api_type)
            if endpoint.backup_endpoint_name:
                checked = Checked(self._store, file)
                name, places = endpoint.backup_endpoint_name, self._places(path)
                yield from checked.refers("backupEndpointName", name, places)
        yield from self._cycles()
        for config in self._configs:
            yield from self._of_user(config)

    def _places(self, path: Path) -> list[tuple[Path, str]]:
        """Where the names are looked for that the endpoint at ``path`` holds: in the folder of the
        users who have it. An endpoint in a folder that no user looks into first may be an
        example, so one beside it counts too.
        """
        own = self._folder(path)
        if own in self._folders:
            return [(self._root, own)]
        above = [one for one in self._folders if not one or PurePosixPath(own).is_relative_to(one)]
        return [*((self._root, one) for one in reversed(above)), (self._root, own)]

    def _folder(self, path: Path) -> str:
        """Below ``Endpoints/``, as user files write it."""
        return path.parent.relative_to(self._root).as_posix().removeprefix(".")

    def _backup(self, path: Path) -> Path | None:
        name = self._all[path][1].backup_endpoint_name
        for root, folder in self._places(path) if name else ():
            try:
                place = Place(root, parts_of(folder, name))
            except UnsafeName:
                return None
            found = find(self._store.cache.listing_now, place, exact=False)
            if found is not None:
                return found.path if found.path in self._all else None
        return None

    def _cycles(self) -> Iterator[Problem]:
        """Each circle once, at the first of its files by name."""
        told: set[Path] = set()
        for start in self._all:
            chain: list[Path] = []
            at: Path | None = start
            while at is not None and at not in chain and at not in told:
                chain.append(at)
                at = self._backup(at)
            if at is None or at in told:
                told.update(chain)
                continue
            circle = chain[chain.index(at) :]
            told.update(chain)
            first = circle.index(min(circle))
            names = [self._all[one][1].name for one in (*circle[first:], *circle[: first + 1])]
            yield _problem(
                *("backup_cycle", "warning", self._all[circle[first]][0], "backupEndpointName"),
                f"The backups lead in a circle: {' → '.join(names)}.",
                "Let the last one of the chain name none.",
            )

    def _of_user(self, config: Snapshot) -> Iterator[Problem]:
        name = config.user.embeddings_endpoint
        if not name:
            return
        file, key = f"Users/{config.user.name}.json", "embeddingsEndpoint"
        folder = config.user.endpoint_configs_sub_directory
        places = ((self._root, folder),)
        lacking = list(Checked(self._store, file).refers(key, name, places))
        yield from lacking
        try:
            endpoint = config.endpoint(name)
            kind = kind_of(config.api_type(endpoint.api_type_config_file_name))
        except ConfigError:
            # Said above, or with the file.
            return
        if kind not in ("embeddings", None):
            yield _wrong_kind(file, key, endpoint.name, "embeddings")


def _snapshots(store: ConfigStore) -> Iterator[Snapshot]:
    for path in files_below(store, store.locations.configs / "Users", deepest=0):
        if path.stem != CURRENT_USER_FILE:
            try:
                yield store.snapshot(path.stem)
            except ConfigError:
                # The user's file is broken, which `check_files` tells.
                continue


def _of_endpoint(file: str, endpoint: Endpoint, api_type: ApiType) -> Iterator[Problem]:
    kind = kind_of(api_type)
    for field in _unused_fields(kind, api_type.type):
        if _is_set(endpoint, field):
            message = f"Endpoints of type {api_type.type!r} do not use this."
            yield _unused(file, _key(field), message, "Remove it, or name another API type.")
    if kind != "embeddings":
        yield from _of_samplers(file, endpoint.preset_samplers or {}, api_type)
    if endpoint.backup_endpoint_name:
        if _is_set(endpoint, "retries"):
            message = "With a backup, the endpoint is asked once only."
            yield _unused(file, "retries", message, "Remove it, or `backupEndpointName`.")
    elif _is_set(endpoint, "backup_preset_name"):
        message = "This is the preset for the backup, and none is named."
        yield _unused(file, "backupPresetName", message, "Name one in `backupEndpointName`.")


def _of_the_model(file: str, endpoint: Endpoint, api_type: ApiType) -> Iterator[Problem]:
    names_it = endpoint.model_name_to_send_to_api.strip() and not endpoint.dont_include_model
    if api_type.type in _NAMES_A_MODEL and not names_it:
        message = "No model is named, and servers of this type have many."
        remedy = "Write what the server calls the model."
        yield _problem("incomplete", "warning", file, "modelNameToSendToAPI", message, remedy)


def _unused_fields(kind: Kind | None, type_name: str) -> tuple[str, ...]:
    """Not `addGenerationPrompt` of chats: every file of the reference has it."""
    if kind is None:
        return ()
    if type_name == "scripted":
        return (*_OF_CONNECTIONS, *_OF_OPENAI_CHATS)
    if kind == "embeddings":
        return (*_OF_SCRIPTS, *_OF_WRITERS, *_OF_CHAT_TYPES, *_OF_OPENAI_CHATS)
    if kind == "text":
        return (*_OF_SCRIPTS, *_OF_CHAT_TYPES, *_OF_OPENAI_CHATS)
    others = () if type_name.startswith("openAI") else _OF_OPENAI_CHATS
    return (*_OF_SCRIPTS, *others)


def _of_samplers(file: str, samplers: Mapping[str, Any], api_type: ApiType) -> Iterator[Problem]:
    for name, value in samplers.items():
        place = f"presetSamplers.{name}"
        if name in _SPECIAL_SAMPLERS:
            if value is not None and not _can_be_told(name, api_type):
                message = f"API type {api_type.name!r} has no way to say it."
                yield _unused(file, place, message, "Remove it, or add it to the API type.")
        elif name not in api_type.sampler_field_map:
            if name in CANONICAL_SAMPLERS:
                message = f"API type {api_type.name!r} has no field for it; it is left out."
                yield _unused(file, place, message, "Remove it, or add it to `samplerFieldMap`.")
            else:
                close = nearest(name, (*CANONICAL_SAMPLERS, *_SPECIAL_SAMPLERS))
                message = f"There is no sampling parameter {name!r}; it is left out."
                yield _unknown_sampler(file, place, message, close)


def _can_be_told(name: str, api_type: ApiType) -> bool:
    rule = api_type.thinking
    if name == "thinkingMode" and rule.location == "top":
        return rule.mode != "unsupported"
    if name == "thinkingMode" and rule.mode == "unsupported":
        return False
    return api_type.supports_chat_template_kwargs


def _is_set(endpoint: Endpoint, field: str) -> bool:
    """Whether the file says something that the default does not."""
    default = Endpoint.model_fields[field].get_default(call_default_factory=True)
    value = getattr(endpoint, field)
    if field == "retries" and not value:
        # Which is what happens where it is not used.
        return False
    return field in endpoint.model_fields_set and value != default and value not in ((), {}, "")


def _key(field: str) -> str:
    return Endpoint.model_fields[field].alias or field


def _wrong_kind(file: str, place: str, endpoint: str, wanted: str) -> Problem:
    does = "writes no texts" if wanted != "embeddings" else "makes no vectors"
    return _problem(
        *("wrong_kind_of_endpoint", "error", file, place),
        f"Endpoint {endpoint!r} {does}.",
        f"Name an endpoint with an API type for {wanted}.",
    )


def _unknown_sampler(file: str, place: str, message: str, close: str | None) -> Problem:
    remedy = f"Did you mean {close!r}?" if close else "Remove it, or add it to `samplerFieldMap`."
    return _problem("unknown_sampler", "warning", file, place, message, remedy)


def _unused(file: str, place: str, message: str, remedy: str) -> Problem:
    return _problem("unused_setting", "warning", file, place, message, remedy)


def _problem(code: str, severity: Any, file: str, place: str, message: str, remedy: str) -> Problem:
    return Problem(
        code=code, severity=severity, file=file, place=place, message=message, remedy=remedy
    )
