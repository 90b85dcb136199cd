"""The two ways to reach a conversation, and following one until it waits for its user."""

import time
import uuid
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

from Middleware.cli.conversation_output import Output
from Middleware.conversations.models import Refusal
from Middleware.conversations.page import Page
from Middleware.conversations.service import Conversations
from Middleware.conversations.settings import WorkerSettings
from Middleware.tools.json_call import CallFailed, JsonCaller

LOOKS_EVERY_SECONDS = 0.05


class Refused(Exception):
    """The text is for the person at the terminal."""


class Unreachable(Exception):
    pass


class Store(Protocol):
    """Conversations, here or on a server. All raise Refused and Unreachable."""

    def start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The status of the new conversation."""
        ...

    def status(self, conversation_id: str) -> dict[str, Any] | None: ...

    def send(self, conversation_id: str, name: str, arguments: Mapping[str, Any]) -> int:
        """The sequence number of the accepted signal."""
        ...

    def turns(self, conversation_id: str, after: int) -> list[dict[str, Any]]:
        """Recorded turns, their replies read by reference."""
        ...


class LocalStore:
    """A worker in this process."""

    def __init__(self, conversations: Conversations) -> None:
        self._conversations = conversations

    @classmethod
    @contextmanager
    def open(cls, given: Namespace) -> Iterator["LocalStore"]:
        with local_conversations(given) as conversations:
            conversations.work()
            yield cls(conversations)

    def start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        from Middleware.conversations.inbox import Start

        options = self._conversations.options(body["profile"], body["options"])
        started = self._conversations.start(
            Start(
                profile=body["profile"],
                options=options,
                conversation_id=body.get("conversation_id"),
                return_existing_active=body["return_existing_active"],
            )
        )
        if isinstance(started, Refusal):
            raise Refused(_told(started.to_dict()))
        status = self.status(started.state.id)
        assert status is not None
        return status

    def status(self, conversation_id: str) -> dict[str, Any] | None:
        return self._conversations.reader.status(conversation_id)

    def send(self, conversation_id: str, name: str, arguments: Mapping[str, Any]) -> int:
        from Middleware.conversations.inbox import Send

        receipt = self._conversations.send(
            conversation_id, Send(name=name, arguments=dict(arguments), request_id=_fresh())
        )
        if isinstance(receipt, Refusal):
            raise Refused(_told(receipt.to_dict()))
        return receipt.sequence

    def turns(self, conversation_id: str, after: int) -> list[dict[str, Any]]:
        found = self._conversations.reader.transcript(conversation_id, Page(after=str(after)))
        return found["turns"] if found else []


@contextmanager
def local_conversations(
    given: Namespace,
    adapted: Callable[[WorkerSettings], WorkerSettings] = lambda settings: settings,
) -> Iterator[Conversations]:
    """Those of the configuration that the options point at; no work is begun yet. What their
    turns run is written into the run log, as on a server."""
    from Middleware.api.options import ServerOptions
    from Middleware.app import build_parts
    from Middleware.conversations.setup import build_conversations, database_url
    from Middleware.conversations.workflow_runs import WorkflowRuns

    options = ServerOptions(
        public_directory=given.public_directory,
        config_directory=given.config_directory,
        workflows_directory=given.workflows_directory,
        users=(given.user,) if given.user else (),
        database=given.database,
        sqlite_directory=given.sqlite_directory,
    )
    parts = build_parts(options)
    run = WorkflowRuns(parts.store, parts.backends, parts.recorder, parts.clock, parts.server)
    url = database_url(given.database, parts.store.locations.public, given.sqlite_directory)
    conversations = build_conversations(url, parts.store, run, adapted)
    parts.run_log.start()
    try:
        yield conversations
    finally:
        conversations.stop()
        parts.close()


class HttpStore:
    """A running server."""

    def __init__(self, url: str, api_key: str | None = None) -> None:
        self._url = url.rstrip("/") + "/durable/v1/conversations"
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._caller = JsonCaller(headers, timeout_seconds=30.0)

    def start(self, body: Mapping[str, Any]) -> dict[str, Any]:
        answer = self._call("POST", "", body)
        status: dict[str, Any] = answer["status"]
        return status

    def status(self, conversation_id: str) -> dict[str, Any] | None:
        path = f"/{quote(conversation_id, safe='')}/status"
        status: dict[str, Any] | None = self._call("GET", path, missing=True)
        return status

    def send(self, conversation_id: str, name: str, arguments: Mapping[str, Any]) -> int:
        body = {"arguments": dict(arguments), "request_id": _fresh()}
        answer = self._call("POST", f"/{quote(conversation_id, safe='')}/signals/{name}", body)
        sequence: int = answer["sequence"]
        return sequence

    def turns(self, conversation_id: str, after: int) -> list[dict[str, Any]]:
        path = f"/{quote(conversation_id, safe='')}/transcript?after={after}"
        turns: list[dict[str, Any]] = self._call("GET", path)["turns"]
        return turns

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        missing: bool = False,
    ) -> Any:
        try:
            answer = self._caller.call(method, self._url + path, body)
        except CallFailed as error:
            raise Unreachable(f"The server cannot be reached: {error.detail}") from error
        told = answer.value
        if not isinstance(told, dict):
            raise Unreachable(f"{self._url} does not speak this language: {answer.text(80)}")
        if missing and answer.status == 404:
            return None
        if answer.status >= 500:
            raise Unreachable(f"{self._url} answered {answer.status}: {_told(told)}")
        if answer.status >= 400:
            raise Refused(_told(told))
        return told


Ask = Callable[[dict[str, Any]], bool]


class Follower:
    """Shows what happens, until the conversation waits for its user or has ended."""

    def __init__(self, store: Store, status: Mapping[str, Any], output: Output) -> None:
        self._store = store
        self._output = output
        self._id: str = status["conversation_id"]
        self._generation: int = status["generation"]
        self._turn: int = status["turn_count"]
        self._decided: set[str] = set()
        self.ended = False

    def send(self, text: str, *, quietly: bool = False) -> None:
        sequence = self._store.send(self._id, "message", {"text": text})
        if not quietly:
            self._output.accepted(sequence, text, self._generation)

    def follow(self, ask: Ask, reviewer: str) -> None:
        """Proposals are shown, and answered with what ``ask`` says."""
        while True:
            status = self._store.status(self._id)
            if status is None:
                raise Refused(f"Conversation {self._id!r} is not there any more.")
            self._show_turns(status)
            if status["phase"] == "completed":
                self._output.ended(status)
                self.ended = True
                return
            proposal = status["pending_proposal"]
            if proposal is not None and proposal["id"] not in self._decided:
                self._decide(proposal, ask, reviewer)
            elif status["phase"] == "waiting_for_input" and not status["buffered"]["message"]:
                return
            else:
                time.sleep(LOOKS_EVERY_SECONDS)

    def _show_turns(self, status: Mapping[str, Any]) -> None:
        if status["turn_count"] > self._turn:
            for turn in self._store.turns(self._id, self._turn):
                if turn["turn"] > status["turn_count"]:
                    break
                self._continue(turn["generation"])
                self._output.reply(turn)
                self._turn = turn["turn"]
        self._continue(status["generation"])

    def _continue(self, generation: int) -> None:
        while self._generation < generation:
            self._generation += 1
            self._output.continued(self._generation)

    def _decide(self, proposal: dict[str, Any], ask: Ask, reviewer: str) -> None:
        self._output.proposal(proposal, self._generation)
        approved = ask(proposal)
        arguments = {"proposalId": proposal["id"], "approved": approved, "reviewer": reviewer}
        self._store.send(self._id, "decision", arguments)
        self._decided.add(proposal["id"])
        self._output.decided(proposal["id"], self._generation, approved=approved)


def _fresh() -> str:
    """A request id for one logical send."""
    return f"cli-{uuid.uuid4().hex}"


def _told(answer: Mapping[str, Any]) -> str:
    """A refusal or an error in one line."""
    error = answer.get("error")
    if isinstance(error, Mapping):
        return str(error.get("message"))
    details = "; ".join(f"{name} {what}" for name, what in answer.get("errors", {}).items())
    parts = (answer.get("outcome"), answer.get("reason"), details)
    return "Refused: " + ", ".join(str(part) for part in parts if part)
