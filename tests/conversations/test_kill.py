"""Workers are killed, by signal 9, at every place where it could matter, and nothing shows it."""

import os
import signal

import pytest

from tests.fakes.conversation_client import MESSAGES, Client, Outcome
from tests.fakes.conversation_worker import IN_MODEL, Job, Outside, wait_for, worker

STEPS = ("take", "think", "act", "reply", "finish", "hand_over")
BOUNDARIES = (
    "begin:committed",
    *(f"{step}:{place}" for step in STEPS for place in ("begin", "committed", "recorded")),
    "think:started",
    IN_MODEL,
    "think:answered",
    "act:started",
    "act:effect",
)

PHASES_OF_A_TURN = ["thinking", "recording_reply"]
WITH_APPROVAL = ["thinking", "awaiting_approval", "applying_action", "recording_reply"]

UNDISTURBED = Outcome(
    turns=[
        (1, 1, "Hello", "Turn 1: you said 'Hello'.", "replied"),
        (
            2,
            1,
            "Please refund my order",
            "Turn 2: the refund was approved and issued for 'Please refund my order'.",
            "approved",
        ),
        (3, 2, "Thanks", "Turn 3: you said 'Thanks'.", "replied"),
    ],
    records=[
        (1, "replied", "Turn 1: you said 'Hello'.", None),
        (
            2,
            "approved",
            "Turn 2: the refund was approved and issued for 'Please refund my order'.",
            "refund",
        ),
        (3, "replied", "Turn 3: you said 'Thanks'.", None),
    ],
    actions=[(2, "refund", '{"request": "Please refund my order"}')],
    signals=[
        (1, "message", "applied", None, 1, 1),
        (2, "message", "applied", None, 1, 2),
        (3, "message", "applied", None, 2, 3),
        (4, "decision", "applied", None, 1, 2),
    ],
    runs=[(1, "completed", "continued", None), (2, "open", None, 1)],
    status=("waiting_for_input", 2, 3),
    completed_calls=[("model", 1), ("model", 2), ("action", 2), ("model", 3)],
    phases=[
        *PHASES_OF_A_TURN,
        "waiting_for_input",
        *WITH_APPROVAL,
        "continuing_as_new",
        "waiting_for_input",
        *PHASES_OF_A_TURN,
        "waiting_for_input",
    ],
    summary="Turn 1: Hello\nTurn 2: Please refund my order\nTurn 3: Thanks",
)


def begin(url: str) -> Client:
    client = Client(url)
    client.start("talk")
    for text in MESSAGES:
        client.message("talk", text)
    return client


def check(client: Client, outside: Outside) -> None:
    """One outcome of everything, and no model call that nobody needed."""
    assert client.outcome("talk") == UNDISTURBED
    # Whoever honours the key sees one effect, however often it was asked for.
    assert {note["reference"] for note in outside.notes("action")} == {"talk:2:action"}
    assert len(outside.notes("model")) <= 4
    client.close()


@pytest.mark.slow
def test_without_any_loss(file_url: str, outside: Outside) -> None:
    client = begin(file_url)

    with worker(Job(url=file_url, folder=str(outside.folder))):
        client.settle("talk")

    assert [note["turn"] for note in outside.notes("model")] == [1, 2, 3]
    check(client, outside)


@pytest.mark.slow
@pytest.mark.parametrize("place", BOUNDARIES)
def test_a_file_database_and_one_process_that_is_started_again(
    place: str, file_url: str, outside: Outside
) -> None:
    client = begin(file_url)
    job = Job(url=file_url, folder=str(outside.folder), die_at=place, lease_seconds=60)

    with worker(job) as first:
        wait_for(lambda: _answer(client) and not first.is_alive(), what=f"for death at {place}")
        assert first.exitcode == -signal.SIGKILL
    # The lease of the first would last a minute: the second proves that it is alone.
    with worker(job):
        client.settle("talk", seconds=20)

    check(client, outside)


@pytest.mark.slow
@pytest.mark.parametrize("place", BOUNDARIES)
def test_postgresql_and_two_workers_of_which_one_dies(
    place: str, postgres_url: str, outside: Outside
) -> None:
    client = begin(postgres_url)
    job = Job(url=postgres_url, folder=str(outside.folder), die_at=place)

    with worker(job) as one, worker(job) as other:
        client.settle("talk", seconds=40)
        wait_for(lambda: not (one.is_alive() and other.is_alive()))
        assert [note["place"] for note in outside.notes("died")] == [place]

    check(client, outside)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["repair:marked", "repair:one"])
def test_a_repairer_that_dies_in_the_middle_is_no_loss(
    place: str, postgres_url: str, outside: Outside
) -> None:
    client = begin(postgres_url)
    others = [client.start(f"other{number}") for number in range(3)]
    for name in others:
        client.message(name, "Hello")
    folder = str(outside.folder)

    with worker(Job(url=postgres_url, folder=folder, model_seconds=60)) as first:
        wait_for(lambda: len(outside.notes("model")) == 4)
        first.kill()
        first.join()
    with worker(Job(url=postgres_url, folder=folder, die_at=place)) as repairer:
        wait_for(lambda: not repairer.is_alive())
    with worker(Job(url=postgres_url, folder=folder)):
        client.settle("talk")
        for name in others:
            client.settle(name)

    assert client.outcome("talk") == UNDISTURBED
    assert [client.status(name)["turn_count"] for name in others] == [1, 1, 1]
    client.close()


@pytest.mark.slow
def test_nothing_moves_before_the_lease_has_expired_and_then_the_same_task_goes_on(
    postgres_url: str, outside: Outside
) -> None:
    client = begin(postgres_url)
    folder = str(outside.folder)
    dies = Job(url=postgres_url, folder=folder, die_at="take:committed", lease_seconds=3)

    with worker(dies) as first:
        wait_for(lambda: not first.is_alive())
        died_at = outside.notes("died")[0]["at"]
    task = client.reader.describe("talk")["task"]  # type: ignore[index]
    with worker(Job(url=postgres_url, folder=folder, lease_seconds=3)):
        late = client.message("talk", "still accepted")
        client.settle("talk")

    assert late.accepted
    assert client.status("talk")["turn_count"] == 4
    assert client.events("talk", "lease_expired")[0]["task"] == task["id"]
    repaired = client.events("talk", "task_repaired")
    assert [(event["task"], event["count"]) for event in repaired] == [(task["id"], 1)]
    assert repaired[0]["at"] - died_at > 2
    client.close()


@pytest.mark.slow
def test_a_worker_that_was_frozen_past_its_lease_changes_nothing_when_it_wakes_up(
    postgres_url: str, outside: Outside
) -> None:
    client = begin(postgres_url)
    job = Job(url=postgres_url, folder=str(outside.folder), freeze_in_model=True)

    with worker(job) as first:
        wait_for(lambda: outside.notes("in model"))
        assert first.pid is not None
        os.kill(first.pid, signal.SIGSTOP)
        with worker(job):
            client.settle("talk")
            before = client.outcome("talk")
            os.kill(first.pid, signal.SIGCONT)
            wait_for(lambda: client.events("talk", "activity_discarded"))
            client.message("talk", "/end")
            client.settle("talk")

    discarded = client.events("talk", "activity_discarded")
    assert [(event["turn"], event["attempt"]) for event in discarded] == [(1, 1)]
    assert before == UNDISTURBED
    assert client.status("talk")["turn_count"] == 3
    client.close()


def _answer(client: Client) -> bool:
    proposal = client.status("talk")["pending_proposal"]
    if proposal is not None:
        client.decide("talk", proposal["id"], approved=True)
    return True
