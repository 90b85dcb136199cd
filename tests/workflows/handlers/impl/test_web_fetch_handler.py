import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from Middleware.core.errors import ConfigError, WorkflowError
from tests.fakes.proxy import Proxy
from tests.fakes.upstream import TLS_FILE, Upstream, head, whole
from tests.workflows.handlers.setups import context_of, run, said

PAGE = "<html><head><title>t</title></head><body><p>a &amp; b</p><script>x</script></body></html>"
HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass(frozen=True)
class Shown:
    id: str
    format: str
    answer: list[Any]
    expected: str


SHOWN = [
    Shown("the body", "text", whole("é".encode(), 200, HTML), "é"),
    Shown(
        "JSON, written again",
        "json",
        whole('{"a":  "é", "n": 1.0}'.encode()),
        '{"a": "\\u00e9", "n": 1.0}',
    ),
    Shown("what a reader sees", "html-stripped", whole(PAGE.encode(), 200, HTML), "a & b"),
    Shown(
        "everything",
        "full",
        [head(201, {"X-One": "1", "Content-Length": "2"}) + b"hi"],
        '{"status_code": 201, "headers": {"X-One": "1", "Content-Length": "2"}, "body": "hi"}',
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in SHOWN])
def test_the_output_of_a_fetch(case: Shown) -> None:
    with Upstream(case.answer) as server:
        assert said("WebFetch", {"url": server.url, "outputFormat": case.format}) == case.expected


@dataclass(frozen=True)
class Failed:
    id: str
    format: str
    answer: list[Any]
    expected: Any


FAILED = [
    Failed("the body", "text", whole(b"no such item", 404), "no such item"),
    Failed("no body", "text", [head(500, {"Content-Length": "0"})], "The server answered 500."),
    Failed("JSON: the body as it is", "json", whole(b"{no", 404), "{no"),
    Failed("what is no JSON", "json", whole(b"<html>"), "<html>"),
    Failed("what a reader sees", "html-stripped", whole(PAGE.encode(), 500, HTML), "a & b"),
    Failed(
        "everything",
        "full",
        [head(404, {"Content-Length": "2"}) + b"no"],
        {
            "error": "The server answered 404.",
            "status_code": 404,
            "headers": {"Content-Length": "2"},
            "body": "no",
        },
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in FAILED])
def test_a_failure_may_be_the_output_or_fails_the_node(case: Failed) -> None:
    with Upstream(case.answer) as server:
        config = {"url": server.url, "outputFormat": case.format}
        text = said("WebFetch", {**config, "onError": "return"})
        for word in ("raise", "fail", "continue"):
            with pytest.raises(WorkflowError) as caught:
                run("WebFetch", {**config, "onError": word})

    assert (json.loads(text) if case.format == "full" else text) == case.expected
    assert "no such item" not in caught.value.message


def test_a_failure_without_answer(tmp_path: Path) -> None:
    config = {"url": "http://no.such.invalid/", "onError": "return"}

    assert "cannot be resolved" in said("WebFetch", config)
    assert json.loads(said("WebFetch", {**config, "outputFormat": "full"})) == {
        "error": "The host 'no.such.invalid' cannot be resolved.",
        "status_code": None,
        "headers": None,
        "body": None,
    }


def test_a_request_as_the_node_writes_it() -> None:
    with Upstream(whole(b"ok")) as server:
        run(
            "WebFetch",
            {
                "url": f"{server.url}/items/{{agent1Output}}?q={{agent1Output}}",
                "method": "put",
                "headers": {"X-Own": "{agent1Output}", "X-N": 5},
                "body": "b {agent1Output}",
            },
            outputs=["a b"],
        )

    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("PUT", "/items/a%20b?q=a%20b", b"b a b")
    assert (asked.headers["x-own"], asked.headers["x-n"]) == ("a b", "5")
    assert (asked.headers["user-agent"], asked.headers["accept"]) == ("Headrace", "*/*")
    assert "content-type" not in asked.headers


def test_an_object_is_sent_as_json() -> None:
    with Upstream(whole(b"ok")) as server:
        run(
            "WebFetch",
            {
                "url": server.url,
                "method": "POST",
                "body": {"{agent1Output}": ["{agent1Output}", 1, {"x": "{agent1Output}"}]},
            },
            outputs=['say "hi"'],
        )
        run("WebFetch", {"url": server.url, "body": {}, "headers": {"content-type": "x/y"}})

    assert server.asked[0].json == {"{agent1Output}": ['say "hi"', 1, {"x": 'say "hi"'}]}
    assert server.asked[0].headers["content-type"] == "application/json"
    assert server.asked[1].headers["content-type"] == "x/y"


@dataclass(frozen=True)
class Option:
    id: str
    config: dict[str, Any]
    expected: str
    answer: list[Any] = field(default_factory=lambda: whole(b"x" * 100))


OPTIONS = [
    Option("a cap", {"maxResponseBytes": 99}, "larger than 99 bytes"),
    Option("no cap", {"maxResponseBytes": 0}, "x" * 100),
    Option("below 0 is no cap either", {"maxResponseBytes": -1}, "x" * 100),
    Option(
        "redirects are not followed",
        {"allowRedirects": False},
        "moved",
        whole(b"moved", 302, {"Location": "/x"}),
    ),
    Option("a guard", {"blockPrivateAddresses": True}, "loopback"),
    Option("a list", {"allowedHosts": ["{agent1Output}"]}, "x" * 100),
    Option("another list", {"allowedHosts": ["example.com", " "]}, "is not in allowedHosts"),
    Option("an empty proxy is none", {"proxy": ""}, "x" * 100),
    Option("time as text", {"timeout": "5"}, "x" * 100),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in OPTIONS])
def test_an_option_does_what_it_says(case: Option) -> None:
    with Upstream(case.answer) as server:
        config = {"url": server.url, "onError": "return", "maxResponseBytes": 1000, **case.config}
        text = said("WebFetch", config, outputs=["127.0.0.1"])

    # What was read up to the cap is the body of the failure.
    assert case.expected in text or (case.id == "a cap" and text == "x" * 99)


def test_a_proxy_is_used() -> None:
    with Upstream(whole(b"ok")) as server, Proxy("http", server.port) as proxy:
        text = said("WebFetch", {"url": f"{server.url}/x", "proxy": proxy.url})

    assert (text, proxy.asked) == ("ok", [f"{server.url}/x"])


def test_a_bundle_of_certificates_is_used_and_may_be_left_unused() -> None:
    with Upstream(whole(b"ok"), tls=True) as server:
        trusted = said(
            "WebFetch", {"url": server.url, "caBundle": "{agent1Output}"}, outputs=[TLS_FILE]
        )
        unseen = said("WebFetch", {"url": server.url, "verify": False, "caBundle": "/no/such"})
        with pytest.raises(WorkflowError, match="certificate"):
            run("WebFetch", {"url": server.url})

    assert (trusted, unseen) == ("ok", "ok")


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"url": "http://a", "caBundle": "/no/such"}, "caBundle"),
        ({"url": "http://a", "allowedHosts": []}, "allowedHosts"),
        ({"url": "http://a", "allowedHosts": [" "]}, "allowedHosts"),
        ({"url": "http://a", "proxy": "gopher://a"}, "proxy"),
        ({"url": "{agent1Output}"}, "url"),
    ],
)
def test_a_mistake_always_fails_the_node(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        run("WebFetch", {**config, "onError": "return"}, outputs=[" "])


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": "u", "headers": ["a"]}, "headers"),
        ({"url": "u", "timeout": 0}, "timeout"),
        ({"url": "u", "timeout": -1}, "timeout"),
        ({"url": "u", "timeout": "soon"}, "timeout"),
        ({"url": "u", "timeout": True}, "timeout"),
        ({"url": "u", "outputFormat": "xml"}, "outputFormat"),
        ({"url": "u", "onError": "ignore"}, "onError"),
        ({"url": "u", "verify": "no"}, "verify"),
        ({"url": "u", "allowRedirects": 1}, "allowRedirects"),
        ({"url": "u", "maxResponseBytes": "10"}, "maxResponseBytes"),
        ({"url": "u", "blockPrivateAddresses": "yes"}, "blockPrivateAddresses"),
        ({"url": "u", "allowedHosts": "a.b"}, "allowedHosts"),
    ],
)
def test_a_wrong_value_fails_the_file(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        context_of("WebFetch", config)


# ------------------------------------------------- hosts that a variable brings in (decisions §6)


@dataclass(frozen=True)
class Origin:
    id: str
    url: str
    """``{base}`` is the address of a server on the loopback address, ``{port}`` its port."""
    blocked: bool
    config: dict[str, Any] = field(default_factory=dict)


ORIGINS = [
    Origin("written in the file", "{base}/x", False),
    Origin("a path from a variable", "{base}/{{agent1Output}}", False),
    Origin("everything behind the host", "{base}{{agent2Output}}", False),
    Origin("the whole URL", "{{agent3Output}}", True),
    Origin("the host", "http://{{agent4Output}}:{port}/", True),
    Origin("the port", "http://127.0.0.1:{{agent5Output}}/", True),
    Origin("a login in front of the host", "http://{{agent1Output}}@127.0.0.1:{port}/", True),
    Origin("the node trusts it", "{{agent3Output}}", False, {"blockPrivateAddresses": False}),
    Origin("a variable of the file", "{{base}}/x", False),
    Origin("a variable of the file that holds data", "{{indirect}}/x", True),
    Origin("a template", "{{{{{{{{ agent3Output }}}}}}}}", True, {"jinja2": True}),
    Origin(
        "a template behind the host",
        "{base}/{{{{{{{{ agent1Output }}}}}}}}",
        False,
        {"jinja2": True},
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in ORIGINS])
def test_a_host_from_a_variable_is_guarded(case: Origin) -> None:
    with Upstream(whole(b"inside")) as server:
        url = case.url.format(base=server.url, port=server.port)
        config = {
            "url": url.replace("{{{{", "{{").replace("}}}}", "}}"),
            "onError": "return",
            **case.config,
        }
        text = said(
            "WebFetch",
            config,
            outputs=["x", "/x", server.url, "127.0.0.1", str(server.port)],
            variables={"base": server.url, "indirect": f"http://{{agent4Output}}:{server.port}"},
        )

    assert ("loopback" in text, server.connections == 0) == (case.blocked, case.blocked)


def test_a_proxy_from_a_variable_is_guarded() -> None:
    with Upstream(whole(b"ok")) as server, Proxy("http", server.port) as proxy:
        config = {"url": server.url, "proxy": "{agent1Output}", "onError": "return"}
        text = said("WebFetch", config, outputs=[proxy.url])

    assert "loopback" in text
    assert proxy.heads == []
