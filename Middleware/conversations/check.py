"""What is wrong with conversation profiles: each by itself, and the workflows that they name."""

from collections.abc import Iterator

from Middleware.config.check import files_below, own_problems
from Middleware.config.files import Snapshot
from Middleware.config.problems import Problem
from Middleware.config.store import ConfigStore
from Middleware.conversations.profiles import FOLDER, Profile, parse_profile
from Middleware.conversations.workflow_runs import place_of
from Middleware.core.errors import ConfigError

CODES = {
    "profile_hidden": "a workflow has the name of a conversation profile",
    "missing_profile_workflow": "a profile names a workflow that is not there",
}


def check_profiles(store: ConfigStore) -> list[Problem]:
    """Every problem of ``Conversations/``; turns run as the default user, so it decides."""
    problems: list[Problem] = []
    for path in files_below(store, store.locations.configs / FOLDER):
        file = store.cache.file(path, parse_profile)
        problems.extend(own_problems(file))
        if file.newest is not None:
            problems.extend(_workflows(store, file.file, file.newest.value.value))
            problems.extend(_clash(store, file.file, file.newest.value.value))
    return problems


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
