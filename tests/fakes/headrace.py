"""The whole server, on files that a test writes, behind a real waitress on a loopback port.

    def test_something(tmp_path: Path) -> None:
        tree = Tree(tmp_path)
        with Upstream(chat("Hel", "lo")) as model, tree.model("Main", model.url).serve() as live:
            tree.workflow("assistant", [answers("Main")])
            assert live.chat(model="assistant").json["choices"][0]["message"]["content"] == "Hello"

``Tree`` writes configuration files and may go on doing so while the server runs; ``tree.clock``
makes the server believe that time has passed, so that it looks at them again. ``serve`` gives a
``Headrace``: the ``Live`` of ``live_site`` (``ask``, ``chat``, ``connect``), ``says`` for the text
of a good answer, its ``url`` for SDKs, and what a test may look at from the inside: ``runs``,
``outputs`` and ``parts``.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Middleware.api.options import ServerOptions
from Middleware.app import Parts, build_parts, check_everything, create_app
from Middleware.config.watch import CHECK_SECONDS
from Middleware.runs.recorder import MemoryRecorder
from tests.fakes.clock import ShiftedClock
from tests.fakes.live_site import Live, serving, wait_until

__all__ = ["CHECK_SECONDS", "Headrace", "Tree", "answers", "calls", "static", "wait_until"]

API_TYPE = {
    "type": "openAIChatCompletion",
    "presetType": "Test",
    "maxNewTokensPropertyName": "max_tokens",
    "streamPropertyName": "stream",
    "samplerFieldMap": {"temperature": "temperature", "top_p": "top_p", "stop": "stop"},
}


def answers(endpoint: str = "Main", **options: Any) -> dict[str, Any]:
    """A node that sends the conversation to a model."""
    return {
        "title": "Answer",
        "type": "Standard",
        "endpointName": endpoint,
        "lastMessagesToSendInsteadOfPrompt": 1000,
        **options,
    }


def static(content: Any, **options: Any) -> dict[str, Any]:
    """A node that says what it is told to."""
    return {"type": "StaticResponse", "content": content, **options}


def calls(workflow: str, **options: Any) -> dict[str, Any]:
    """A node that runs another workflow."""
    return {"type": "CustomWorkflow", "workflowName": workflow, **options}


@dataclass
class Headrace(Live):
    """A running server."""

    parts: Parts
    recorder: MemoryRecorder

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Records of all runs, newest first; a child is younger than its parent."""
        return list(self.recorder)

    def finished(self) -> list[dict[str, Any]]:
        """The same once nothing runs any more, the nodes behind an answer included."""
        wait_until(lambda: all(run["status"] != "running" for run in self.runs))
        return self.runs

    def outputs(self, workflow: str) -> list[str | None]:
        """What the nodes of the newest run of ``workflow`` have put out, once it is over."""
        run = next(run for run in self.finished() if run["workflow"] == workflow)
        return [step["outputData"]["content"] for step in run["context"]["steps"]]

    def says(self, *, stream: bool, **fields: Any) -> str:
        """The text of an answer that must be a good one, in either mode."""
        received = self.chat(**{"model": "assistant", **fields, "stream": stream})
        assert received.status == 200, received.body
        if not stream:
            choice = received.json["choices"][0]
            assert choice["finish_reason"] == "stop"
            text = choice["message"]["content"]
            assert isinstance(text, str)
            return text
        assert received.frames[-1] == "data: [DONE]"
        assert '"finish_reason":"stop"' in received.frames[-2], received.frames
        return received.text

    def problems(self) -> list[str]:
        """What the server tells when it starts."""
        return [str(problem) for problem in check_everything(self.parts.store)]

    def health(self) -> Any:
        return self.ask("GET", "/health").json


class Tree:
    """A configuration folder with one user, ``tester``, whose dialect is ours."""

    def __init__(self, root: Path, **user: Any) -> None:
        self.clock = ShiftedClock()
        self.public = root / "Public"
        self.configs = self.public / "Configs"
        self.write("Users/_current-user.json", {"currentUser": "tester"})
        self.user(**user)
        self.write("ApiTypes/OpenAI.json", API_TYPE)
        self.write("ApiTypes/Scripted.json", {"type": "scripted"})
        (self.configs / "Workflows").mkdir(exist_ok=True)

    def write(self, name: str, content: Any) -> "Tree":
        """A file below the configuration folder; what is no text is written as JSON."""
        path = self.configs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
        # As if it had been written at the time that the server believes in.
        for touched in (path, *path.parents[: len(path.relative_to(self.configs).parts)]):
            os.utime(touched, (self.clock.timestamp(), self.clock.timestamp()))
        return self

    def user(self, name: str = "tester", **settings: Any) -> "Tree":
        defaults = {"dialect": "headrace", "allowSharedWorkflows": True}
        return self.write(f"Users/{name}.json", {**defaults, **settings})

    def model(self, name: str, url: str, **settings: Any) -> "Tree":
        """An endpoint of OpenAI's kind."""
        return self.write(
            f"Endpoints/{name}.json",
            {
                "endpoint": url,
                "apiTypeConfigFileName": "OpenAI",
                "modelNameToSendToAPI": "test-model",
                "retries": 0,
                **settings,
            },
        )

    def scripted(self, name: str, reply: str = "{input}", **settings: Any) -> "Tree":
        """An endpoint that needs no model server."""
        return self.write(
            f"Endpoints/{name}.json",
            {"apiTypeConfigFileName": "Scripted", "default": {"reply": reply}, **settings},
        )

    def workflow(
        self,
        name: str,
        nodes: list[dict[str, Any]],
        *,
        file: str = "_DefaultWorkflow",
        folder: str = "_shared",
        **variables: Any,
    ) -> "Tree":
        """``Workflows/<folder>/<name>/<file>.json``: a shared workflow that clients may name."""
        content: Any = {**variables, "nodes": nodes}
        return self.write(f"Workflows/{folder}/{name}/{file}.json", content)

    def own(self, name: str, nodes: list[dict[str, Any]], **variables: Any) -> "Tree":
        """``Workflows/tester/<name>.json``: a workflow in the user's own folder."""
        return self.write(f"Workflows/tester/{name}.json", {**variables, "nodes": nodes})

    @contextmanager
    def serve(self, threads: int = 20, **options: Any) -> Iterator[Headrace]:
        settings: Mapping[str, Any] = {"public_directory": self.public, **options}
        server_options = ServerOptions(**settings)
        recorder = MemoryRecorder(1000)
        parts = build_parts(server_options, recorder=recorder, clock=self.clock)
        app = create_app(server_options, parts)
        try:
            with serving(app.site, threads) as live:
                yield Headrace(live.site, live.server, parts, recorder)
        finally:
            app.close()
