import json

import pytest

from Middleware.api.event_stream import Places, TooManyReaders, frame


def test_there_are_so_many_places_and_each_is_given_back() -> None:
    places = Places(2)
    first, second = places.stream(iter([b"a", b"b"])), places.stream(iter([b"c"]))
    with pytest.raises(TooManyReaders) as full:
        places.stream(iter(()))

    assert b"".join(first.response) == b"ab"  # type: ignore[arg-type]
    first.close()
    first.close()
    third = places.stream(iter(()))
    with pytest.raises(TooManyReaders):
        places.stream(iter(()))

    assert (full.value.status, full.value.retry_after) == (503, "5")
    assert (second.content_type, third.headers["Cache-Control"]) == (
        "text/event-stream",
        "no-store",
    )


def test_an_event_has_a_name_and_json_of_anything() -> None:
    data = {"a": "one\ntwo", 3: object}

    written = frame("delta", data).decode()

    head, line, *rest = written.split("\n")
    assert (head, rest) == ("event: delta", ["", ""])
    assert json.loads(line.removeprefix("data: ")) == {"a": "one\ntwo", "3": str(object)}
