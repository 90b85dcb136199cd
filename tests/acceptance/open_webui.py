"""Open WebUI, as a front end of OpenAI's kind and of Ollama's; through its API and in a browser."""

from tests.acceptance import browsing
from tests.acceptance.http_client import Client, streamed_text
from tests.acceptance.programs import Place, Words, free_port, running
from tests.acceptance.server import BROKE, COUNT, FAIL_NOW, GREETING, HELLO, MODEL, Headrace
from tests.acceptance.steps import Report, holds, wait_for

_START_SECONDS = 300
_PERSON = {"name": "Ada", "email": "ada@example.com", "password": "Only-for-acceptance-1"}
_QUIET = {
    "OFFLINE_MODE": "true",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # An engine elsewhere: otherwise it loads an embedding model, which it has not got.
    "RAG_EMBEDDING_ENGINE": "openai",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "true",
    "SCARF_NO_ANALYTICS": "true",
    "ENABLE_VERSION_UPDATE_CHECK": "false",
}
_ANSWER = "default:assistant", "default:assistant:latest"
"""The model as the two connections list it."""


def check(report: Report, place: Place, site: Headrace, torch: str | None) -> None:
    # Without a choice of ours, torch brings gigabytes for graphics cards.
    wheel = () if torch else ("--torch-backend", "cpu")
    wanted = ("open-webui", torch) if torch else ("open-webui",)
    program = place.venv("open-webui", *wanted, options=wheel) / "open-webui"
    folder = place.folder("open-webui")
    env = {"DATA_DIR": str(folder), "WEBUI_SECRET_KEY": "0123456789abcdef" * 4, **_QUIET}
    env |= {"OPENAI_API_BASE_URLS": f"{site.url}/v1", "OPENAI_API_KEYS": "none"}
    env |= {"ENABLE_OLLAMA_API": "true", "OLLAMA_BASE_URLS": site.url}
    port = free_port()
    words: Words = [program, "serve", "--host", "127.0.0.1", "--port", str(port)]
    with running(words, folder / "open-webui.log", folder, **env):
        client = Client(f"http://127.0.0.1:{port}")
        wait_for(lambda: client.answers("/health"), _START_SECONDS, "Open WebUI starts")
        report.version = client.json("/api/version")["version"]
        token = client.json("/api/v1/auths/signup", _PERSON)["token"]
        client.headers["Authorization"] = f"Bearer {token}"
        _through_its_api(report, client, site)
        _in_a_browser(report, place, site, f"{client.url}|{token}")


def _through_its_api(report: Report, client: Client, site: Headrace) -> None:
    def asked(message: str, model: str = f"default:{MODEL}") -> dict[str, object]:
        messages = [{"role": "user", "content": message}]
        return {"model": model, "stream": True, "messages": messages}

    with report.step("the workflows are in its list, from both kinds of connection"):
        listed = [model["id"] for model in client.json("/api/models")["data"]]
        holds(str(listed), *map(repr, _ANSWER))
    for model, kind in zip(_ANSWER, ("OpenAI", "Ollama"), strict=True):
        with report.step(f"a streamed answer, connection of the kind {kind}"):
            said = client.text("/api/chat/completions", asked(HELLO, model))
            holds(streamed_text(said), GREETING)
    with report.step("a failing model: its message is shown, the workflow ran once"):
        before = len(site.runs())
        holds(client.text("/api/chat/completions", asked(FAIL_NOW)), BROKE)
        assert len(site.runs()) - before == 1, f"{len(site.runs()) - before} runs"
    with report.step("a caller of its API who hangs up cancels the run"):
        with client.open("/api/chat/completions", asked(COUNT)) as response:
            response.readline()
        wait_for(lambda: site.runs()[0]["status"] == "cancelled", 10, "the run is cancelled")


def _in_a_browser(report: Report, place: Place, site: Headrace, given: str) -> None:
    before = len(site.runs())
    if not browsing.steps(report, place, "open-webui", given):
        return
    with report.step("one message is four requests: the answer, a title, follow-ups, tags"):
        new = [run for run in site.new(before) if _answers(run)]
        wait_for(lambda: all(run["status"] != "running" for run in site.runs()), 20, "all ended")
        chores = sum(site.question(run).startswith("### Task:") for run in new)
        assert (len(new), chores) == (4, 3), f"{len(new)} requests, {chores} of them chores"
    with report.step("the stop button cancels the run"):
        wait_for(lambda: site.new_is_cancelled(before), 10, "a run is cancelled")


def _answers(run: dict[str, object]) -> bool:
    return run["folder"] == "_shared/assistant"
