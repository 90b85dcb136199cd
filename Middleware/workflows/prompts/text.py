"""The prompt of a text endpoint: one text, with the tokens of its template (config-files §8.2).

The template is kept exact: neither its own line breaks nor its spaces are trimmed (Surprise 13).
What people wrote is trimmed where it stands at an end of the prompt. Texts that the endpoint adds
stand inside the tokens, where the model takes them for what they are (Surprise 12).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from Middleware.config.models import Endpoint, PromptTemplate
from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_tokens
from Middleware.workflows.models.message_text import is_system, template_text
from Middleware.workflows.prompts.chat import PromptRules, last_messages, window, with_images
from Middleware.workflows.prompts.clamp import clamp


@dataclass(frozen=True, slots=True, kw_only=True)
class TextRules:
    """What a node and its endpoint say about prompts of text endpoints."""

    user_turn: bool = False
    """``addUserTurnTemplate``: the prompt becomes a user message."""
    open_assistant_turn: bool = False
    """``addOpenEndedAssistantTurnTemplate``: the assistant's prefix stands at the end."""
    generation_allowed: bool = False
    """The endpoint's ``addGenerationPrompt``, unless the node blocks it."""
    generation_forced: bool = False
    """Wherever it is allowed, whoever listens."""
    before_system: str = ""
    before_prompt: str = ""
    before_completion: str = ""

    def opens_answer(self, *, answers_parent: bool) -> bool:
        """Whether the prompt ends with the beginning of an answer. ``answers_parent``: the node
        answers another workflow and not the client (nodes §1; the same streamed and whole, S4).
        """
        return self.generation_allowed and (self.generation_forced or answers_parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPrompt:
    """The prompt, its images, and what the clamp did."""

    text: str
    images: tuple[str, ...] = ()
    dropped: int = 0
    over_budget: bool = False


@dataclass(frozen=True, slots=True)
class _Body:
    """All but the system prompt, while it is put together."""

    text: str
    ends_with_template: bool = False
    open: bool = False
    """Whether it ends inside an assistant's turn."""
    dropped: int = 0


def text_rules(
    endpoint: Endpoint, *, user_turn: bool, open_assistant_turn: bool, force: bool, block: bool
) -> TextRules:
    """The rules for a node; its options are those of nodes §1."""
    return TextRules(
        user_turn=user_turn,
        open_assistant_turn=open_assistant_turn,
        generation_allowed=endpoint.add_generation_prompt and not block,
        generation_forced=force or user_turn,
        before_system=endpoint.text_to_add_to_start_of_system
        if endpoint.add_text_to_start_of_system
        else "",
        before_prompt=endpoint.text_to_add_to_start_of_prompt
        if endpoint.add_text_to_start_of_prompt
        else "",
        before_completion=endpoint.text_to_add_to_start_of_completion
        if endpoint.add_text_to_start_of_completion
        else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSetting:
    """Everything about a prompt but its words."""

    rules: PromptRules
    text: TextRules
    template: PromptTemplate
    opens_answer: bool = False


def build_text(
    conversation: Sequence[Message], *, system_prompt: str, prompt: str | None, setting: TextSetting
) -> TextPrompt:
    """``prompt`` None is conversation mode; a prompt that turned out empty is not."""
    rules, text, template = setting.rules, setting.text, setting.template
    if prompt is None:
        body = _conversation(conversation, system_prompt, setting)
    else:
        body = _Body(_before_last_user(prompt, text.before_prompt, setting))
    if text.user_turn:
        prefix, suffix = template.around("user")
        body = replace(
            body, text=f"{prefix}{body.text}{suffix}", ends_with_template=bool(suffix), open=False
        )
    body = _opened(body, setting)
    prefix, suffix = template.around("system")
    system = f"{prefix}{text.before_system}{system_prompt}{suffix}"
    whole = system + (body.text if body.ends_with_template else body.text.rstrip())
    if not prefix:
        whole = whole.lstrip()
    return TextPrompt(
        text=whole + text.before_completion,
        images=_images(conversation, rules),
        dropped=body.dropped,
        over_budget=rules.clamp is not None and estimate_tokens(whole) > rules.clamp.window_budget,
    )


def continued(prompt: str, reply: str, words: str, template: PromptTemplate) -> str:
    """The prompt of a second round: what was answered, and what the user says to it."""
    _, answer_suffix = template.around("assistant")
    user_prefix, user_suffix = template.around("user")
    answer_prefix = template.around("assistant")[0] + template.prompt_template_end_token
    gap = "" if answer_suffix or user_prefix else "\n\n"
    after = "" if user_suffix or answer_prefix else "\n\n"
    answered = f"{prompt}{reply}{answer_suffix}{gap}"
    return f"{answered}{user_prefix}{words}{user_suffix}{after}{answer_prefix}"


def _conversation(
    conversation: Sequence[Message], system_prompt: str, setting: TextSetting
) -> _Body:
    """The newest messages, exactly as many as the node asks for (nodes S3), no system messages."""
    rules, template = setting.rules, setting.template
    messages: Sequence[Message] = window([m for m in conversation if not is_system(m)], rules)
    dropped = 0
    if rules.clamp is not None:
        budget = rules.clamp.window_budget - estimate_tokens(
            setting.text.before_system + system_prompt
        )
        messages, dropped, _ = clamp(messages, budget)
    messages = _with_text_before_user(messages, setting.text.before_prompt)
    ends_open = bool(messages) and messages[-1].role == "assistant"
    ends_with_template = (
        bool(messages) and not ends_open and bool(template.around(messages[-1].role)[1])
    )
    return _Body(template_text(messages, template), ends_with_template, ends_open, dropped)


def _with_text_before_user(messages: Sequence[Message], added: str) -> Sequence[Message]:
    """The text in front of what the user said last; a message of its own without one."""
    if not added:
        return messages
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "user":
            said = replace(messages[index], content=added + messages[index].content)
            return (*messages[:index], said, *messages[index + 1 :])
    return (*messages, Message("user", added))


def _before_last_user(prompt: str, added: str, setting: TextSetting) -> str:
    """In a prompt of the author's: behind the last user prefix that stands in it, else in front."""
    prefix = setting.template.around("user")[0]
    if not prefix.strip() or setting.text.user_turn or prefix not in prompt:
        return added + prompt
    at = prompt.rfind(prefix) + len(prefix)
    return prompt[:at] + added + prompt[at:]


def _opened(body: _Body, setting: TextSetting) -> _Body:
    """With the beginning of an answer at the end, where one is wanted and none is open."""
    if body.open or not (setting.text.open_assistant_turn or setting.opens_answer):
        return body
    prefix = setting.template.around("assistant")[0]
    end = setting.template.prompt_template_end_token if setting.opens_answer else ""
    opening = prefix + end
    if not opening:
        return body
    return replace(body, text=body.text + opening, ends_with_template=True, open=True)


def _images(conversation: Sequence[Message], rules: PromptRules) -> tuple[str, ...]:
    """Of the newest messages, as with a prompt of one's own (nodes §1)."""
    if not rules.accept_images:
        return ()
    recent = with_images(last_messages(conversation, rules.last_messages), rules)
    return tuple(image for message in recent for image in message.images)
