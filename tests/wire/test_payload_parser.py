import pytest

from Middleware.core.errors import BackendBadReply
from Middleware.core.events import Finish, TextDelta
from Middleware.wire.ollama_chat import StreamParser
from Middleware.wire.payload_parser import count_in, index_in, parse_body, text_of
from tests.wire.answers import VOICE


def test_nothing_is_heard_after_the_end() -> None:
    parser = StreamParser(VOICE)
    parser.feed(b'{"done":true}')

    assert parser.feed(b'{"message":{"content":"late"},"error":"late"}') == []
    assert parser.finish() == [Finish("stop")]


def test_only_objects_count_as_heard() -> None:
    parser = StreamParser(VOICE)

    assert [parser.feed(line) for line in (b"nonsense", b"[]", b"5")] == [[], [], []]
    assert not parser.heard
    assert parser.feed(b'{"response":"a"}') == [TextDelta("a")]
    assert parser.heard


def test_nonsense_is_quoted_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    StreamParser(VOICE).feed(b"<html>")

    assert "Endpoint 'fast' sent a line that is no JSON; it was skipped: <html>" in caplog.text


def test_a_body_that_is_no_object_is_quoted_in_the_detail() -> None:
    with pytest.raises(BackendBadReply, match="did not answer with JSON") as caught:
        parse_body(b"<html>secret page", VOICE)

    assert caught.value.detail == "<html>secret page"


def test_readers_of_single_values_take_no_nonsense() -> None:
    values = [5, 5.0, -1, True, "5", None, []]

    assert [count_in({"n": value}, "n") for value in values] == [5, 5, None, None, None, None, None]
    assert count_in(None, "n") is None
    assert [text_of({"n": value}, "n") for value in values] == ["", "", "", "", "5", "", ""]
    assert index_in({"n": "5"}, "n") is None
    assert index_in({"n": 5}, "n") == 5
