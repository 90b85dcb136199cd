from pathlib import Path

from Middleware.conversations import tables
from Middleware.conversations.inbox import Send, Start
from Middleware.conversations.models import Options
from Middleware.conversations.page import Page
from Middleware.conversations.retention import DAY, Retention
from Middleware.conversations.settings import RetentionSettings
from tests.fakes.stepping import SteppingEngine


class NothingFinished:
    def __init__(self) -> None:
        self.asked: list[int] = []

    def forget_finished(self, before: str, limit: int) -> int:
        """As if there were always more."""
        self.asked.append(limit)
        return limit


def test_what_is_old_goes_and_what_is_not_stays(tmp_path: Path) -> None:
    engine = SteppingEngine(tmp_path)
    options = Options(inactivity_seconds=100 * DAY)

    def begin(name: str) -> None:
        start = Start(profile="refund-desk", options=options, conversation_id=name, message="hi")
        engine.inbox.start(start)
        engine.run()

    def end(name: str) -> None:
        engine.inbox.send(name, Send(name="message", arguments=["/end"]))
        engine.run()

    begin("old")
    end("old")
    begin("open")
    begin("new")
    engine.clock.pass_(11 * DAY)
    end("new")

    finished = NothingFinished()
    settings = RetentionSettings(record_days=5, conversation_days=10, batch=1)
    Retention(engine.database, finished, settings).run()

    names = {row["id"] for row in engine.rows(tables.conversations)}
    assert names == {"open", "new"}
    assert {row["conversation_id"] for row in engine.rows(tables.signals)} == {"open", "new"}
    transcript = engine.reader.transcript("open", Page())
    assert transcript is not None
    assert [(turn["text"], turn["expired"]) for turn in transcript["turns"]] == [("hi", True)]
    # A pass has an end, however much there is to do.
    assert len(finished.asked) == 10
    engine.database.close()
