"""ContextCompactor (nodes §21, memory-and-state §15)."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from Middleware.config.files import Snapshot
from Middleware.config.models import Settings, Text, Whole
from Middleware.config.validation import require_object, unknown_keys, validated
from Middleware.config.watched_file import Source
from Middleware.core.errors import ConfigError
from Middleware.core.events import Reply
from Middleware.core.messages import Message
from Middleware.memory.compaction import (
    OLD_FILE,
    OLDEST_FILE,
    Compacted,
    Windows,
    covered_until,
    filled,
    is_due,
    transcript,
    windows,
)
from Middleware.storage.discussions import DiscussionFolder
from Middleware.workflows.handlers.base.named_files import EndpointName, PresetName
from Middleware.workflows.handlers.base.node_handler import NodeHandler, SettingsFile, node_type
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.impl.model_calls import ask_with_texts, payload_of
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.workflow_context import WorkflowPayload
from Middleware.workflows.prompts.clamp import LEVELS

logger = logging.getLogger(__name__)

_SUMMARISER = "You summarise conversations. Answer with the summary and nothing else."


class ContextCompactorOptions(NodeOptions):
    """Keep summaries of what lies further back in a long conversation, and put them out.

    The conversation, without system messages and the newest `lookbackStartTurn` (5) messages, has
    three parts: the newest `recentContextTokens` (20000) are left alone, the `oldContextTokens`
    (20000) before them get one summary, and all before those another one. Models are called only
    when enough has moved from one part into the next. The output is
    `<context_compactor_old>…</context_compactor_old>` and
    `<context_compactor_oldest>…</context_compactor_oldest>` on lines of their own, without the
    parts that are empty. Without a discussion id it is empty.

    Everything is set in one file, `contextCompactorSettingsFile` of the user, among the user's own
    workflows: `endpointName`, `preset`, `maxResponseSizeInTokens` (750), the sizes above,
    `wilmerContextEstimationLevel`, and the prompts `oldSectionSystemPrompt`, `oldSectionPrompt`
    (with `[MESSAGES_TO_SUMMARIZE]` and `[RECENT_MESSAGES]`), `neutralSummarySystemPrompt`,
    `neutralSummaryPrompt` (`[MESSAGES_TO_SUMMARIZE]`), `oldestUpdateSystemPrompt` and
    `oldestUpdatePrompt` (`[EXISTING_SUMMARY]` and `[NEW_CONTENT]`). Variables are not filled in
    there.
    """


class CompactorSettings(Settings):
    """The settings file of ContextCompactor nodes."""

    endpoint_name: EndpointName = ""
    """File of the endpoints folder: the model that summarises. Must be there."""
    preset: PresetName = ""
    """As in nodes."""
    max_response_size_in_tokens: Whole = 750
    """The longest summary."""
    recent_context_tokens: Whole = 20000
    """How much of the newest messages is left alone."""
    old_context_tokens: Whole = 20000
    """How much before that gets a summary of its own."""
    lookback_start_turn: Whole = 5
    """How many of the newest messages are not looked at."""
    wilmer_context_estimation_level: Text = "conservative"
    """How far to trust the token estimate: raises both sizes."""
    old_section_system_prompt: Text = _SUMMARISER
    """For the summary of the part in the middle."""
    old_section_prompt: Text = "[MESSAGES_TO_SUMMARIZE]"
    """The same; ``[RECENT_MESSAGES]`` is what comes behind that part."""
    neutral_summary_system_prompt: Text = _SUMMARISER
    """For a summary of what moves from the middle into the oldest part."""
    neutral_summary_prompt: Text = "[MESSAGES_TO_SUMMARIZE]"
    """The same."""
    oldest_update_system_prompt: Text = _SUMMARISER
    """For putting that summary and the one of the oldest part together."""
    oldest_update_prompt: Text = "[EXISTING_SUMMARY]\n\n[NEW_CONTENT]"
    """The same."""

    def windows(self, messages: tuple[Message, ...]) -> Windows:
        return windows(
            messages,
            lookback=self.lookback_start_turn,
            recent_tokens=self._scaled(self.recent_context_tokens),
            old_tokens=self.old_tokens,
        )

    @property
    def old_tokens(self) -> int:
        return self._scaled(self.old_context_tokens)

    def _scaled(self, tokens: int) -> int:
        return int(tokens * LEVELS.get(self.wilmer_context_estimation_level.strip().lower(), 1.0))


def parse_compactor_settings(raw: Any, source: Source) -> CompactorSettings:
    settings = validated(CompactorSettings, require_object(raw, source.file), source.file)
    for problem in unknown_keys(settings, source.file):
        if not problem.place.lower().startswith("display"):
            source.report(problem)
    level = settings.wilmer_context_estimation_level
    if level.strip().lower() not in LEVELS:
        logger.warning(
            "%s: unknown wilmerContextEstimationLevel %r counts as conservative.",
            source.file,
            level,
        )
    return settings


@node_type("ContextCompactor", options=ContextCompactorOptions)
class ContextCompactorHandler(NodeHandler):
    settings_file = SettingsFile(
        "contextCompactorSettingsFile",
        lambda user: user.context_compactor_settings_file,
        parse_compactor_settings,
    )

    def model_settings(self, config: Snapshot, discussion_id: str | None) -> Mapping[str, Any]:
        settings = _settings(config) if discussion_id else None
        if settings is None:
            return {}
        return {
            "endpointName": settings.endpoint_name,
            "preset": settings.preset,
            "maxResponseSizeInTokens": settings.max_response_size_in_tokens,
        }

    def handle(self, context: ExecutionContext) -> WorkflowPayload:
        scope = context.request_scope
        settings = _settings(scope.config) if scope and context.discussion_id else None
        if scope is None or settings is None:
            return WorkflowPayload.of("")
        folder = scope.server.discussion(scope.config, context.discussion_id, scope.api_key)
        if folder is None:
            return WorkflowPayload.of("")
        replies: list[Reply] = []
        cut = settings.windows(tuple(context.messages))
        # Not the lock of the folder: others need that while models are at work.
        with folder.locks.try_hold(folder.path / OLD_FILE) as free:
            known = _stored(folder)
            if not free:
                logger.info("another run is compacting this conversation")
            elif is_due(cut, known, settings.old_tokens):
                known = _compact(_Compaction(context, settings, cut, replies), known)
                _store(folder, known)
        return payload_of(known.shown(), replies)


@dataclass(frozen=True, slots=True)
class _Compaction:
    context: ExecutionContext
    settings: CompactorSettings
    cut: Windows
    replies: list[Reply] = field(default_factory=list)

    def ask(self, system: str, prompt: str, values: Mapping[str, str]) -> str:
        """The model's answer; blank when it has none."""
        reply = ask_with_texts(self.context, system, filled(prompt, values))
        self.replies.append(reply)
        return reply.text.strip()


def _compact(work: _Compaction, known: Compacted) -> Compacted:
    """The state after it. Nothing is stored before all calls went well (S5)."""
    if work.context.plan is None:
        raise ConfigError(
            "The settings of ContextCompactor have no `endpointName`.",
            remedy="Name the file of the endpoint that is to summarise.",
        )
    cut = work.cut
    old = transcript(cut.messages[cut.old : cut.recent])
    said = _summary_of_old(work, old) if old else ""
    covered = covered_until(cut, known)
    after = replace(
        known,
        old=said or old,
        first_old=cut.first_old,
        last_old=cut.last_old,
        covered=cut.at(covered),
    )
    shifted = transcript(cut.messages[covered : cut.old])
    merged = _merged(work, known.oldest, shifted) if shifted else ""
    if merged:
        # Without an answer the messages wait for the next time.
        after = replace(after, oldest=merged, oldest_hash=cut.at(0).hash, covered=cut.first_old)
    return after


def _summary_of_old(work: _Compaction, old: str) -> str:
    cut, settings = work.cut, work.settings
    values = {
        "[MESSAGES_TO_SUMMARIZE]": old,
        "[RECENT_MESSAGES]": transcript(cut.messages[cut.recent :]),
    }
    return work.ask(settings.old_section_system_prompt, settings.old_section_prompt, values)


def _merged(work: _Compaction, oldest: str, shifted: str) -> str:
    settings = work.settings
    summary = work.ask(
        settings.neutral_summary_system_prompt,
        settings.neutral_summary_prompt,
        {"[MESSAGES_TO_SUMMARIZE]": shifted},
    )
    values = {"[EXISTING_SUMMARY]": oldest, "[NEW_CONTENT]": summary or shifted}
    return work.ask(settings.oldest_update_system_prompt, settings.oldest_update_prompt, values)


def _settings(config: Snapshot) -> CompactorSettings | None:
    """None, and a line in the log, when there are none that can be used."""
    name = config.user.context_compactor_settings_file.strip()
    if not name:
        logger.info("the user has no contextCompactorSettingsFile: nothing is compacted")
        return None
    try:
        return config.load(config.workflow_file(name), parse_compactor_settings)
    except ConfigError as error:
        logger.warning("nothing is compacted: %s", error.message)
        return None


def _stored(folder: DiscussionFolder) -> Compacted:
    return Compacted.read(folder.read_list(OLD_FILE), folder.read_list(OLDEST_FILE))


def _store(folder: DiscussionFolder, state: Compacted) -> None:
    """Oldest first: it says by itself what is in it, so that a crash between the two neither
    loses messages nor merges them twice."""
    try:
        if state.oldest or state.covered != state.first_old:
            folder.write(OLDEST_FILE, state.oldest_entries())
        folder.write(OLD_FILE, state.old_entries())
    except OSError as error:
        logger.warning("the summaries of this conversation could not be written: %r", error)
