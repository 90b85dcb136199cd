"""Whatever happens, and in whatever order: sends, decisions, losses, repairs, expiries (§22.1)."""

import json
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from Middleware.conversations import tables
from Middleware.conversations.inbox import Send, Start, Started
from Middleware.conversations.models import Options, Receipt
from Middleware.conversations.task import DONE
from tests.fakes.stepping import Execution, Killed, SteppingEngine

PLACES = 12
"""How many places further on a process may die."""

OPERATIONS = st.one_of(
    st.tuples(st.just("message"), st.sampled_from(["hello", "refund", "thanks"])),
    st.tuples(st.just("message"), st.sampled_from(["hello", "refund", "/end"])),
    st.tuples(st.just("again"), st.none()),
    st.tuples(st.just("to run"), st.sampled_from(["current", "first"])),
    st.tuples(st.just("decide"), st.sampled_from(["yes", "no", "other"])),
    st.tuples(st.just("begin"), st.none()),
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(st.just("steps"), st.integers(1, 12)),
    st.tuples(st.just("die"), st.integers(1, PLACES)),
    st.tuples(st.just("process"), st.none()),
    st.tuples(st.just("repair"), st.none()),
    st.tuples(st.just("time"), st.sampled_from([1.0, 10.0, 31.0, 70.0, 130.0])),
    st.tuples(st.just("fail"), st.integers(1, 4)),
)


@dataclass
class World:
    engine: SteppingEngine
    executions: list[Execution] = field(default_factory=list)
    receipts: list[Receipt] = field(default_factory=list)
    last: Send | None = None
    sent: int = 0
    dies_in: int = 0

    def __post_init__(self) -> None:
        options = Options(turns_per_run=2, inactivity_seconds=100, decision_timeout_seconds=60)
        start = Start(profile="refund-desk", options=options, conversation_id="talk")
        started = self.engine.inbox.start(start)
        assert isinstance(started, Started)
        self.first_run = started.state.run_id
        self.engine.kill_at = self._dies

    def _dies(self, place: str) -> bool:
        self.dies_in -= 1
        return self.dies_in == 0

    def do(self, operation: tuple[str, Any]) -> None:
        name, value = operation
        getattr(self, f"_{name.replace(' ', '_')}")(value)
        self.check_now()

    def _send(self, send: Send) -> None:
        self.last = send
        answer = self.engine.inbox.send("talk", send)
        if isinstance(answer, Receipt) and not answer.duplicate:
            self.receipts.append(answer)

    def _message(self, text: str, **more: Any) -> None:
        self.sent += 1
        arguments = {"text": text}
        self._send(
            Send(name="message", arguments=arguments, request_id=f"request {self.sent}", **more)
        )

    def _again(self, _: None) -> None:
        if self.last is not None:
            before = len(self.receipts)
            self._send(self.last)
            # A refused send may be accepted later; one that was accepted is not accepted twice.
            known = {receipt.request_id for receipt in self.receipts[:before]}
            assert self.last.request_id not in known or len(self.receipts) == before

    def _to_run(self, which: str) -> None:
        state = self.engine.reader.state("talk")
        assert state is not None
        self._message(
            "for one run", target_run=state.run_id if which == "current" else self.first_run
        )

    def _decide(self, answer: str) -> None:
        state = self.engine.reader.state("talk")
        assert state is not None
        proposal = state.proposal_id if answer != "other" and state.proposal_id else "prop-other"
        arguments = {"proposalId": proposal, "approved": answer == "yes", "reviewer": "r"}
        self.sent += 1
        self._send(Send(name="decision", arguments=arguments, request_id=f"request {self.sent}"))

    def _begin(self, _: None) -> None:
        found = self.engine.next_task()
        if found is not None:
            self._guarded(lambda: self.executions.append(self.engine.begin(*found)))

    def _step(self, which: int) -> None:
        if which < len(self.executions):
            execution = self.executions[which]
            self._guarded(execution.step, execution)
            if execution.next == DONE and execution in self.executions:
                self._guarded(execution.step, execution)
                self.executions = [one for one in self.executions if one is not execution]

    def _steps(self, count: int) -> None:
        for _ in range(count):
            self._step(0)

    def _guarded(self, work: Any, execution: Execution | None = None) -> None:
        try:
            work()
        except Killed:
            # All of that process is gone, not only this execution.
            self.executions = []
            self.engine.start_process()

    def _die(self, places: int) -> None:
        self.dies_in = places

    def _process(self, _: None) -> None:
        """Another process; the executions of the one before stand still, and may go on later."""
        self.engine.start_process()

    def _repair(self, _: None) -> None:
        self._guarded(self.engine.repairer.run)
        self._guarded(self.engine.repairer.wake_due)

    def _time(self, seconds: float) -> None:
        self.engine.clock.pass_(seconds)
        if not self.engine.lease.renew():
            self.engine.lease.take()

    def _fail(self, times: int) -> None:
        self.engine.model.failures = times

    def check_now(self) -> None:
        """What holds at every moment."""
        conversation = self.engine.rows(tables.conversations)[0]
        runs = self.engine.rows(tables.runs)
        signals = self.engine.rows(tables.signals)
        is_open = conversation["phase"] != "completed"
        assert [run["status"] for run in runs].count("open") == int(is_open)
        assert [signal["sequence"] for signal in signals] == list(range(1, len(signals) + 1))
        assert len(signals) == len(self.receipts)
        for name in ("message", "decision"):
            waiting = [
                one for one in signals if one["name"] == name and one["status"] == "received"
            ]
            assert conversation[f"buffered_{name}s"] == len(waiting)
        self.check_turns(conversation, signals)

    def check_turns(self, conversation: dict[str, Any], signals: list[dict[str, Any]]) -> None:
        turns = self.engine.rows(tables.turns)
        records = self.engine.rows(tables.records)
        taken = [turn["message_sequence"] for turn in turns]
        assert taken == sorted(set(taken))
        assert [turn["turn"] for turn in turns] == list(range(1, len(turns) + 1))
        assert len(records) in (conversation["turn_count"], conversation["turn_count"] + 1)
        approved = {
            signal["applied_turn"]
            for signal in signals
            if signal["name"] == "decision"
            and signal["status"] == "applied"
            and '"approved": true' in signal["arguments"]
        }
        assert {action["turn"] for action in self.engine.rows(tables.actions)} <= approved
        proposals = {turn["turn"]: turn["proposal_id"] for turn in turns}
        for signal in signals:
            if signal["status"] != "applied":
                continue
            if signal["target_run"] is not None:
                assert signal["applied_run"] == signal["target_run"]
            if signal["name"] == "decision":
                assert (
                    json.loads(signal["arguments"])["proposalId"]
                    == (proposals[signal["applied_turn"]])
                )
        kept = [turn["reply"] for turn in turns if turn["ended_at"] is not None]
        assert kept == [None] * len(kept)

    def come_to_rest(self) -> None:
        """No more losses: all that was accepted gets its end."""
        engine = self.engine
        engine.kill_at = lambda place: False
        engine.model.failures = 0
        for _ in range(6):
            engine.start_process()
            engine.clock.pass_(70)
            engine.lease.take()
            engine.repairer.run()
            engine.repairer.wake_due()
            engine.run()
        self.check_now()
        statuses = {signal["status"] for signal in engine.rows(tables.signals)}
        assert statuses <= {"applied", "ignored", "rejected"}
        # Six times 70 seconds of silence: it has ended, one way or another.
        assert engine.rows(tables.conversations)[0]["phase"] == "completed"
        assert (
            len(engine.rows(tables.records)) == engine.rows(tables.conversations)[0]["turn_count"]
        )
        for execution in self.executions:
            while execution.step():
                pass
        self.check_now()


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.lists(OPERATIONS, min_size=5, max_size=45))
def test_no_order_of_events_breaks_a_promise(operations: list[tuple[str, Any]]) -> None:
    folder = Path(tempfile.mkdtemp())
    engine = SteppingEngine(folder)
    try:
        world = World(engine)
        for operation in operations:
            world.do(operation)
        world.come_to_rest()
    finally:
        engine.database.close()
        shutil.rmtree(folder)
