from dataclasses import dataclass

import pytest

from Middleware.tools.urls import BadUrl, Url, authority_end, has_scheme, join, parse_url


@dataclass(frozen=True)
class Case:
    text: str
    host: str
    port: int
    target: str
    userinfo: str = ""


CASES = [
    Case("http://a.b", "a.b", 80, "/"),
    Case("https://a.b/", "a.b", 443, "/"),
    Case("HTTP://A.B:8080/X?q=1#f", "a.b", 8080, "/X?q=1"),
    Case("http://a.b?q=1", "a.b", 80, "/?q=1"),
    Case("http://a.b#f", "a.b", 80, "/"),
    Case(" http://a.b/x \n", "a.b", 80, "/x"),
    Case("http://a.b/ü ö?q=ä b&r=%20", "a.b", 80, "/%C3%BC%20%C3%B6?q=%C3%A4%20b&r=%20"),
    Case('http://a.b/x"<>', "a.b", 80, "/x%22%3C%3E"),
    Case("http://a.b/a\nb", "a.b", 80, "/a%0Ab"),
    Case("http://bücher.example/", "xn--bcher-kva.example", 80, "/"),
    Case("http://[::1]:81/x", "::1", 81, "/x"),
    Case("http://[::ffff:7f00:1]/", "::ffff:7f00:1", 80, "/"),
    Case("http://user:p%40ss@a.b/", "a.b", 80, "/", "user:p%40ss"),
    Case("http://a@b@c.d/", "", 0, ""),
    Case("http://evil.com@127.0.0.1/", "127.0.0.1", 80, "/", "evil.com"),
    Case("http://under_score.a/", "under_score.a", 80, "/"),
    Case("http://a.b./", "a.b.", 80, "/"),
    Case("http://2130706433/", "2130706433", 80, "/"),
    Case("http://a.b:/x", "a.b", 80, "/x"),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.text) for c in CASES if c.host])
def test_a_url_is_read(case: Case) -> None:
    url = parse_url(case.text)

    assert (url.host, url.port, url.target, url.userinfo) == (
        case.host,
        case.port,
        case.target,
        case.userinfo,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.b",
        "ftp://a.b",
        "file:///etc/passwd",
        "http:a.b",
        "http:/a.b",
        "http://",
        "http:///x",
        "http://a b/",
        "http://a\\b/",
        "http://good.com\\@evil.com/",
        "http://a@b@c.d/",
        "http://a%2eb/",
        "http://%31%32%37.0.0.1/",
        "http://[::1/",
        "http://[fe80::1%25eth0]/",
        "http://a.b:99999/",
        "http://a.b:0/",
        "http://a.b:x/",
        "http://a..b/",
        "http://.a/",
        "http://-a.b/",
        "http://\x00a/",
        "http://a\tb/",
        "http://us er@a.b/",
        "http://" + "x" * 70_000,
        "javascript:alert(1)",
        "//a.b/x",
    ],
)
def test_what_is_no_url_or_could_be_read_in_two_ways_is_refused(text: str) -> None:
    with pytest.raises(BadUrl):
        parse_url(text)


def test_what_a_url_is_written_as() -> None:
    url = parse_url("https://u:p@a.b:443/x?q")

    assert (url.text, url.authority, url.basic) == ("https://a.b/x?q", "a.b", "Basic dTpw")
    assert parse_url("http://[::1]:81/").authority == "[::1]:81"
    assert parse_url("http://a.b./").without_dot().host == "a.b"


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("/y", "http://a.b/y"),
        ("y?z", "http://a.b/d/y?z"),
        ("//c.d/y", "http://c.d/y"),
        ("https://c.d:8443/y", "https://c.d:8443/y"),
        ("?z", "http://a.b/d/x?z"),
        ("", "http://a.b/d/x"),
    ],
)
def test_where_a_redirect_leads(location: str, expected: str) -> None:
    base = Url(scheme="http", host="a.b", port=80, target="/d/x")

    assert join(base, location).text == expected


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://a.b/", "http://[x/", "data:,x"])
def test_a_redirect_to_something_else_is_refused(location: str) -> None:
    with pytest.raises(BadUrl):
        join(parse_url("http://a.b/"), location)


@pytest.mark.parametrize(
    ("text", "decides"),
    [
        ("http://a.b/x", "http://a.b"),
        ("http://a.b?x", "http://a.b"),
        ("http://u@a.b:80#x", "http://u@a.b:80"),
        ("http://good\\@evil/x", "http://good\\@evil"),
        ("no url", "no url"),
    ],
)
def test_the_part_that_decides_where_it_leads(text: str, decides: str) -> None:
    assert text[: authority_end(text)] == decides


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("http://a", "http"),
        ("FILE:///etc", "file"),
        ("file:/etc", "file"),
        ("dict:x", "dict"),
        ("a.b:80/x", None),
        ("localhost:8080", None),
        ("localhost:8080?x", None),
        ("a.b/x:y", None),
        ("a.b", None),
        ("", None),
    ],
)
def test_the_scheme_of_a_text(text: str, scheme: str | None) -> None:
    assert has_scheme(text) == scheme
