import socket

import pytest

from Middleware.tools.json_call import Answered, CallFailed, JsonCaller


def test_nobody_there_is_told_without_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    with pytest.raises(CallFailed) as caught:
        JsonCaller().call("POST", f"http://127.0.0.1:{port}/secret", {"a": 1})

    assert caught.value.message == "It cannot be reached."
    assert "secret" in (caught.value.detail or "")


def test_a_body_that_is_no_json_has_no_value() -> None:
    assert Answered(200, b"oops").value is None
    assert Answered(200, b'{"a": 1}').value == {"a": 1}
    assert Answered(500, b"x" * 1000).text(5) == "xxxxx"
