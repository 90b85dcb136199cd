"""What is wrong with conversation profiles: each by itself, and what they name of other files."""

import re
from collections.abc import Iterator
from contextlib import suppress

from Middleware.config.check import files_below, own_problems, twins
from Middleware.config.files import Snapshot
from Middleware.config.problems import Problem
from Middleware.config.store import ConfigStore
from Middleware.conversations.profiles import FOLDER, Profile, parse_profile
from Middleware.conversations.workflow_runs import place_of
from Middleware.core.errors import ConfigError
from Middleware.core.registry import nearest

CODES = {
    "action_does_two_things": "an action of a profile with both a workflow and a request",
    "misplaced_profile": "a profile in a folder where none is looked for",
    "missing_profile_workflow": "a profile names a workflow that is not there",
    "profile_hidden": "a workflow has the name of a conversation profile",
    "unanswerable_proposal": "a profile asks for approval and leaves no time for it",
    "unknown_key_name": "a profile names an API key that no user has",
    "unusable_action_name": "an action whose name no model can call",
}
_CALLABLE = re.compile(r"[A-Za-z0-9_-]{1,64}")
COMMAND_LINE_KEY = "--api-key"


def check_profiles(store: ConfigStore) -> list[Problem]:
    """Every problem of ``Conversations/``; turns run as the default user, so it decides."""
    root = store.locations.configs / FOLDER
    problems: list[Problem] = [*twins(store, root)]
    keys = _key_names(store)
    for path in files_below(store, root):
        file = store.cache.file(path, parse_profile)
        if path.parent != root:
            problems.append(_misplaced(file.file))
        problems.extend(own_problems(file))
        if file.newest is not None:
            profile = file.newest.value.value
            problems.extend(_workflows(store, file.file, profile))
            problems.extend(_clash(store, file.file, profile))
            problems.extend(_actions(file.file, profile))
            problems.extend(_who(file.file, profile, keys))
    return problems


def _warning(code: str, file: str, place: str, message: str, remedy: str) -> Problem:
    return Problem(
        code=code, severity="warning", file=file, place=place, message=message, remedy=remedy
    )


def _misplaced(file: str) -> Problem:
    return _warning(
        "misplaced_profile",
        file,
        "",
        "Profiles in folders are not found.",
        f"Put the file into `{FOLDER}/` itself.",
    )


def _clash(store: ConfigStore, file: str, profile: Profile) -> Iterator[Problem]:
    """A model's name that two things have: the workflow answers (MAP-1, MAP-7)."""
    try:
        hidden = store.snapshot().shared_workflow(profile.name) is not None
    except ConfigError:
        return
    if hidden:
        yield Problem(
            code="profile_hidden",
            severity="warning",
            file=file,
            place="",
            message=f"There is a shared workflow {profile.name!r} too: as a model, it answers.",
            remedy="Rename one of them to have both as models.",
        )


def _workflows(store: ConfigStore, file: str, profile: Profile) -> Iterator[Problem]:
    try:
        config = store.snapshot()
    except ConfigError:
        # The user's file is broken, which `check_files` tells.
        return
    named = {"workflow": profile.workflow, "summaryWorkflow": profile.summary_workflow}
    for name, action in profile.actions.items():
        named[f"actions.{name}.workflow"] = action.workflow
    for place, workflow in named.items():
        if workflow and not _exists(config, workflow):
            yield Problem(
                code="missing_profile_workflow",
                severity="error",
                file=file,
                place=place,
                message=f"There is no workflow {workflow!r} for user {config.user.name!r}.",
                remedy="Name a shared workflow, a file of the user's own, or folder/name.",
            )


def _exists(config: Snapshot, workflow: str) -> bool:
    try:
        name, folder = place_of(config, workflow)
        config.workflow_file(name, folder)
    except ConfigError:
        return False
    return True


def _actions(file: str, profile: Profile) -> Iterator[Problem]:
    asks = False
    for name, action in profile.actions.items():
        asks |= action.approval
        place = f"actions.{name}"
        if not _CALLABLE.fullmatch(name):
            yield _warning(
                "unusable_action_name",
                file,
                place,
                "Model servers refuse tools of this name.",
                "Use 1 to 64 letters, digits, dashes and underscores.",
            )
        if action.http is None:
            continue
        if action.workflow:
            yield _warning(
                "action_does_two_things",
                file,
                place,
                "The request is made, and the workflow does not run.",
                "Remove `workflow` or `http`.",
            )
        if not re.match(r"https?://[^/\s]", action.http.url):
            yield Problem(
                code="bad_url",
                severity="error",
                file=file,
                place=f"{place}.http.url",
                message="Nothing can be reached under this address.",
                remedy="Write it with http:// or https:// and a host.",
            )
    if asks and profile.options.decision_timeout_seconds == 0:
        yield _warning(
            "unanswerable_proposal",
            file,
            "options.decisionTimeoutSeconds",
            "Actions wait for approval, and are declined at once.",
            'Allow some seconds, or let actions have `"approval": false`.',
        )


def _who(file: str, profile: Profile, keys: set[str]) -> Iterator[Problem]:
    for field, names in (("maySend", profile.may_send), ("mayApprove", profile.may_approve)):
        for number, name in enumerate(names):
            if name not in keys:
                near = nearest(name, sorted(keys))
                yield _warning(
                    "unknown_key_name",
                    file,
                    f"{field}[{number}]",
                    f"No user has an API key of the name {name!r}.",
                    f"Did you mean `{near}`?" if near else "Give a key of `apiKeys` this `name`.",
                )


def _key_names(store: ConfigStore) -> set[str]:
    names = {COMMAND_LINE_KEY}
    # As above: who has a broken file is told so.
    with suppress(ConfigError):
        for user in store.user_names:
            keys = store.snapshot(user).user.api_keys
            names.update(key.name or f"key {number}" for number, key in enumerate(keys, start=1))
    return names
