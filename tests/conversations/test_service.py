"""Starting and stopping, in one process: nothing before it is needed, nothing lost at the end."""

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from Middleware.conversations.inbox import Send, Start, Started
from Middleware.conversations.model import fake_outcome
from Middleware.conversations.models import ModelCall, ModelOutcome, Options
from Middleware.conversations.page import Page
from Middleware.conversations.profiles import Profile
from Middleware.conversations.service import Conversations, Parts, running
from Middleware.conversations.settings import EngineSettings, WorkerSettings
from Middleware.core.cancellation import CancelToken
from tests.fakes.live_site import wait_until

SETTINGS = WorkerSettings(engine=EngineSettings(poll_seconds=0.02))


class SlowModel:
    """Speaks, and then takes as long as it is let."""

    def __init__(self, *, waits: bool) -> None:
        self.speaks = threading.Event()
        self.calls: list[int] = []
        self._waits = waits

    def answer(
        self, call: ModelCall, profile: Profile, cancel: CancelToken, show: Callable[[str], None]
    ) -> ModelOutcome:
        self.calls.append(call.attempt)
        show("Let me ")
        show("think")
        self.speaks.set()
        if self._waits:
            cancel.wait(60)
        return fake_outcome(call, lambda text: None)


def parts(folder: Path, model: SlowModel | None = None) -> Parts:
    url = f"sqlite:///{folder / 'sub' / 'durable.sqlite'}"
    return Parts(database_url=url, model=model, settings=SETTINGS)


def begin(talks: Conversations) -> None:
    start = Start(profile="refund-desk", options=Options(), conversation_id="c", message="Hello")
    assert isinstance(talks.start(start), Started)


def turn_count(talks: Conversations) -> int:
    status = talks.reader.status("c")
    assert status is not None
    count: int = status["turn_count"]
    return count


def test_whoever_has_no_conversations_loads_nothing_for_them() -> None:
    code = (
        "import sys\n"
        "import Middleware.api.durable\n"
        "from Middleware.conversations.service import Conversations, Parts\n"
        "talks = Conversations(Parts(database_url='sqlite:///nowhere/durable.sqlite'))\n"
        "assert talks.resume() is False\n"
        "talks.stop()\n"
        "print([name for name in ('dbos', 'sqlalchemy') if name in sys.modules])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )

    assert ran.stdout == "[]\n"


@pytest.mark.slow
def test_a_turn_that_the_end_of_the_process_cuts_off_is_gone_on_with(tmp_path: Path) -> None:
    first, second = SlowModel(waits=True), SlowModel(waits=False)
    with running(parts(tmp_path, first)) as talks:
        begin(talks)
        assert first.speaks.wait(10)
        live = talks.live.text_of("c", 1)

    with running(parts(tmp_path, second)) as talks:
        open_ones = talks.resume()
        wait_until(lambda: turn_count(talks) == 1)
        transcript = talks.reader.transcript("c", Page())
        history = talks.reader.history("c", Page())

    assert live == (1, "Let me think")
    assert open_ones
    assert (first.calls, second.calls) == ([1], [2])
    assert transcript is not None
    assert transcript["turns"][0]["reply"] == "Turn 1: you said 'Hello'."
    assert history is not None
    # Ended in good order: that is no failure of the model.
    assert "activity_failed" not in {event["type"] for event in history["events"]}


@pytest.mark.slow
def test_a_store_without_open_conversations_starts_no_worker(tmp_path: Path) -> None:
    with running(parts(tmp_path)) as talks:
        begin(talks)
        talks.send("c", Send(name="message", arguments=["/end"]))
        wait_until(lambda: talks.reader.status("c")["phase"] == "completed")  # type: ignore[index]

    before = {thread.name for thread in threading.enumerate()}
    with running(parts(tmp_path)) as talks:
        resumed = talks.resume()
        status = talks.reader.status("c")
        after = {thread.name for thread in threading.enumerate()}

    assert not resumed
    assert status is not None
    assert status["turn_count"] == 1
    assert after == before


@pytest.mark.slow
def test_a_new_attempt_tells_readers_to_drop_what_they_showed(tmp_path: Path) -> None:
    """A repeated step repeats its text: readers are shown which attempt speaks."""
    with running(parts(tmp_path)) as talks:
        call = ModelCall(
            conversation_id="c",
            run_id="r",
            generation=1,
            turn=1,
            attempt=1,
            profile="p",
            text="",
            summary="",
            summary_max_chars=0,
        )
        talks.live.show(call, "Once upon")
        first = talks.live.text_of("c", 1)
        talks.live.show(replace(call, attempt=2), "Once")
        second = talks.live.text_of("c", 1)

    assert (first, second) == ((1, "Once upon"), (2, "Once"))
    assert talks.live.text_of("c", 2) is None
