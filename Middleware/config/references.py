"""Whether what a file names is there: part of ``check``."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from Middleware.config import loaders
from Middleware.config.lookup import Place, find, find_folder, missing
from Middleware.config.models import ApiType, Endpoint, RoutingFile, User
from Middleware.config.paths import UnsafeName, parts_of
from Middleware.config.problems import Problem, Severity
from Middleware.config.store import ConfigStore
from Middleware.core.errors import ConfigError
from Middleware.core.registry import nearest

_TEXT_TYPES = {
    "openAIV1Completion",
    "ollamaApiGenerate",
    "koboldCppGenerate",
    "koboldCppGenerateImageSpecific",
}
_NO_SERVER_TYPES = {"scripted"}
_LEVELS = {"conservative", "balanced", "aggressive", "xaggressive"}
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")

_USER_WORKFLOWS = (
    ("fileMemoryToolWorkflow", "file_memory_tool_workflow"),
    ("chatSummaryToolWorkflow", "chat_summary_tool_workflow"),
    ("conversationMemoryToolWorkflow", "conversation_memory_tool_workflow"),
    ("recentMemoryToolWorkflow", "recent_memory_tool_workflow"),
    ("discussionIdMemoryFileWorkflowSettings", "discussion_id_memory_file_workflow_settings"),
    ("contextCompactorSettingsFile", "context_compactor_settings_file"),
)
_REFERENCE_DEMANDS = (
    ("chatCompleteAddUserAssistant", "chat_complete_add_user_assistant"),
    (
        "chatCompletionAddMissingAssistantGenerator",
        "chat_completion_add_missing_assistant_generator",
    ),
)


@dataclass(frozen=True, slots=True)
class Checked:
    """One file that refers to others."""

    store: ConfigStore
    file: str

    def problem(
        self, place: str, message: str, remedy: str, *, code: str, severity: Severity = "warning"
    ) -> Problem:
        return Problem(
            code=code,
            severity=severity,
            file=self.file,
            place=place,
            message=message,
            remedy=remedy,
        )

    def refers(
        self, key: str, name: str, folders: Iterable[tuple[Path, str]], severity: Severity = "error"
    ) -> Iterator[Problem]:
        """Nothing when the file is there; ``folders`` are pairs of a root and a folder below."""
        listing_of = self.store.cache.listing_now
        try:
            places = tuple(Place(root, parts_of(folder, name)) for root, folder in folders)
        except UnsafeName as error:
            message = f"The name {name[:80]!r} {error}."
            yield self.problem(key, message, "", code="missing_reference", severity="error")
            return
        if any(find(listing_of, place, exact=True) for place in places):
            return
        found = next((f for p in places if (f := find(listing_of, p, exact=False))), None)
        if found is not None:
            right = found.path.stem
            message = f"It names {name!r}; the file is called {found.path.name!r}."
            yield self.problem(key, message, f"Write {right!r}.", code="name_case")
            return
        lost = missing(places, listing_of, self.store.locations.show).problems[0]
        yield self.problem(
            key,
            f"It names {name!r}, but there is no {lost.file}.",
            lost.remedy or "Put the file there, or name another one.",
            code="missing_reference",
            severity=severity,
        )


def user_problems(store: ConfigStore, file: str, user: User) -> Iterator[Problem]:
    """What a user file names that does not exist, and settings that do not go together."""
    checked = Checked(store, file)
    workflows = ((store.locations.workflows, user.workflow_folder),)
    yield from _routing_of_user(checked, user)
    for key, attribute in _USER_WORKFLOWS:
        name = getattr(user, attribute)
        if name:
            yield from checked.refers(key, name, workflows)
    if user.chat_prompt_template_name:
        templates = ((store.locations.configs / "PromptTemplates", ""),)
        key = "chatPromptTemplateName"
        yield from checked.refers(key, user.chat_prompt_template_name, templates, "warning")
    yield from _chores(checked, user)
    yield from _folders_of_user(checked, user)
    yield from _aliases(checked, user)
    if user.dialect == "reference":
        for key, attribute in _REFERENCE_DEMANDS:
            if attribute not in user.model_fields_set:
                message = "This key is missing; false is used."
                yield checked.problem(key, message, "Add it.", code="missing_key")
    yield from _foreign_paths(checked, user)


def _routing_of_user(checked: Checked, user: User) -> Iterator[Problem]:
    locations = checked.store.locations
    own = ((locations.workflows, user.workflow_folder),)
    if user.custom_workflow_override:
        if user.custom_workflow:
            yield from checked.refers("customWorkflow", user.custom_workflow, own)
        else:
            message = "This is empty although `customWorkflowOverride` is on."
            remedy = "Name the workflow that is to answer."
            yield checked.problem(
                "customWorkflow", message, remedy, code="incomplete", severity="error"
            )
        return
    if not user.routing_config:
        # Nothing is at fault as long as every request names a workflow.
        for one in checked.refers("routingConfig", "_DefaultWorkflow", own, "warning"):
            message = (
                "This is empty, so requests that name no workflow run `_DefaultWorkflow`, "
                f"and there is none in Workflows/{user.workflow_folder}."
            )
            remedy = "Put one there, or set `customWorkflowOverride` and `customWorkflow`."
            yield checked.problem("routingConfig", message, remedy, code=one.code)
        return
    routing = ((locations.configs / "Routing", ""),)
    yield from checked.refers("routingConfig", user.routing_config, routing)
    key = "categorizationWorkflow"
    if user.categorization_workflow:
        yield from checked.refers(key, user.categorization_workflow, own)
    else:
        message = "This is empty although `routingConfig` is set."
        remedy = "Name the workflow that chooses a category."
        yield checked.problem(key, message, remedy, code="incomplete", severity="error")


def _chores(checked: Checked, user: User) -> Iterator[Problem]:
    """``choreWorkflow``: one of the user's own folder, else a shared one."""
    name, root = user.chore_workflow, checked.store.locations.workflows
    if not name:
        return
    own = tuple(checked.refers("choreWorkflow", name, ((root, user.workflow_folder),)))
    if any(problem.severity == "error" for problem in own):
        shared = ((root, f"{user.shared_folder}/{name}"),)
        there = checked.refers("choreWorkflow", "_DefaultWorkflow", shared)
        if all(problem.severity != "error" for problem in there):
            return
    yield from own


def _folders_of_user(checked: Checked, user: User) -> Iterator[Problem]:
    locations = checked.store.locations
    named = [("endpointConfigsSubDirectory", locations.configs / "Endpoints")]
    named += [("workflowConfigsSubDirectoryOverride", locations.workflows)]
    named += [("sharedWorkflowsSubDirectoryOverride", locations.workflows)]
    folders = (
        user.endpoint_configs_sub_directory,
        user.workflow_configs_sub_directory_override,
        user.shared_workflows_sub_directory_override,
    )
    for (key, root), folder in zip(named, folders, strict=True):
        if not folder:
            continue
        try:
            parts = parts_of(folder)
        except UnsafeName as error:
            message = f"The folder name {folder[:80]!r} {error}."
            yield checked.problem(key, message, "", code="invalid_value", severity="error")
            continue
        if find_folder(checked.store.cache.listing_now, root, parts, exact=False) is None:
            shown = checked.store.locations.show(root.joinpath(*parts))
            message = f"There is no folder {shown}."
            yield checked.problem(key, message, "Make it, or name another.", code="missing_folder")


def _aliases(checked: Checked, user: User) -> Iterator[Problem]:
    if not user.model_aliases:
        return
    listing_of = checked.store.cache.listing_now
    try:
        parts = parts_of(user.shared_folder)
    except UnsafeName:
        return
    folder = find_folder(listing_of, checked.store.locations.workflows, parts, exact=False)
    shared = listing_of(folder).folders if folder else frozenset()
    for pattern, target in user.model_aliases.items():
        name = target.strip().removeprefix(f"{user.name}:")
        if name in ("", user.name) or name.lower() in {one.lower() for one in shared}:
            continue
        close = nearest(name, sorted(shared))
        yield checked.problem(
            f"modelAliases.{pattern}",
            f"It stands for {target!r}, which is no folder of Workflows/{user.shared_folder}.",
            f"Did you mean {close!r}?" if close else "",
            code="missing_reference",
            severity="error",
        )


def _foreign_paths(checked: Checked, user: User) -> Iterator[Problem]:
    if os.name == "nt":
        return
    texts = {
        "discussionDirectory": user.discussion_directory,
        "sqlLiteDirectory": user.sql_lite_directory,
    }
    for name, value in user.user_wide_workflow_variables.items():
        texts[f"userWideWorkflowVariables.{name}"] = value
    for key, value in texts.items():
        if isinstance(value, str) and _WINDOWS_PATH.match(value):
            message = "This is a path of Windows, and the server runs on another system."
            yield checked.problem(key, message, "Write a path of this system.", code="foreign_path")


def endpoint_problems(store: ConfigStore, path: Path, endpoint: Endpoint) -> Iterator[Problem]:
    """What an endpoint file names that does not exist, and settings without effect."""
    checked = Checked(store, store.locations.show(path))
    configs = store.locations.configs
    name = endpoint.api_type_config_file_name
    yield from checked.refers("apiTypeConfigFileName", name, ((configs / "ApiTypes", ""),))
    api_type = api_type_of(store, name)
    if api_type is not None:
        if not endpoint.endpoint and api_type.type not in _NO_SERVER_TYPES:
            remedy = "Write the address of the model server, like http://127.0.0.1:8080."
            message = "This key is missing or empty."
            yield checked.problem("endpoint", message, remedy, code="bad_url", severity="error")
        text = api_type.type in _TEXT_TYPES
        if endpoint.prompt_template and (text or "mbeddings" not in api_type.type):
            templates = ((configs / "PromptTemplates", ""),)
            severity: Severity = "error" if text else "warning"
            yield from checked.refers(
                "promptTemplate", endpoint.prompt_template, templates, severity
            )
        if endpoint.append_preset_name:
            yield from _appended(checked, endpoint.append_preset_name, api_type)
    if endpoint.remove_thinking and not (endpoint.start_think_tag and endpoint.end_think_tag):
        message = "This has no effect without `startThinkTag` and `endThinkTag`."
        yield checked.problem("removeThinking", message, "Add both tags.", code="incomplete")
    if endpoint.wilmer_context_estimation_level.lower() not in _LEVELS:
        message = "This level is not known; conservative is used."
        remedy = f"Write one of {', '.join(sorted(_LEVELS))}."
        key = "wilmerContextEstimationLevel"
        yield checked.problem(key, message, remedy, code="invalid_value")


def api_type_of(store: ConfigStore, name: str) -> ApiType | None:
    """The API type that an endpoint names; None where it is missing or broken."""
    try:
        place = Place(store.locations.configs / "ApiTypes", parts_of(name))
        found = find(store.cache.listing_now, place, exact=False)
        return store.cache.load_now(found.path, loaders.parse_api_type) if found else None
    except (UnsafeName, ConfigError):
        # Said elsewhere.
        return None


def _appended(checked: Checked, name: str, api_type: ApiType) -> Iterator[Problem]:
    """Which folder counts depends on the user: somewhere is enough."""
    root = checked.store.locations.configs / "Presets"
    kind = api_type.preset_type
    folders = sorted(checked.store.cache.listing_now(root / kind).folders)
    places = [(root, kind), *((root, f"{kind}/{folder}") for folder in folders)]
    yield from checked.refers("appendPresetName", name, places, "warning")


def routing_problems(
    store: ConfigStore, file: str, routing: RoutingFile, users: Iterable[User]
) -> Iterator[Problem]:
    """Workflows of categories that a user of this routing file does not have."""
    checked = Checked(store, file)
    for user in users:
        own = ((store.locations.workflows, user.workflow_folder),)
        for category, route in routing.categories.items():
            yield from checked.refers(f"{category}.workflow", route.workflow, own)
