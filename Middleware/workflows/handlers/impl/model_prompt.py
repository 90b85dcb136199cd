"""What a Standard node sends: messages for chat endpoints, one text for text endpoints."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from Middleware.core.messages import Message
from Middleware.core.tokens import estimate_all, estimate_tokens
from Middleware.workflows.models.execution_context import ExecutionContext
from Middleware.workflows.models.message_text import body_start, leading_system
from Middleware.workflows.models.model_plan import ModelPlan
from Middleware.workflows.models.request_scope import RequestScope
from Middleware.workflows.prompts.chat import build_chat
from Middleware.workflows.prompts.clamp import fit_response_budget
from Middleware.workflows.prompts.images import Images
from Middleware.workflows.prompts.templates import template_of
from Middleware.workflows.prompts.text import TextRules, TextSetting, build_text

logger = logging.getLogger(__name__)


class PromptOptions(Protocol):
    """The texts of a node."""

    @property
    def system_prompt(self) -> str: ...

    @property
    def prompt(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """Either ``messages`` or ``text``."""

    messages: tuple[Message, ...] = ()
    text: str | None = None
    images: tuple[str, ...] = ()
    """Of a text; messages carry their own."""
    dropped: int = 0
    over_budget: bool = False

    @property
    def shown(self) -> tuple[Message, ...] | str:
        """For the run's record."""
        return self.messages if self.text is None else self.text

    @property
    def tokens(self) -> int:
        """Estimated."""
        if self.text is not None:
            return estimate_tokens(self.text)
        return estimate_all(message.content for message in self.messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """One call of a model by one node."""

    context: ExecutionContext
    options: PromptOptions
    plan: ModelPlan
    scope: RequestScope
    tools: Sequence[Mapping[str, Any]] = ()
    """That are sent along."""
    more_system: str = ""
    """Stands at the end of the system prompt, after a blank line."""


def prompt_of(asking: Asking) -> Prompt:
    """Build it, make its images ready, and tell what the clamp did. Raises MiddlewareError."""
    context, plan, scope = asking.context, asking.plan, asking.scope
    system_prompt = context.prompt(asking.options.system_prompt, context.system_prompt_override)
    if asking.more_system:
        system_prompt = "\n\n".join(filter(None, (system_prompt, asking.more_system)))
    # Decided before the variables are filled in: a prompt that resolves to nothing is
    # still a prompt (nodes §1).
    authored = context.prompt_override or asking.options.prompt
    prompt = context.prompt(asking.options.prompt, context.prompt_override) if authored else None
    if plan.text is not None:
        built = _text(asking, plan.text, system_prompt, prompt)
    else:
        built = _chat(asking, system_prompt, prompt)
    context.step.clamped_messages = built.dropped
    if built.dropped:
        scope.totals.dropped_messages += built.dropped
        logger.info(
            "context clamp: %d messages of the conversation do not fit endpoint %r and are "
            "left out",
            built.dropped,
            plan.endpoint.name,
        )
    if built.over_budget:
        logger.warning(
            "the prompt is larger than the window of endpoint %r; it is sent as it is",
            plan.endpoint.name,
        )
    return _with_images(built, asking)


def prompt_of_messages(plan: ModelPlan, scope: RequestScope, messages: Sequence[Message]) -> Prompt:
    """For nodes that make their messages themselves: as they are for a chat endpoint, in its
    template for a text endpoint, with the beginning of an answer where the endpoint allows it.
    """
    if plan.text is None:
        return Prompt(messages=tuple(messages))
    lead = leading_system(messages)
    built = build_text(
        messages[lead:],
        system_prompt="\n\n".join(message.content for message in messages[:lead]),
        prompt=None,
        setting=TextSetting(
            rules=replace(plan.prompt, last_messages=len(messages)),
            text=plan.text,
            template=template_of(scope.config, plan.endpoint),
            opens_answer=plan.text.generation_allowed,
        ),
    )
    return Prompt(text=built.text, images=built.images)


def parameters_of(plan: ModelPlan, prompt: Prompt) -> Mapping[str, Any]:
    """The plan's, with a length that fits beside the prompt (C-31)."""
    key = plan.length_key
    if key is None:
        return plan.parameters
    asked = plan.parameters[key]
    fitting = fit_response_budget(
        asked, window_tokens=plan.endpoint.max_context_token_size, prompt_tokens=prompt.tokens
    )
    if fitting < asked:
        logger.info(
            "an answer of %d tokens does not fit the window of endpoint %r beside the prompt; "
            "%d are asked for",
            asked,
            plan.endpoint.name,
            fitting,
        )
    return {**plan.parameters, key: fitting}


def client_parameters(asking: Asking) -> Mapping[str, Any]:
    """The client's sampling fields, where the workflow's owner lets them through (design §4)."""
    parameters = asking.scope.parameters
    if not parameters.values or not honoured(asking):
        return {}
    accepts = asking.plan.backend.accepts
    taken = {name: value for name, value in parameters.values.items() if name in accepts}
    parameters.used.update(taken)
    return taken


def honoured(asking: Asking) -> bool:
    """Whether this node's model is given what the client asks for."""
    honour = asking.scope.config.user.honour_request_parameters
    return honour == "all" or (honour == "responder" and asking.context.answers_client)


def _chat(asking: Asking, system_prompt: str, prompt: str | None) -> Prompt:
    context, plan, filler = asking.context, asking.plan, asking.scope.filler
    rules = plan.prompt
    if rules.clamp is not None and asking.tools:
        rules = replace(rules, tools=asking.tools)
    chat = build_chat(
        context.messages_for_model,
        system_prompt=system_prompt,
        prompt=prompt,
        rules=rules,
        instructions=() if asking.more_system else _own_instructions(asking),
    )
    messages = chat.messages
    if prompt is None and filler is not None:
        messages = (*messages, filler)
    return Prompt(messages=messages, dropped=chat.dropped, over_budget=chat.over_budget)


def _text(asking: Asking, text: TextRules, system_prompt: str, prompt: str | None) -> Prompt:
    context, plan, scope = asking.context, asking.plan, asking.scope
    conversation, rules = context.messages_for_model, plan.prompt
    if prompt is None and scope.filler is not None:
        conversation = (*conversation, scope.filler)
        rules = replace(rules, last_messages=rules.last_messages + 1)
    built = build_text(
        conversation,
        system_prompt=system_prompt,
        prompt=prompt,
        setting=TextSetting(
            rules=rules,
            text=text,
            template=template_of(scope.config, plan.endpoint),
            opens_answer=text.opens_answer(
                answers_parent=context.responds and not context.answers_client
            ),
        ),
    )
    return Prompt(
        text=built.text,
        images=built.images,
        dropped=built.dropped,
        over_budget=built.over_budget,
    )


def _own_instructions(asking: Asking) -> tuple[Message, ...]:
    """The client's instructions as they are, each in its role: when they are the whole system
    prompt, and the model server knows the role ``developer`` (C-27). Empty otherwise.
    """
    context = asking.context
    knows_role = asking.plan.endpoint.supports_developer_role
    if not knows_role or context.system_prompt_override is not None:
        return ()
    if asking.options.system_prompt.strip() != "{chat_system_prompt}":
        return ()
    leading = tuple(context.messages[: body_start(context.messages)])
    return leading if any(message.role == "developer" for message in leading) else ()


def _with_images(prompt: Prompt, asking: Asking) -> Prompt:
    if not prompt.images and not any(message.images for message in prompt.messages):
        return prompt
    images = Images(asking.plan.images, asking.context.messages, asking.scope.cancel)
    return replace(prompt, messages=images.of(prompt.messages), images=images.ready(prompt.images))
