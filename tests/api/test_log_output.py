import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from Middleware.api.log_output import LOG_FILE, BatchedHandler, add_log_files, configure_logging
from tests.fakes.live_site import wait_until

logger = logging.getLogger("Middleware.tests")


@pytest.fixture(autouse=True)
def _undo_logging() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("Middleware")
    handlers, levels = list(root.handlers), (root.level, ours.level)
    yield
    for handler in set(root.handlers) - set(handlers):
        root.removeHandler(handler)
        handler.close()
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def test_lines_come_in_order_and_from_a_thread_of_their_own() -> None:
    out = io.StringIO()
    configure_logging("text", "info", out)
    values = ["first"]

    for number in range(500):
        logger.info("line %d", number)
    logger.info("list %s", values)
    values[0] = "changed"
    logger.debug("too fine")

    wait_until(lambda: out.getvalue().count("\n") == 501)
    lines = out.getvalue().splitlines()
    assert [line.rsplit(": ", 1)[1] for line in lines[:500]] == [f"line {n}" for n in range(500)]
    assert lines[500].endswith("Middleware.tests: list ['first']")
    assert " INFO " in lines[0]


def test_flushing_leaves_nothing_unwritten() -> None:
    out = io.StringIO()
    handler = configure_logging("text", "debug", out)

    logger.debug("last words")
    handler.flush()

    assert "last words" in out.getvalue()


def test_json_lines_are_for_programs() -> None:
    out = io.StringIO()
    handler = configure_logging("json", "info", out)

    logger.info("two\nlines %s", "ü")
    try:
        raise ZeroDivisionError
    except ZeroDivisionError:
        logger.exception("failed")
    handler.flush()

    first, second = map(json.loads, out.getvalue().splitlines())
    assert first["message"] == "two\nlines ü"
    assert (first["level"], first["logger"]) == ("info", "Middleware.tests")
    assert second["exception"].endswith("ZeroDivisionError")


def test_libraries_only_get_a_word_in_when_something_is_wrong() -> None:
    out = io.StringIO()
    handler = configure_logging("text", "debug", out)

    logging.getLogger("waitress").info("Client disconnected")
    logging.getLogger("waitress.queue").warning("Task queue depth is 3")
    logging.getLogger("waitress").warning("odd")
    handler.flush()

    assert out.getvalue().splitlines()[0].endswith("waitress: odd")
    assert out.getvalue().count("\n") == 1


def test_files_get_the_same_lines(tmp_path: Path) -> None:
    handler = configure_logging("text", "info", io.StringIO())
    add_log_files(handler, "text", tmp_path / "logs")

    logger.info("kept")
    handler.flush()

    assert "kept" in (tmp_path / "logs" / LOG_FILE).read_text(encoding="utf-8")
    handler.close()


def test_a_target_that_fails_does_not_silence_the_others() -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("disk full")

    out = io.StringIO()
    handler = BatchedHandler([Broken(), logging.StreamHandler(out)])

    handler.handle(logging.makeLogRecord({"msg": "still here"}))
    handler.flush()

    assert out.getvalue() == "still here\n"
