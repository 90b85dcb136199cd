"""Every code of a problem has a section in `docs/checks.md`, and every section a code."""

import re

from Middleware.app import INSTALL
from Middleware.config.check import CODES as FILE_CODES
from Middleware.conversations.check import CODES as CONVERSATION_CODES
from Middleware.llm.check import CODES as MODEL_CODES
from Middleware.workflows.check import CODES as WORKFLOW_CODES

SECTION = re.compile(r"^### (\w+)\n(.*?)(?=^### |\Z)", re.M | re.S)
SECTIONS: dict[str, str] = dict(
    SECTION.findall((INSTALL / "docs" / "checks.md").read_text(encoding="utf-8"))
)


def test_every_code_has_a_section_in_alphabetical_order() -> None:
    codes = {*FILE_CODES, *MODEL_CODES, *WORKFLOW_CODES, *CONVERSATION_CODES}

    assert list(SECTIONS) == sorted(codes)


def test_every_section_says_what_why_what_to_do_and_shows_an_example() -> None:
    parts = ("**What**", "**Why**", "**Remedy**", "**Example**")
    lacking = {
        code: [part for part in parts if f"- {part}: " not in text]
        for code, text in SECTIONS.items()
    }

    assert {code: missing for code, missing in lacking.items() if missing} == {}
