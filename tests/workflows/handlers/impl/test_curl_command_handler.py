import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.core.errors import ConfigError, WorkflowError
from tests.fakes.upstream import SILENCE, Upstream, head, whole
from tests.workflows.handlers.setups import context_of, run, said

KIND = "CurlCommand"
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called curl that prints its arguments as JSON."""
    program = tmp_path / "bin" / "curl"
    program.parent.mkdir()
    program.write_text(
        f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]), end='')\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")


def called(args: list[Any], outputs: tuple[Any, ...] = (), **config: Any) -> list[str]:
    arguments: list[str] = json.loads(said(KIND, {"args": args, **config}, outputs=outputs))
    return arguments


@pytest.mark.usefixtures("stand_in")
def test_arguments_are_texts_with_variables_and_the_cap_stands_in_front() -> None:
    assert called(["-sS", "--retry", 3, "http://a.b/{agent1Output}"], ("x y",)) == [
        "--max-filesize",
        "10485760",
        "-sS",
        "--retry",
        "3",
        "http://a.b/x y",
    ]
    assert called(["http://a.b"], maxResponseBytes=0) == ["http://a.b"]


@pytest.mark.usefixtures("stand_in")
def test_a_proxy_is_handed_on() -> None:
    config = {"proxy": "socks5h://{agent1Output}", "blockPrivateAddresses": False}

    assert called(["http://a.b"], ("p.q",), maxResponseBytes=0, **config) == [
        "-x",
        "socks5h://p.q",
        "http://a.b",
    ]


@pytest.mark.usefixtures("stand_in")
@pytest.mark.parametrize("blocks", [None, True])
def test_a_host_from_a_variable_is_guarded(blocks: bool | None) -> None:
    config = {"args": ["http://{agent1Output}/"], "blockPrivateAddresses": blocks}

    with pytest.raises(WorkflowError, match="loopback"):
        run(KIND, {**config, "onError": "return"}, outputs=["127.0.0.1"])
    assert called(["http://{agent1Output}/"], ("127.0.0.1",), blockPrivateAddresses=False)[-1] == (
        "http://127.0.0.1/"
    )


@pytest.mark.usefixtures("stand_in")
def test_a_host_that_is_written_here_is_not() -> None:
    assert called(["http://127.0.0.1/{agent1Output}"], ("x",))[-1] == "http://127.0.0.1/x"
    with pytest.raises(WorkflowError, match="loopback"):
        run(KIND, {"args": ["http://127.0.0.1/"], "blockPrivateAddresses": True})


@pytest.mark.usefixtures("stand_in")
def test_injections_are_refused_as_the_node_says() -> None:
    with pytest.raises(WorkflowError, match="allowSchemeInjection"):
        run(
            KIND,
            {"args": ["{agent1Output}"], "blockPrivateAddresses": False},
            outputs=["file:///x"],
        )
    with pytest.raises(WorkflowError, match="blockOptionInjection"):
        run(
            KIND,
            {"args": ["-d", "{agent1Output}", "http://a"], "blockOptionInjection": True},
            outputs=["@x"],
        )

    assert called(["-d", "{agent1Output}", "http://a"], ("@x",))[-2:] == ["@x", "http://a"]
    assert (
        called(
            ["{agent1Output}"],
            ("file:///x",),
            blockPrivateAddresses=False,
            allowSchemeInjection=True,
        )[-1]
        == "file:///x"
    )


@needs_curl
@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("stdout", "ok"),
        ("stdout+stderr", "okcurl: "),
        ("full", '{"stdout": "ok", "stderr": "curl: '),
    ],
)
def test_what_is_shown_of_a_call(format: str, expected: str) -> None:
    # One call that works and one that does not.
    with Upstream(whole(b"ok")) as server:
        config = {"args": ["-sS", server.url, "http://127.0.0.1:1/"], "outputFormat": format}
        text = said(KIND, {**config, "onError": "return"})

    assert text.startswith(expected)
    assert format != "full" or json.loads(text)["returncode"] == 7


@needs_curl
def test_a_call_that_fails_fails_the_node_with_curls_own_words() -> None:
    with Upstream(whole(b"canary", 404)) as server, pytest.raises(WorkflowError) as caught:
        run(KIND, {"args": ["-sSf", "-H", "X-Key: canary", server.url]})

    assert "exit code 22: curl: (22)" in caught.value.message
    assert "canary" not in caught.value.message


@needs_curl
def test_time_and_cap_are_told_as_the_format_says() -> None:
    with Upstream([head(), b"x" * 2000, SILENCE]) as server:
        config = {"args": ["-sN", server.url], "onError": "return"}
        late = said(KIND, {**config, "timeout": 0.3})
        large = json.loads(said(KIND, {**config, "maxResponseBytes": 1000, "outputFormat": "full"}))
        with pytest.raises(WorkflowError, match="timed out after 0"):
            run(KIND, {"args": ["-sN", server.url], "timeout": "0.3"})

    assert late == "curl timed out after 0.3 seconds"
    assert large == {
        "stdout": "x" * 1000,
        "stderr": "",
        "returncode": None,
        "error": "curl wrote more than 1000 bytes (maxResponseBytes)",
    }


def test_a_list_that_allows_nothing_fails_the_node() -> None:
    with pytest.raises(ConfigError, match="allowedHosts"):
        run(KIND, {"args": ["http://a"], "allowedHosts": [], "onError": "return"})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "args"),
        ({"args": []}, "args"),
        ({"args": "http://a"}, "args"),
        ({"args": ["u"], "timeout": 0}, "timeout"),
        ({"args": ["u"], "outputFormat": "stderr"}, "outputFormat"),
        ({"args": ["u"], "blockOptionInjection": "yes"}, "blockOptionInjection"),
        ({"args": ["u"], "allowSchemeInjection": 1}, "allowSchemeInjection"),
    ],
)
def test_a_wrong_value_fails_the_file(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        context_of(KIND, config)
