"""Talks to conversations that other processes work on, and tells how they came out."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from Middleware.conversations import rules, tables
from Middleware.conversations.database import Database
from Middleware.conversations.engine import EngineQueue
from Middleware.conversations.inbox import Inbox, Send, Start, Started
from Middleware.conversations.models import Options, Receipt, Refusal
from Middleware.conversations.page import Page
from Middleware.conversations.reading import Reader
from tests.fakes.conversation_worker import wait_for

MESSAGES = ("Hello", "Please refund my order", "Thanks")


class Client:
    """Accepts and looks; never works."""

    def __init__(self, url: str) -> None:
        self.database = Database(url)
        self.queue = EngineQueue(self.database)
        self.inbox = Inbox(self.database, self.queue, rules.Limits())
        self.reader = Reader(self.database)

    def start(self, conversation_id: str, **options: Any) -> str:
        """A conversation of two turns a generation, unless ``options`` say otherwise."""
        chosen = Options(**{"turns_per_run": 2, **options})
        start = Start(profile="refund-desk", options=chosen, conversation_id=conversation_id)
        started = self.inbox.start(start)
        assert isinstance(started, Started)
        return started.state.id

    def message(self, conversation_id: str, text: str, **more: Any) -> Receipt | Refusal:
        send = Send(name="message", arguments={"text": text}, **more)
        return self.inbox.send(conversation_id, send)

    def decide(self, conversation_id: str, proposal: str, *, approved: bool) -> None:
        arguments = {"proposalId": proposal, "approved": approved, "reviewer": "tester"}
        send = Send(name="decision", arguments=arguments, request_id=f"decide {proposal}")
        self.inbox.send(conversation_id, send)

    def status(self, conversation_id: str) -> dict[str, Any]:
        status = self.reader.status(conversation_id)
        assert status is not None
        return status

    def is_idle(self, conversation_id: str) -> bool:
        """Nothing is left to be done, and nobody is waited for but the user."""
        state = self.reader.state(conversation_id)
        assert state is not None
        is_parked = state.phase == "waiting_for_input" and state.task_id is None
        return state.closed or (is_parked and not rules.must_have_task(state))

    def settle(self, conversation_id: str, *, approved: bool = True, seconds: float = 30) -> None:
        """Until nothing is left to be done; proposals are answered meanwhile."""

        def is_settled() -> bool:
            proposal = self.status(conversation_id)["pending_proposal"]
            if proposal is not None:
                self.decide(conversation_id, proposal["id"], approved=approved)
                return False
            return self.is_idle(conversation_id)

        wait_for(is_settled, seconds, f"for {conversation_id}: {self.status(conversation_id)}")

    def outcome(self, conversation_id: str) -> "Outcome":
        return Outcome.of(self, conversation_id)

    def events(self, conversation_id: str, type_: str) -> list[dict[str, Any]]:
        history = self.reader.history(conversation_id, Page(limit=1000))
        assert history is not None
        return [event for event in history["events"] if event["type"] == type_]

    def close(self) -> None:
        self.queue.close()
        self.database.close()


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """All that must be the same however often workers were lost: no ids, no times."""

    turns: list[tuple[Any, ...]]
    records: list[tuple[Any, ...]]
    actions: list[tuple[Any, ...]]
    signals: list[tuple[Any, ...]]
    runs: list[tuple[Any, ...]]
    status: tuple[Any, ...]
    completed_calls: list[tuple[Any, ...]]
    phases: list[str]
    summary: str

    @classmethod
    def of(cls, client: Client, conversation_id: str) -> "Outcome":
        status = client.status(conversation_id)
        described = client.reader.describe(conversation_id)
        transcript = client.reader.transcript(conversation_id, Page(limit=1000))
        assert described is not None
        assert transcript is not None
        names = {run["run_id"]: run["generation"] for run in described["runs"]}
        signal, record, action = tables.signals.c, tables.records.c, tables.actions.c
        with client.database.transaction() as connection:
            signals = connection.execute(
                select(
                    signal.sequence,
                    signal.name,
                    signal.status,
                    signal.reason,
                    signal.applied_run,
                    signal.applied_turn,
                )
                .where(signal.conversation_id == conversation_id)
                .order_by(signal.sequence)
            ).all()
            records = connection.execute(
                select(record.turn, record.outcome, record.text, record.action)
                .where(record.conversation_id == conversation_id)
                .order_by(record.turn)
            ).all()
            actions = connection.execute(
                select(action.turn, action.name, action.arguments)
                .where(action.conversation_id == conversation_id)
                .order_by(action.turn)
            ).all()
        return cls(
            turns=[
                (turn["turn"], turn["generation"], turn["text"], turn["reply"], turn["outcome"])
                for turn in transcript["turns"]
            ],
            records=[tuple(row) for row in records],
            actions=[tuple(row) for row in actions],
            signals=[(*row[:4], names.get(row[4]), row[5]) for row in signals],
            runs=[
                (run["generation"], run["status"], run["reason"], names.get(run["previous_run"]))
                for run in described["runs"]
            ],
            status=(status["phase"], status["generation"], status["turn_count"]),
            completed_calls=[
                (event["activity"], event["turn"])
                for event in client.events(conversation_id, "activity_completed")
            ],
            phases=[event["phase"] for event in client.events(conversation_id, "phase_changed")],
            summary=described["summary"],
        )
