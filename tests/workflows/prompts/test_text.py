"""Prompts of text endpoints, byte for byte (config-files §8.2, nodes §1)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from Middleware.config.models import Endpoint, PromptTemplate
from Middleware.core.messages import Message
from Middleware.workflows.prompts.chat import PromptRules
from Middleware.workflows.prompts.clamp import ClampSettings
from Middleware.workflows.prompts.text import (
    TextPrompt,
    TextSetting,
    build_text,
    continued,
    text_rules,
)

BAR = "\uff5c"
"""DeepSeek's tokens have a bar of their own."""
SHIPPED = Path(__file__).resolve().parents[3] / "Public/Configs/PromptTemplates"

HI = Message("user", "hi")
TALK = (
    Message("system", "of the client"),
    Message("user", "one"),
    Message("assistant", "two"),
    Message("systemMes", "note"),
    Message("user", "three"),
)
ADDED = {
    "addTextToStartOfSystem": True,
    "textToAddToStartOfSystem": "[S]",
    "addTextToStartOfPrompt": True,
    "textToAddToStartOfPrompt": "[P]",
    "addTextToStartOfCompletion": True,
    "textToAddToStartOfCompletion": "[C]",
}


def template(name: str) -> PromptTemplate:
    return PromptTemplate.model_validate(json.loads((SHIPPED / f"{name}.json").read_text("utf-8")))


@dataclass(frozen=True, kw_only=True)
class Case:
    id: str
    text: str
    conversation: tuple[Message, ...] = (HI,)
    system: str = "SYS"
    prompt: str | None = None
    template: str = "chatml"
    endpoint: Mapping[str, Any] = field(default_factory=dict)
    node: Mapping[str, bool] = field(default_factory=dict)
    last: int = 5
    answers_parent: bool = False


NODE = {"user_turn": False, "open_assistant_turn": False, "force": False, "block": False}
GENERATES = {"addGenerationPrompt": True}
FORCED = {"force": True}
SYS = "<|im_start|>system\nSYS<|im_end|>\n"
USER_HI = "<|im_start|>user\nhi<|im_end|>\n"
OPEN = "<|im_start|>assistant\n"


def built(case: Case, **rules: Any) -> TextPrompt:
    endpoint = Endpoint.model_validate({"name": "fast", **case.endpoint})
    text = text_rules(endpoint, **{**NODE, **case.node})
    return build_text(
        case.conversation,
        system_prompt=case.system,
        prompt=case.prompt,
        setting=TextSetting(
            rules=PromptRules(last_messages=case.last, **rules),
            text=text,
            template=template(case.template),
            opens_answer=text.opens_answer(answers_parent=case.answers_parent),
        ),
    )


CASES = [
    Case(id="the conversation", text=SYS + USER_HI),
    Case(
        id="system tokens stand there for an empty prompt too",
        system="",
        text="<|im_start|>system\n<|im_end|>\n" + USER_HI,
    ),
    Case(
        id="S3: exactly as many messages as asked for, none of the system's",
        conversation=TALK,
        last=3,
        text=SYS
        + "<|im_start|>assistant\ntwo<|im_end|>\n"
        + "<|im_start|>system\nnote<|im_end|>\n"
        + "<|im_start|>user\nthree<|im_end|>\n",
    ),
    Case(
        id="an assistant's last message stays open, and its end is trimmed",
        conversation=(HI, Message("assistant", "Well, \n")),
        text=SYS + USER_HI + "<|im_start|>assistant\nWell,",
    ),
    Case(
        id="Surprise 13: the newline of the assistant's prefix stays",
        endpoint=GENERATES,
        node=FORCED,
        text=SYS + USER_HI + OPEN,
    ),
    Case(id="not without the node's word", endpoint=GENERATES, text=SYS + USER_HI),
    Case(
        id="of a node that answers another workflow",
        endpoint=GENERATES,
        answers_parent=True,
        text=SYS + USER_HI + OPEN,
    ),
    Case(
        id="of one whose endpoint does not allow it",
        node=FORCED,
        answers_parent=True,
        text=SYS + USER_HI,
    ),
    Case(
        id="of one that blocks it",
        endpoint=GENERATES,
        node={"force": True, "block": True},
        answers_parent=True,
        text=SYS + USER_HI,
    ),
    Case(
        id="an answer that is open already is not begun again",
        conversation=(HI, Message("assistant", "Well")),
        endpoint=GENERATES,
        node=FORCED,
        text=SYS + USER_HI + "<|im_start|>assistant\nWell",
    ),
    Case(
        id="a prompt of one's own is trimmed at its end",
        prompt="Sum up:\n\n",
        text=SYS + "Sum up:",
    ),
    Case(
        id="in a user's turn it is not",
        prompt="Sum up:\n\n",
        node={"user_turn": True},
        text=SYS + "<|im_start|>user\nSum up:\n\n<|im_end|>\n",
    ),
    Case(
        id="a user's turn lets an answer begin",
        prompt="Sum up",
        endpoint=GENERATES,
        node={"user_turn": True},
        text=SYS + "<|im_start|>user\nSum up<|im_end|>\n" + OPEN,
    ),
    Case(
        id="S4: the open turn stands at the end",
        prompt="Sum up",
        node={"user_turn": True, "open_assistant_turn": True},
        text=SYS + "<|im_start|>user\nSum up<|im_end|>\n" + OPEN,
    ),
    Case(
        id="both ways to begin an answer begin one",
        prompt="Sum up",
        endpoint=GENERATES,
        node={"user_turn": True, "open_assistant_turn": True},
        text=SYS + "<|im_start|>user\nSum up<|im_end|>\n" + OPEN,
    ),
    Case(
        id="Surprise 12: texts of the endpoint stand inside the tokens",
        endpoint={**ADDED, **GENERATES},
        node=FORCED,
        text="<|im_start|>system\n[S]SYS<|im_end|>\n<|im_start|>user\n[P]hi<|im_end|>\n"
        + OPEN
        + "[C]",
    ),
    Case(
        id="the text of the prompt goes to the last user message",
        conversation=(*TALK, Message("assistant", "four")),
        endpoint={**ADDED},
        last=3,
        text="<|im_start|>system\n[S]SYS<|im_end|>\n<|im_start|>system\nnote<|im_end|>\n"
        "<|im_start|>user\n[P]three<|im_end|>\n<|im_start|>assistant\nfour[C]",
    ),
    Case(
        id="in a prompt with tokens of its own behind the last user prefix",
        prompt="<|im_start|>user\na<|im_end|>\n<|im_start|>user\nb<|im_end|>\n",
        endpoint={**ADDED},
        text="<|im_start|>system\n[S]SYS<|im_end|>\n<|im_start|>user\na<|im_end|>\n"
        "<|im_start|>user\n[P]b<|im_end|>[C]",
    ),
    Case(
        id="in any other in front",
        prompt="Sum up",
        endpoint={**ADDED},
        text="<|im_start|>system\n[S]SYS<|im_end|>\n[P]Sum up[C]",
    ),
    Case(
        id="a prompt that resolved to nothing is a prompt",
        prompt="",
        node={"user_turn": True},
        text=SYS + "<|im_start|>user\n<|im_end|>\n",
    ),
    Case(
        id="without system tokens the beginning is trimmed",
        template="alpaca",
        system="",
        endpoint=GENERATES,
        node=FORCED,
        text="### Instruction:\nhi\n\n### Response:\n",
    ),
    Case(id="messages that are not wanted", last=0, conversation=TALK, text=SYS),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in CASES])
def test_the_prompt(case: Case) -> None:
    assert built(case).text == case.text


@dataclass(frozen=True)
class Format:
    name: str
    text: str


FORMATS = [
    Format(
        "llama3",
        "<|start_header_id|>system<|end_header_id|>\n\nSYS<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\none<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\ntwo<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nthree<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    Format("mistral", "SYS\n\n[INST] one [/INST]two</s>[INST] three [/INST]"),
    Format(
        "mistral-small-2501",
        "[SYSTEM_PROMPT]SYS[/SYSTEM_PROMPT][INST]one[/INST]two</s>[INST]three[/INST]",
    ),
    Format(
        "alpaca",
        "SYS\n\n### Instruction:\none\n\n### Response:\ntwo\n\n"
        "### Instruction:\nthree\n\n### Response:\n",
    ),
    Format("vicuna-1.1", "SYS USER: one ASSISTANT: two</s>USER: three ASSISTANT: "),
    Format(
        "gemma",
        "<start_of_turn>user\nSYS<end_of_turn>\n<start_of_turn>user\none<end_of_turn>\n"
        "<start_of_turn>model\ntwo<end_of_turn>\n<start_of_turn>user\nthree<end_of_turn>\n"
        "<start_of_turn>model\n",
    ),
    Format(
        "phi-3",
        "<|system|>\nSYS<|end|>\n<|user|>\none<|end|>\n<|assistant|>\ntwo<|end|>\n"
        "<|user|>\nthree<|end|>\n<|assistant|>\n",
    ),
    Format(
        "phi-4",
        "<|im_start|>system<|im_sep|>SYS<|im_end|><|im_start|>user<|im_sep|>one<|im_end|>"
        "<|im_start|>assistant<|im_sep|>two<|im_end|><|im_start|>user<|im_sep|>three<|im_end|>"
        "<|im_start|>assistant<|im_sep|>",
    ),
    Format(
        "deepseek-v3",
        f"SYS<{BAR}User{BAR}>one<{BAR}Assistant{BAR}>two<{BAR}end▁of▁sentence{BAR}><{BAR}User{BAR}>three<{BAR}Assistant{BAR}>",
    ),
    Format(
        "command-r",
        "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>SYS<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>one<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>two<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>three<|END_OF_TURN_TOKEN|>"
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    ),
]


@pytest.mark.parametrize("form", [pytest.param(f, id=f.name) for f in FORMATS])
def test_formats_that_ship(form: Format) -> None:
    talk = (Message("user", "one"), Message("assistant", "two"), Message("user", "three"))
    case = Case(
        id="",
        conversation=talk,
        template=form.name,
        endpoint=GENERATES,
        node=FORCED,
        text=form.text,
    )

    assert built(case).text == form.text


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_every_template_that_ships_has_every_key_and_tells_roles_apart(path: Path) -> None:
    raw = json.loads(path.read_text("utf-8"))
    keys = {
        f"promptTemplate{role}{end}"
        for role in ("System", "User", "Assistant", "Systemmes")
        for end in ("Prefix", "Suffix")
    }

    assert keys | {"promptTemplateEndToken"} == raw.keys() - {"$schema"}
    if path.stem != "_chatonly":
        ways = {raw["promptTemplateUserPrefix"] + raw["promptTemplateUserSuffix"]}
        assert (
            raw["promptTemplateAssistantPrefix"] + raw["promptTemplateAssistantSuffix"] not in ways
        )


def test_the_clamp_drops_the_oldest_whole_messages() -> None:
    talk = tuple(Message("user" if i % 2 else "assistant", f"{i} " * 100) for i in range(30))
    clamp = ClampSettings(window_tokens=2000, response_tokens=100)
    case = Case(id="", conversation=talk, last=100, text="")
    prompt = built(case, clamp=clamp)

    assert prompt.dropped == 30 - prompt.text.count("<|im_end|>\n") + 1
    assert 0 < prompt.dropped < 30
    assert "29 29" in prompt.text
    assert not prompt.over_budget


def test_a_prompt_that_is_too_long_is_sent_whole_and_told() -> None:
    clamp = ClampSettings(window_tokens=1000, response_tokens=100)
    prompt = built(Case(id="", prompt="word " * 2000, text=""), clamp=clamp)

    assert (prompt.dropped, prompt.over_budget) == (0, True)
    assert prompt.text.count("word") == 2000


def test_images_come_from_the_newest_messages() -> None:
    talk = tuple(Message("user", "x", images=(f"i{n}",)) for n in range(4))
    case = Case(id="", conversation=talk, last=3, text="")

    assert built(case).images == ()
    assert built(case, accept_images=True).images == ("i1", "i2", "i3")
    assert built(case, accept_images=True, max_images=2).images == ("i2", "i3")


def test_a_second_round_goes_on_in_turns() -> None:
    whole = continued(SYS + USER_HI + OPEN, "Hello", "Again.", template("chatml"))

    assert whole == (
        SYS + USER_HI + OPEN + "Hello<|im_end|>\n<|im_start|>user\nAgain.<|im_end|>\n" + OPEN
    )


def test_without_a_template_its_parts_are_told_apart_by_blank_lines() -> None:
    assert continued("P", "R", "W", PromptTemplate()) == "PR\n\nW\n\n"
