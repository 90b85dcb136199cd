"""Many requests at once, half of whose clients leave in the middle: nothing may stay behind."""

import random
import threading
import time
from collections import Counter
from pathlib import Path

from tests.fakes.headrace import Headrace, Tree, answers, calls, wait_until
from tests.fakes.live_site import Client
from tests.fakes.upstream import (
    DONE,
    Asked,
    Pause,
    Step,
    Upstream,
    chat,
    delta,
    reply,
    stream,
    whole,
)

REQUESTS = 200
TOKENS = ("one ", "two ", "three ", "four ", "five ", "six")
SECONDS = 0.1
"""Between two tokens of every answer."""


class Beat:
    """All answers speak at the same time, so that one thread can keep their time."""

    def __init__(self) -> None:
        self.ticks = [Pause() for _ in TOKENS]

    def answer(self, asked: Asked) -> list[Step]:
        if not asked.json["stream"]:
            return [self.ticks[-1], *whole(reply("".join(TOKENS)))]
        pairs = zip(self.ticks, map(delta, TOKENS), strict=True)
        parts = [part for pair in pairs for part in pair]
        return stream(*parts, delta(finish_reason="stop"), DONE)

    def run(self) -> None:
        for tick in self.ticks:
            time.sleep(SECONDS)
            tick.set()


def leave_some(clients: list[Client], chance: random.Random) -> list[int]:
    """Close half of the clients, each at a moment of its own; the numbers of the others."""
    leaving = chance.sample(range(len(clients)), len(clients) // 2)
    whole_time = SECONDS * (len(TOKENS) + 1)
    begun = time.monotonic()
    for number, moment in zip(
        leaving, sorted(chance.uniform(0, whole_time) for _ in leaving), strict=True
    ):
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        clients[number].close()
    return sorted(set(range(len(clients))) - set(leaving))


def text_of(client: Client, *, streamed: bool) -> str:
    received = client.receive()
    assert received.status == 200, received.body
    if streamed:
        assert received.frames[-1] == "data: [DONE]"
        return received.text
    return str(received.json["choices"][0]["message"]["content"])


IDLE = {"pulse", "after"}
"""Threads that outlast a request: the one that every server has, and those that wait some seconds
for more to do behind an answer. Whether they have something to do, ``is_quiet`` tells."""


def threads() -> Counter[str]:
    names = (thread.name.partition("-")[0] for thread in threading.enumerate())
    return Counter(name for name in names if name not in IDLE)


def open_files() -> int:
    table = Path("/proc/self/fd")
    return len(list(table.iterdir())) if table.exists() else 0


def test_nothing_is_left_over_of_two_hundred_requests_half_of_them_cut(tmp_path: Path) -> None:
    chance = random.Random(20251130)
    beat = Beat()
    tree = Tree(tmp_path, heartbeatSeconds=0.2)
    responder = answers("Slow", prompt="{agent1Input}", is_responder=True)
    tree.own("Child", [responder, answers("Quick")])
    inner = calls("Child", scoped_variables=["{agent1Output}"], is_responder=True)
    tree.workflow("assistant", [answers("Quick"), inner, answers("Quick")])
    before, files = threads(), open_files()
    with (
        Upstream(chat("quick")) as quick,
        Upstream(beat.answer) as slow,
        tree.model("Quick", quick.url).model("Slow", slow.url).serve(REQUESTS + 20) as live,
    ):
        clients = [live.connect() for _ in range(REQUESTS)]
        for number, client in enumerate(clients):
            client.send_chat(model="assistant", stream=bool(number % 3))
        threading.Thread(target=beat.run, daemon=True).start()
        staying = leave_some(clients, chance)
        said = {text_of(clients[number], streamed=bool(number % 3)) for number in staying}
        for client in clients:
            client.close()
        wait_until(lambda: is_over(live, quick, slow))
        statuses = Counter(run["status"] for run in live.runs)
        after = live.says(stream=True)
    wait_until(lambda: not threads() - before)
    wait_until(lambda: open_files() <= files)

    assert said == {"".join(TOKENS)} == {after}
    assert statuses.keys() <= {"succeeded", "cancelled"}
    assert statuses["cancelled"] >= REQUESTS // 10
    # Each of those who stayed has a run and a child's run.
    assert statuses["succeeded"] >= REQUESTS


def is_over(live: Headrace, *models: Upstream) -> bool:
    """No request, no connection, no background run, and no call that a model still works on."""
    calls_over = all(
        asked.answered.is_set() or asked.left.is_set() for model in models for asked in model.asked
    )
    return calls_over and live.is_quiet() and all(run["status"] != "running" for run in live.runs)
