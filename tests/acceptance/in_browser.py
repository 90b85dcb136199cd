"""What a person does in a browser. Run by ``browsing`` where Playwright is installed:

python -m tests.acceptance.in_browser SCENARIO GIVEN CHROMIUM PICTURES

Writes one JSON object a step, ``{"tried", "result"}``.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Error, Locator, Page, sync_playwright

from tests.acceptance.server import BROKE, COUNT, FAIL_NOW, HELLO, MODEL
from tests.acceptance.steps import FAILED, PASSED

_END_OF_GREETING = "before you connect a real model."
_LONG_MS = 30_000
_SETTLE_MS = 4000
"""What is drawn after an answer: its chores, fonts, animations."""


@contextmanager
def _step(tried: str) -> Iterator[None]:
    result = PASSED
    try:
        yield
    except (Error, AssertionError) as error:
        result = f"{FAILED}: {str(error).splitlines()[0]}"
    sys.stdout.write(json.dumps({"tried": tried, "result": result}) + "\n")
    sys.stdout.flush()


def _open_webui(page: Page, given: str, pictures: Path) -> None:
    url, _, token = given.partition("|")

    def say(model: str, text: str) -> None:
        """In a new chat."""
        page.goto(f"{url}/")
        page.locator("#chat-input").wait_for(timeout=_LONG_MS)
        welcome = page.get_by_role("button", name="Okay, Let's Go!")
        if welcome.count():
            welcome.first.click()
        page.locator("#model-selector-model-button").click()
        page.locator(f"[aria-label='Select default:{model} model']").first.click()
        page.locator("#chat-input").click()
        page.keyboard.type(text)
        page.keyboard.press("Enter")

    page.add_init_script(f"localStorage.setItem('token', {json.dumps(token)})")
    with _step("pick the workflow, type a message, read the streamed answer"):
        say("assistant", HELLO)
        page.get_by_text(_END_OF_GREETING).wait_for(timeout=_LONG_MS)
    page.wait_for_timeout(_SETTLE_MS)
    with _step("code is shown as code"):
        say("router", "Write a Python function that adds two numbers")
        page.locator(".cm-content", has_text="def add").wait_for(timeout=_LONG_MS)
    page.wait_for_timeout(_SETTLE_MS)
    page.screenshot(path=pictures / "open-webui.png")
    with _step("a failing model: its message is shown"):
        say(MODEL, FAIL_NOW)
        page.get_by_text(BROKE).first.wait_for(timeout=_LONG_MS)
    page.screenshot(path=pictures / "open-webui-error.png")
    with _step("a tool of its own is called and its result sent back"):
        say(MODEL, "webui, call it")
        page.get_by_text("The tool said:").first.wait_for(timeout=_LONG_MS)
    page.screenshot(path=pictures / "open-webui-tool.png")
    with _step("press stop while words arrive: no more come"):
        say(MODEL, COUNT)
        page.get_by_text("number-3").first.wait_for(timeout=_LONG_MS)
        page.get_by_role("button", name="Stop").first.click()
        page.wait_for_timeout(_SETTLE_MS)
        assert "number-200" not in page.inner_text("body"), "it went on"
    page.screenshot(path=pictures / "open-webui-stop.png")


def _sillytavern(page: Page, given: str, pictures: Path) -> None:
    url, _, ours = given.partition("|")
    welcome = page.locator("dialog[open] .popup-button-ok")
    with _step("type our address as Custom (OpenAI-compatible), connect, pick a workflow"):
        page.goto(url)
        welcome.first.click(timeout=_LONG_MS)
        page.locator("#API-status-top").click()
        page.locator("#main_api").select_option("openai")
        page.locator("#chat_completion_source").select_option("custom")
        page.locator("#custom_api_url_text").fill(f"{ours}/v1")
        page.locator("#api_button_openai").click()
        listed = page.locator("#model_custom_select")
        listed.locator("option[value='default:assistant']").wait_for(
            state="attached", timeout=_LONG_MS
        )
        listed.select_option("default:assistant")
        page.screenshot(path=pictures / "sillytavern-connected.png")
        page.locator("#API-status-top").click()

    def say(text: str) -> None:
        # The page takes nothing while it carries out what it was told before.
        page.wait_for_timeout(_SETTLE_MS)
        page.locator("#send_textarea").fill(text)
        page.locator("#send_but").click()

    def answer(text: str) -> Locator:
        return page.locator(".last_mes .mes_text", has_text=text)

    with _step("talk to a character: the answer streams in"):
        say("/go Seraphina")
        page.locator(".mes[ch_name='Seraphina']").first.wait_for(timeout=_LONG_MS)
        say(HELLO)
        answer(_END_OF_GREETING).wait_for(timeout=_LONG_MS)
    page.screenshot(path=pictures / "sillytavern.png")
    with _step("press stop while words arrive: no more come"):
        say(f"/model default:{MODEL}")
        say(COUNT)
        answer("number-3").wait_for(timeout=_LONG_MS)
        page.locator("#mes_stop").click()
        page.wait_for_timeout(_SETTLE_MS)
        assert not answer("number-200").count(), "it went on"
    with _step("a failing model: its message is shown"):
        say(FAIL_NOW)
        page.locator(".toast-message", has_text=BROKE).wait_for(timeout=_LONG_MS)
    page.screenshot(path=pictures / "sillytavern-error.png")


SCENARIOS: Mapping[str, Callable[[Page, str, Path], None]] = {
    "open-webui": _open_webui,
    "sillytavern": _sillytavern,
}


def main(scenario: str, given: str, browser: str, pictures: str) -> None:
    with sync_playwright() as playwright:
        # Without its sandbox, which root may not use; it opens pages of this machine only.
        launched = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = launched.new_page(viewport={"width": 1100, "height": 640})
        SCENARIOS[scenario](page, given, Path(pictures))
        launched.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
