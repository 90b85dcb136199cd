"""Conversation profiles: ``Conversations/<name>.json`` beside the other configuration (MAP-1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import Field

from Middleware.config.files import Snapshot
from Middleware.config.lookup import Place
from Middleware.config.models import Settings, Text, Texts, Whole
from Middleware.config.paths import is_plain_name
from Middleware.config.store import ConfigStore
from Middleware.config.validation import require_object, unknown_keys, validated
from Middleware.config.watched_file import Source
from Middleware.conversations.models import Action, BadOutcome, Options
from Middleware.core.errors import ConfigError, RequestError
from Middleware.core.registry import nearest
from Middleware.llm.backends.refund_desk import ACTION
from Middleware.workflows.output.json_schema import NoSchema, SchemaCheck

FOLDER = "Conversations"
FAKE = "refund-desk"


class HttpCall(Settings):
    """An action that is a request to another program."""

    url: str = Field(min_length=1)
    """Gets JSON with ``action``, ``arguments`` and ``reference``, and the reference as
    ``Idempotency-Key``."""
    method: Text = "POST"
    """Of HTTP."""


class ActionFile(Settings):
    """What an approved action does. Neither workflow nor call: it is recorded, and no more."""

    description: Text = ""
    """Tells the model what it does."""
    workflow: Text = ""
    """Does it; what it puts out becomes the reply."""
    http: HttpCall | None = None
    """A request to another program that does it."""
    # Not a loose boolean, to which any other word is false: a slip must not mean "do not ask".
    approval: bool = True
    """Whether somebody has to approve it first."""
    arguments_schema: Mapping[str, Any] | None = Field(None, alias="schema")
    """JSON Schema of its arguments; others are not proposed."""


class OptionsFile(Settings):
    """Options of START-4; whoever starts a conversation may choose others."""

    turns_per_run: Whole = Field(3, ge=1)
    """Turns after which the next run begins, with a bounded summary."""
    inactivity_seconds: float = Field(3600, ge=0)
    """How long a conversation waits for a message before it ends."""
    decision_timeout_seconds: float | None = Field(None, ge=0)
    """How long a proposal waits; then it counts as declined. Absent: as long as the inactivity."""
    summary_max_chars: Whole = Field(2000, ge=0)
    """The oldest text falls out first."""


class ProfileFile(Settings):
    """What the conversations of one kind are made of."""

    description: Text = ""
    """For people."""
    workflow: Text = ""
    """Runs as the model call of each turn. Empty: the fake model."""
    summary_workflow: Text = ""
    """Makes the new summary of the old one, the message and the reply."""
    options: OptionsFile = OptionsFile()
    """Of a new conversation; whoever starts one may choose others."""
    recent_turns: Whole = Field(10, ge=0, le=1000)
    """How many earlier turns the workflow is shown."""
    actions: Mapping[str, ActionFile] = Field(default_factory=dict)
    """Name -> what a model may propose under it."""
    may_send: Texts = ()
    """Names of keys that may send messages. Empty: everyone who may use the server."""
    may_approve: Texts = ()
    """Names of keys that may approve and decline. Empty: everyone who may use the server."""
    approve_command: Text = "/approve"
    """What a plain front end writes to approve; empty turns it off."""
    decline_command: Text = "/decline"
    """The same to decline."""
    on_divergence: Literal["notice", "fork", "continue"] = "notice"
    """When a front end's list of messages contradicts the transcript: tell so, start another
    conversation with the summary of this one, or take the last message all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What a conversation's turns are run with; the file in force when a turn begins counts."""

    name: str
    workflow: str = ""
    summary_workflow: str = ""
    options: Options = field(default_factory=Options)
    recent_turns: int = 10
    actions: Mapping[str, ActionFile] = field(default_factory=dict)
    may_send: tuple[str, ...] = ()
    may_approve: tuple[str, ...] = ()
    approve_command: str = "/approve"
    decline_command: str = "/decline"
    on_divergence: Literal["notice", "fork", "continue"] = "notice"

    def check(self, action: Action) -> bool:
        """Whether the action needs approval. Raises BadOutcome when it may not be proposed."""
        rule = self.actions.get(action.name)
        if rule is None:
            raise BadOutcome(f"The model proposed {action.name!r}, which is no action here.")
        if rule.arguments_schema is not None:
            _require_fit(action, rule.arguments_schema)
        return bool(rule.approval)

    def lets_send(self, key: str | None) -> bool:
        return not self.may_send or key in self.may_send

    def lets_approve(self, key: str | None) -> bool:
        return not self.may_approve or key in self.may_approve

    def lets_read(self, key: str | None) -> bool:
        """Who has a part in its conversations; only they may see, end or repair them."""
        return self.lets_send(key) or self.lets_approve(key)


class Profiles(Protocol):
    """Where profiles come from."""

    def find(self, name: str) -> Profile | None:
        """None when there is no such profile; raises ConfigError when its file is broken."""
        ...

    def names(self) -> tuple[str, ...]: ...

    def listed(self) -> tuple[str, ...]:
        """Those that appear as models (MAP-1)."""
        ...


FAKE_PROFILE = Profile(
    name=FAKE,
    actions={
        ACTION: ActionFile.model_validate(
            {
                "schema": {
                    "type": "object",
                    "properties": {"request": {"type": "string"}},
                    "required": ["request"],
                    "additionalProperties": False,
                }
            }
        )
    },
)
"""The fake model without any configuration."""


@dataclass(frozen=True, slots=True)
class FixedProfiles:
    """Profiles that are no files."""

    profiles: tuple[Profile, ...] = (FAKE_PROFILE,)

    def find(self, name: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)

    def names(self) -> tuple[str, ...]:
        return tuple(profile.name for profile in self.profiles)

    listed = names


class FileProfiles:
    """The profiles of a configuration tree. The fake model is there even without a file."""

    def __init__(self, store: ConfigStore, user: str | None = None) -> None:
        self._store = store
        self._user = user

    def find(self, name: str) -> Profile | None:
        if not is_plain_name(name):
            return None
        snapshot = self._store.snapshot(self._user)
        place = Place(self._store.locations.configs / FOLDER, (name,))
        path = self._store.cache.locate(snapshot.listing, [(place, True)])
        if path is None:
            return FAKE_PROFILE if name == FAKE else None
        return snapshot.load(path, parse_profile)

    def names(self) -> tuple[str, ...]:
        found = {FAKE, *self._files(self._store.snapshot(self._user))}
        return tuple(sorted(found))

    def listed(self) -> tuple[str, ...]:
        """Those with a file; the fake model alone is no model of a tree that does not name it."""
        return tuple(sorted(self._files(self._store.snapshot(self._user))))

    def _files(self, snapshot: Snapshot) -> list[str]:
        listing = snapshot.listing(self._store.locations.configs / FOLDER)
        return [stem for stem in listing.by_name if not stem.startswith(("_", "."))]


def parse_profile(raw: Any, source: Source) -> Profile:
    """A file's content as a profile; raises ConfigError for one that cannot be used."""
    read = validated(ProfileFile, require_object(raw, source.file), source.file)
    for problem in unknown_keys(read, source.file):
        source.report(problem)
    for name, action in read.actions.items():
        _check_schema(source.file, name, action)
        for problem in unknown_keys(action, source.file, under=f"actions.{name}"):
            source.report(problem)
    decision = read.options.decision_timeout_seconds
    return Profile(
        name=source.name,
        workflow=read.workflow,
        summary_workflow=read.summary_workflow,
        options=Options(
            turns_per_run=read.options.turns_per_run,
            inactivity_seconds=read.options.inactivity_seconds,
            decision_timeout_seconds=(
                read.options.inactivity_seconds if decision is None else decision
            ),
            summary_max_chars=read.options.summary_max_chars,
        ),
        recent_turns=read.recent_turns,
        actions=read.actions,
        may_send=read.may_send,
        may_approve=read.may_approve,
        approve_command=read.approve_command.strip(),
        decline_command=read.decline_command.strip(),
        on_divergence=read.on_divergence,
    )


def _require_fit(action: Action, schema: Mapping[str, Any]) -> None:
    try:
        problems = SchemaCheck(schema).problems(dict(action.arguments))
    except NoSchema as error:
        raise BadOutcome(
            f"The schema of action {action.name!r} cannot be used: {error}."
        ) from error
    if problems:
        raise BadOutcome(f"The arguments of {action.name!r} do not fit: {'; '.join(problems)}")


def _check_schema(file: str, name: str, action: ActionFile) -> None:
    if action.arguments_schema is None:
        return
    try:
        SchemaCheck(action.arguments_schema)
    except NoSchema as error:
        raise ConfigError(
            f"is no JSON Schema: {error}", file=file, where=f"actions.{name}.schema"
        ) from error


def require_profile(profiles: Profiles, name: str) -> Profile:
    """Raises UnknownProfile, naming what was probably meant."""
    profile = profiles.find(name)
    if profile is None:
        raise UnknownProfile(name, nearest(name, profiles.names()))
    return profile


class UnknownProfile(RequestError):
    status = 404
    code = "profile_not_found"

    def __init__(self, name: str, near: str | None) -> None:
        hint = f" Did you mean {near!r}?" if near else ""
        super().__init__(f"There is no conversation profile {name[:80]!r}.{hint}")
        self.param = "profile"
