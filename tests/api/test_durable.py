"""The native surface (specification §19), over a real socket."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.admission import Keys
from Middleware.api.background import Background
from Middleware.api.durable import durable_door
from Middleware.api.durable_events import Waits
from Middleware.api.errors import ErrorShapes
from Middleware.api.pulse import Pulse
from Middleware.api.site import Site, SiteParts
from Middleware.config.user import User
from Middleware.conversations.profiles import FAKE_PROFILE, FixedProfiles, Profile
from Middleware.conversations.rules import Limits
from Middleware.conversations.service import Conversations, Parts
from Middleware.conversations.settings import EngineSettings, WorkerSettings
from Middleware.core.clock import SystemClock
from Middleware.wire import openai_chat
from tests.fakes.live_site import Live, Received, serving, wait_until

BASE = "/durable/v1/conversations"
KEPT = Profile(
    name="kept", actions=FAKE_PROFILE.actions, may_send=("sender",), may_approve=("boss",)
)


@contextmanager
def durable_server(
    folder: Path, waits: Waits, users: tuple[User, ...] = (), threads: int = 20
) -> Iterator["Server"]:
    conversations = Conversations(
        Parts(
            database_url=f"sqlite:///{folder / 'durable.sqlite'}",
            profiles=FixedProfiles((FAKE_PROFILE, KEPT)),
            limits=Limits(payload_bytes=1000, unapplied_signals=50),
            settings=WorkerSettings(engine=EngineSettings(poll_seconds=0.02)),
        )
    )
    site = Site(
        SiteParts(
            blueprints=(durable_door(conversations, waits),),
            shapes=ErrorShapes(openai_chat.encode_error),
            pulse=Pulse(),
            background=Background(),
            keys=Keys(lambda: users),
            new_id=SystemClock().new_id,
        )
    )
    try:
        with serving(site, threads) as live:
            yield Server(live, conversations)
    finally:
        conversations.stop()


class Server:
    def __init__(self, live: Live, conversations: Conversations) -> None:
        self.live = live
        self.conversations = conversations

    def post(self, path: str, body: Any = None, **headers: str) -> Received:
        return self.live.ask("POST", path, {} if body is None else body, **headers)

    def get(self, path: str, **headers: str) -> Received:
        return self.live.ask("GET", path, None, **headers)

    def start(self, **body: Any) -> str:
        answer = self.post(BASE, {"profile": "refund-desk", **body})
        assert answer.status == 201, answer.body
        conversation_id: str = answer.json["conversation_id"]
        return conversation_id

    def message(self, conversation_id: str, text: str, **more: Any) -> Received:
        body = {"arguments": {"text": text}, **more}
        return self.post(f"{BASE}/{conversation_id}/signals/message", body)

    def decide(self, conversation_id: str, *, approved: bool = True) -> Received:
        proposal = self.wait(conversation_id, lambda s: s["pending_proposal"])["pending_proposal"]
        arguments = [proposal["id"], approved, "Ann"]
        return self.post(f"{BASE}/{conversation_id}/signals/decision", {"arguments": arguments})

    def wait(self, conversation_id: str, fits: Any) -> dict[str, Any]:
        seen: list[dict[str, Any]] = []

        def look() -> bool:
            seen.append(self.get(f"{BASE}/{conversation_id}/status").json)
            return bool(fits(seen[-1]))

        wait_until(look)
        return seen[-1]

    def wait_turns(self, conversation_id: str, turns: int) -> dict[str, Any]:
        return self.wait(
            conversation_id,
            lambda s: s["turn_count"] >= turns and s["phase"] in ("waiting_for_input", "completed"),
        )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    waits = Waits(most=3, heartbeat_seconds=0.2)
    with durable_server(tmp_path_factory.mktemp("durable"), waits) as server:
        yield server


def test_a_whole_conversation(server: Server) -> None:
    started = server.post(
        BASE,
        {"profile": "refund-desk", "message": "Hello", "options": {"turns_per_run": 2}},
    )
    name = started.json["conversation_id"]
    server.wait_turns(name, 1)
    accepted = server.message(name, "Please refund my order")
    assert server.decide(name).status == 202
    server.wait_turns(name, 2)
    server.message(name, "/end")
    ended = server.wait(name, lambda s: s["phase"] == "completed")

    assert started.status == 201
    assert started.json["generation"] == 1
    assert started.json["status"]["phase"] == "waiting_for_input"
    assert started.json["signal"]["sequence"] == 1
    assert (accepted.status, accepted.json["sequence"], accepted.json["duplicate"]) == (
        202,
        2,
        False,
    )
    assert (ended["closed_reason"], ended["turn_count"], ended["generation"]) == ("ended", 2, 2)
    transcript = server.get(f"{BASE}/{name}/transcript").json
    assert transcript["conversation_id"] == name
    assert [(turn["turn"], turn["outcome"]) for turn in transcript["turns"]] == [
        (1, "replied"),
        (2, "approved"),
    ]
    record = server.get(f"{BASE}/{name}/records/2").json
    assert record["text"] == transcript["turns"][1]["reply"]
    described = server.get(f"{BASE}/{name}").json
    assert [run["reason"] for run in described["runs"]] == ["continued", "ended"]
    assert described["result"]["reason"] == "ended"
    run = described["runs"][0]["run_id"]
    assert server.get(f"{BASE}/{name}/runs/{run}/status").json["generation"] == 1
    signals = server.get(f"{BASE}/{name}/signals").json["signals"]
    assert [signal["status"] for signal in signals] == ["applied"] * 4
    one = server.get(f"{BASE}/{name}/signals/{signals[0]['signal_id']}").json
    assert one == signals[0]
    history = server.get(f"{BASE}/{name}/history?limit=3").json
    assert len(history["events"]) == 3
    assert history["next"] == "3"
    assert server.get(f"{BASE}/{name}/export").json["turns"] == transcript["turns"]


@pytest.mark.parametrize(
    ("path", "body", "status", "outcome"),
    [
        ("signals/message", {"arguments": {}}, 422, "rejected_invalid_arguments"),
        ("signals/decision", {"arguments": ["p", 1, "r"]}, 422, "rejected_invalid_arguments"),
        ("signals/poke", {}, 404, "rejected_unknown_signal"),
        ("signals/message", {"arguments": ["x" * 2000]}, 413, "rejected_structural_limit"),
        ("runs/run-x/signals/message", {"arguments": ["x"]}, 404, "rejected_unknown_run"),
    ],
)
def test_refusals(server: Server, path: str, body: Any, status: int, outcome: str) -> None:
    name = server.start()

    answer = server.post(f"{BASE}/{name}/{path}", body)

    assert (answer.status, answer.json["outcome"]) == (status, outcome)
    assert answer.json["accepted"] is False
    assert answer.headers["x-should-retry"] == "false"


def test_refusals_that_need_a_history(server: Server) -> None:
    name = server.start(options={"turns_per_run": 1})
    run = server.get(f"{BASE}/{name}/status").json["run_id"]
    server.message(name, "one", request_id="r")
    server.wait(name, lambda s: s["generation"] == 2)

    conflict = server.message(name, "two", request_id="r")
    old_run = server.post(f"{BASE}/{name}/runs/{run}/signals/message", {"arguments": ["x"]})
    taken = server.post(BASE, {"profile": "refund-desk", "conversation_id": name})
    existing = server.post(
        BASE,
        {"profile": "refund-desk", "conversation_id": name, "return_existing_active": True},
    )
    cancelled = server.post(f"{BASE}/{name}/cancel")
    closed = server.message(name, "late")
    unknown = server.message("nobody", "hi")

    assert (conflict.status, conflict.json["outcome"]) == (409, "request_id_conflict")
    assert (old_run.status, old_run.json["outcome"]) == (409, "rejected_not_current")
    assert (taken.status, taken.json["outcome"]) == (409, "rejected_duplicate")
    assert existing.status == 200
    assert (cancelled.status, cancelled.json["closed_reason"]) == (202, "cancelled")
    assert (closed.status, closed.json["outcome"]) == (409, "rejected_not_active")
    assert (unknown.status, unknown.json["outcome"]) == (404, "rejected_not_started")
    assert all(
        answer.headers["x-should-retry"] == "false"
        for answer in (conflict, old_run, taken, closed, unknown)
    )


def test_too_many_unapplied_signals_are_429(server: Server) -> None:
    name = server.start()
    answers = [
        server.post(f"{BASE}/{name}/signals/decision", {"arguments": ["p", True, "r"]})
        for _ in range(51)
    ]

    assert [answer.status for answer in answers] == [202] * 50 + [429]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"profile": "refund-desk", "options": {"turns_per_run": 0}}, "options.turns_per_run"),
        ({"profile": "refund-desk", "colour": 1}, "colour"),
        ({"profile": 1}, "profile"),
        ({"conversation_id": "../x"}, "conversation_id"),
    ],
)
def test_a_start_that_is_written_badly(server: Server, body: Any, param: str) -> None:
    answer = server.post(BASE, body)

    assert (answer.status, answer.json["error"]["param"]) == (400, param)


def test_an_unknown_profile_is_404_with_the_name_that_was_meant(server: Server) -> None:
    answer = server.post(BASE, {"profile": "refund-desc"})

    assert answer.status == 404
    assert "refund-desk" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "path",
    ["/nobody", "/nobody/status", "/nobody/transcript", "/nobody/events", "/nobody/records/1"],
)
def test_what_does_not_exist_is_404(server: Server, path: str) -> None:
    assert server.get(f"{BASE}{path}").status == 404


def test_the_request_id_comes_from_the_header_or_else_from_the_body(server: Server) -> None:
    name = server.start()
    path = f"{BASE}/{name}/signals/message"

    first = server.post(path, {"arguments": ["a"]}, Idempotency_Key="key")
    again = server.post(path, {"arguments": ["a"]}, Idempotency_Key="key")
    in_body = server.post(path, {"arguments": ["a"], "request_id": "key"})

    assert [answer.status for answer in (first, again, in_body)] == [202] * 3
    assert [answer.json["duplicate"] for answer in (first, again, in_body)] == [False, True, True]
    assert again.json["signal_id"] == first.json["signal_id"]


def test_a_status_can_be_waited_for(server: Server) -> None:
    name = server.start()
    first = server.get(f"{BASE}/{name}/status")
    tag = first.headers["etag"]

    unchanged = server.get(f"{BASE}/{name}/status", If_None_Match=tag)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(
            server.get, f"{BASE}/{name}/status", If_None_Match=tag, Prefer="wait=10"
        )
        server.message(name, "Hello")
        changed = waiting.result(timeout=5)

    assert unchanged.status == 304
    assert changed.status == 200
    assert changed.headers["etag"] != tag


def test_readers_who_wait_leave_room_for_others(server: Server) -> None:
    """Three may wait; a fourth is answered at once, and so is whoever only asks."""
    name = server.start()
    tag = server.get(f"{BASE}/{name}/status").headers["etag"]
    path = f"{BASE}/{name}/status"
    with ThreadPoolExecutor(8) as pool:
        waiting = [
            pool.submit(server.get, path, If_None_Match=tag, Prefer="wait=5") for _ in range(4)
        ]
        wait_until(lambda: any(one.done() for one in waiting))
        plain = server.get(path)
        server.message(name, "Hello")
        statuses = sorted(one.result(timeout=5).status for one in waiting)

    assert plain.status == 200
    assert statuses == [200, 200, 200, 304]


def test_events_as_they_happen_and_again_from_where_the_reader_was(server: Server) -> None:
    name = server.start()
    with server.live.connect() as client:
        client.send("GET", f"{BASE}/{name}/events")
        _, status, headers = client.receive_head()
        server.message(name, "Hello")
        seen = client.read_until(b"event: reply_recorded")
        server.message(name, "/end")
        client.read_until(b"event: run_completed")
    again = server.get(f"{BASE}/{name}/events", Last_Event_ID="0")

    assert (status, headers["content-type"]) == (200, "text/event-stream")
    assert b'"phase":"thinking"' in seen
    kinds = [frame.split("\n") for frame in again.frames if "event: " in frame]
    assert kinds[0][0] == "id: 1"
    assert kinds[-1][1] == "event: run_completed"
    late = server.get(f"{BASE}/{name}/events", Last_Event_ID=kinds[-2][0].removeprefix("id: "))
    assert [frame.split("\n")[1] for frame in late.frames if "event: " in frame] == [
        "event: run_completed"
    ]


def test_readers_of_events_are_limited_and_give_their_places_back(server: Server) -> None:
    name = server.start()
    clients = [server.live.connect() for _ in range(3)]
    for client in clients:
        client.send("GET", f"{BASE}/{name}/events")
        client.read_until(b": open")
    refused = server.get(f"{BASE}/{name}/events")
    for client in clients:
        client.close()

    assert refused.status == 503
    assert refused.headers["retry-after"] == "5"
    wait_until(lambda: server.get(f"{BASE}/nobody/events").status == 404)

    def is_free() -> bool:
        with server.live.connect() as client:
            client.send("GET", f"{BASE}/{name}/events")
            return client.receive_head()[1] == 200

    wait_until(is_free)


def test_repair_and_lists(server: Server) -> None:
    name = server.start()

    healthy = server.post(f"{BASE}/{name}/repair")
    unknown = server.post(f"{BASE}/nobody/repair")
    everything = server.post("/durable/v1/repair-pass")
    listed = server.get(f"{BASE}?limit=1&status=running").json

    assert (healthy.status, healthy.json) == (200, {"outcome": "repair_not_needed"})
    assert unknown.status == 404
    assert everything.json == {"repaired": 0}
    assert [one["conversation_id"] for one in listed["conversations"]] == [name]
    assert listed["next"] == name
    assert server.get(f"{BASE}?limit=x").status == 400
    assert server.get(f"{BASE}?status=odd").status == 400


def test_parallel_senders_who_lose_answers_and_repeat(server: Server) -> None:
    name = server.start(options={"turns_per_run": 4})

    def sender(who: int) -> None:
        for number in range(5):
            text = f"{who}:{number}"
            for _ in range(2):
                with server.live.connect() as client:
                    # Goes away before the answer has come, then repeats.
                    client.send(
                        "POST",
                        f"{BASE}/{name}/signals/message",
                        {"arguments": [text], "request_id": text},
                    )
            assert server.message(name, text, request_id=text).status == 202

    threads = [threading.Thread(target=sender, args=(who,)) for who in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.wait_turns(name, 20)

    texts = [turn["text"] for turn in server.get(f"{BASE}/{name}/transcript").json["turns"]]
    assert len(texts) == 20
    for who in range(4):
        assert [text for text in texts if text.startswith(f"{who}:")] == [
            f"{who}:{number}" for number in range(5)
        ]


def test_keys_decide_who_may_send_and_who_may_approve(server: Server, tmp_path: Path) -> None:
    server.conversations.stop()
    keys = [{"name": name, "key": f"key-{name}"} for name in ("sender", "boss", "other")]
    user = User.model_validate({"name": "anna", "apiKeys": keys}).model_copy(
        update={"name": "anna"}
    )

    def bearer(name: str) -> dict[str, str]:
        return {"Authorization": f"Bearer key-{name}"}

    with durable_server(tmp_path, Waits(), (user,)) as guarded:
        nobody = guarded.post(BASE, {"profile": "kept"})
        other = guarded.post(BASE, {"profile": "kept"}, **bearer("other"))
        started = guarded.post(
            BASE, {"profile": "kept", "conversation_id": "c"}, **bearer("sender")
        )
        sent = guarded.post(
            f"{BASE}/c/signals/message", {"arguments": ["refund"]}, **bearer("sender")
        )
        refused = guarded.post(
            f"{BASE}/c/signals/message", {"arguments": ["refund"]}, **bearer("boss")
        )
        path = f"{BASE}/c/status"
        wait_until(lambda: guarded.get(path, **bearer("boss")).json["pending_proposal"])
        proposal = guarded.get(path, **bearer("boss")).json["pending_proposal"]["id"]
        body = {"arguments": [proposal, True, "whoever I say"]}
        no_boss = guarded.post(f"{BASE}/c/signals/decision", body, **bearer("sender"))
        boss = guarded.post(f"{BASE}/c/signals/decision", body, **bearer("boss"))
        wait_until(lambda: guarded.get(path, **bearer("boss")).json["turn_count"] == 1)
        turn = guarded.get(f"{BASE}/c/transcript", **bearer("boss")).json["turns"][0]

    assert [one.status for one in (nobody, other, refused, no_boss)] == [401, 403, 403, 403]
    assert [one.status for one in (started, sent, boss)] == [201, 202, 202]
    assert turn["sender"] == "anna/sender"
    assert (turn["action"]["reviewer"], turn["action"]["decided_by"]) == (
        "whoever I say",
        "anna/boss",
    )


def test_whoever_has_no_part_in_a_conversation_sees_nothing_of_it(
    server: Server, tmp_path: Path
) -> None:
    server.conversations.stop()
    keys = [{"name": name, "key": f"key-{name}"} for name in ("sender", "boss", "other")]
    user = User.model_validate({"name": "anna", "apiKeys": keys}).model_copy(
        update={"name": "anna"}
    )
    ways = [
        *(("GET", f"{BASE}/c{view}") for view in VIEWS),
        *(("POST", f"{BASE}/c/{change}") for change in ("signals/message", "cancel", "repair")),
    ]

    def seen(live: Live, name: str) -> list[str]:
        listed = live.ask("GET", BASE, None, Authorization=f"Bearer key-{name}").json
        assert sum(listed["counts"].values()) == len(listed["conversations"])
        return [one["conversation_id"] for one in listed["conversations"]]

    with durable_server(tmp_path, Waits(), (user,)) as guarded:
        started = {"profile": "kept", "conversation_id": "c"}
        assert guarded.post(BASE, started, Authorization="Bearer key-sender").status == 201
        open_to_all = {"profile": "refund-desk", "conversation_id": "o"}
        assert guarded.post(BASE, open_to_all, Authorization="Bearer key-other").status == 201
        lists = {name: seen(guarded.live, name) for name in ("sender", "boss", "other")}
        other = {
            (method, path): guarded.live.ask(
                method, path, {} if method == "POST" else None, Authorization="Bearer key-other"
            ).status
            for method, path in ways
        }
        boss = guarded.get(f"{BASE}/c/export", Authorization="Bearer key-boss")

    assert other == dict.fromkeys(ways, 403)
    assert lists == {"sender": ["o", "c"], "boss": ["o", "c"], "other": ["o"]}
    assert boss.status == 200


VIEWS = (
    "",
    "/status",
    "/runs/r/status",
    "/records/1",
    "/export",
    "/events",
    "/signals",
    "/signals/s",
    "/transcript",
    "/history",
)
