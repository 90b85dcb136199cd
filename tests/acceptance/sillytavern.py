"""SillyTavern: through its own server, in a browser, and by requests that it was seen to send."""

import shutil
from pathlib import Path
from typing import Any

from tests.acceptance import browsing
from tests.acceptance.http_client import Client, streamed_text
from tests.acceptance.programs import Place, free_port, running
from tests.acceptance.server import BROKE, COUNT, FAIL_NOW, GREETING, HELLO, MODEL, Headrace
from tests.acceptance.steps import NotInstalled, Report, holds, wait_for

_START_SECONDS = 120
_CHAT: dict[str, Any] = {
    "model": "assistant",
    "messages": [
        {"role": "system", "content": "Write Ada's next reply in a fictional chat."},
        {"role": "system", "content": "Ada: We met at the mill."},
        {"role": "system", "content": "Ada is a miller. " * 200},
        {"role": "system", "content": "[Start a new Chat]"},
        {"role": "assistant", "content": "The wheel turns. What brings you here?"},
        {"role": "user", "content": HELLO},
    ],
    "temperature": 1,
    "max_tokens": 300,
    "stream": True,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "top_p": 1,
}
_TEXT: dict[str, Any] = {
    "prompt": HELLO,
    "model": "assistant",
    "max_tokens": 300,
    "temperature": 1,
    "top_p": 1,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "stop": ["\nAda:"],
}
_RAW: dict[str, Any] = {
    "model": "assistant:latest",
    "prompt": HELLO,
    "raw": True,
    "keep_alive": -1,
    "stream": False,
    "options": {"temperature": 1, "stop": ["\nAda:"], "num_ctx": 8192, "num_predict": 300},
}


def check(report: Report, place: Place, site: Headrace, folder: Path | None) -> None:
    program = (folder or _installed(place)).absolute()
    if not (program / "node_modules").is_dir() and folder is not None:
        raise NotInstalled(f"run `npm install` in {folder}")
    data = place.folder("sillytavern")
    shutil.copy(program / "default/config.yaml", data / "config.yaml")
    options: list[str | Path] = ["--configPath", data / "config.yaml", "--dataRoot", data / "data"]
    port = free_port()
    options += ["--port", str(port), "--browserLaunchEnabled", "false", "--listen", "false"]
    home = {"HOME": str(data)}
    with running(["node", "server.js", *options], data / "sillytavern.log", program, **home):
        client = Client(f"http://127.0.0.1:{port}")
        wait_for(lambda: client.answers("/csrf-token"), _START_SECONDS, "SillyTavern starts")
        client.headers["X-CSRF-Token"] = client.json("/csrf-token")["token"]
        report.version = client.json("/version")["pkgVersion"]
        _through_its_server(report, client, site)
        before = len(site.runs())
        if browsing.steps(report, place, "sillytavern", f"{client.url}|{site.url}"):
            with report.step("the stop button cancels the run"):
                wait_for(lambda: site.new_is_cancelled(before), 10, "a run is cancelled")


def _installed(place: Place) -> Path:
    """On npm it is a program with its server in it."""
    return place.npm("sillytavern", "sillytavern").parent.parent / "sillytavern"


def _through_its_server(report: Report, client: Client, site: Headrace) -> None:
    """What its page sends to its own server, which sends it on to us in its way."""
    custom = {"chat_completion_source": "custom", "custom_url": f"{site.url}/v1"}
    generate = "/api/backends/chat-completions/generate"

    with report.step("Chat Completion, Custom: connect lists the workflows"):
        listed = client.json("/api/backends/chat-completions/status", custom)
        holds(str(listed), "default:assistant")
    with report.step("Chat Completion, Custom: a streamed answer"):
        holds(streamed_text(client.text(generate, {**_CHAT, **custom})), GREETING)
    with report.step("Chat Completion, Custom: a whole answer"):
        whole = client.json(generate, {**_CHAT, **custom, "stream": False})
        holds(whole["choices"][0]["message"]["content"], GREETING)
    with report.step("Chat Completion, Custom: a failing model: its message comes through"):
        failing = [{"role": "user", "content": FAIL_NOW}]
        holds(
            client.text(generate, {**_CHAT, **custom, "model": MODEL, "messages": failing}), BROKE
        )
    with report.step("Chat Completion, Custom: who hangs up cancels the run"):
        counting = [{"role": "user", "content": COUNT}]
        asked = {**_CHAT, **custom, "model": MODEL, "messages": counting}
        with client.open(generate, asked) as response:
            response.readline()
        wait_for(lambda: site.runs()[0]["status"] == "cancelled", 10, "the run is cancelled")
    for kind, fields in (("generic", _TEXT), ("ollama", _RAW)):
        with report.step(f"Text Completion, {kind}: connect and a whole answer"):
            own = {"api_type": kind, "api_server": site.url}
            status = client.text("/api/backends/text-completions/status", own)
            holds(status, "assistant")
            asked = {**fields, **own, "model": "assistant", "stream": False}
            said = client.text("/api/backends/text-completions/generate", asked)
            holds(said, GREETING)


def check_recorded(report: Report, place: Place, site: Headrace) -> None:
    """The requests of SillyTavern 1.19, word for word in their fields, straight to us."""
    report.version = "1.19"
    client = Client(site.url)
    with report.step("Chat Completion, Custom, streamed"):
        stream = client.text("/v1/chat/completions", _CHAT)
        holds(streamed_text(stream), GREETING)
        assert stream.endswith("data: [DONE]\n\n"), stream[-100:]
    with report.step("Text Completion, Generic, without `stream`: a whole answer"):
        whole = client.json("/v1/completions", _TEXT)
        assert whole["object"] == "text_completion", whole
        holds(whole["choices"][0]["text"], GREETING)
    with report.step("Ollama, `/api/generate` with `raw`"):
        whole = client.json("/api/generate", _RAW)
        assert whole["done"] is True, whole
        holds(whole["response"], GREETING)
