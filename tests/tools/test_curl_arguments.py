from dataclasses import dataclass

import pytest

from Middleware.tools.curl_arguments import (
    Argument,
    Part,
    RefusedArgument,
    data_leads,
    parts_of,
    refuse_options,
    refuse_schemes,
    refuse_unguarded,
)


def written(*texts: str) -> list[Argument]:
    """Arguments; what stands between ``«`` and ``»`` was brought in by a variable."""
    arguments = []
    for text in texts:
        letters, data, inside = [], [], False
        for letter in text:
            if letter in "«»":
                inside = letter == "«"
            else:
                letters.append(letter)
                data.append(inside)
        arguments.append(Argument("".join(letters), tuple(data)))
    return arguments


@dataclass(frozen=True)
class Line:
    id: str
    arguments: tuple[str, ...]
    expected: list[Part]


LINES = [
    Line("a URL", ("http://a",), [Part("url", argument=0)]),
    Line(
        "a long option with its value",
        ("--header", "X: y", "u"),
        [Part("header", argument=1), Part("url", argument=2)],
    ),
    Line("glued by an equals sign", ("--url=http://a",), [Part("url", argument=0, start=6)]),
    Line("a switch", ("--silent", "u"), [Part("silent"), Part("url", argument=1)]),
    Line(
        "short switches together",
        ("-sSL", "u"),
        [Part("silent"), Part("show-error"), Part("location"), Part("url", argument=1)],
    ),
    Line(
        "a short option with its value",
        ("-H", "X: y", "u"),
        [Part("header", argument=1), Part("url", argument=2)],
    ),
    Line(
        "glued to its letter",
        ("-HX: y", "u"),
        [Part("header", argument=0, start=2), Part("url", argument=1)],
    ),
    Line(
        "behind switches",
        ("-sXPOST", "u"),
        [Part("silent"), Part("request", argument=0, start=3), Part("url", argument=1)],
    ),
    Line(
        "behind switches, value apart",
        ("-so", "f", "u"),
        [Part("silent"), Part("output", argument=1), Part("url", argument=2)],
    ),
    Line(
        "everything behind two dashes is a URL",
        ("--", "-x", "u"),
        [Part("url", argument=1), Part("url", argument=2)],
    ),
    Line("a dash is a URL", ("-",), [Part("url", argument=0)]),
    Line(
        "a value may begin with a dash",
        ("-d", "-x", "u"),
        [Part("data", argument=1), Part("url", argument=2)],
    ),
    Line(
        "unknown options are switches",
        ("--brand-new", "u", "-q"),
        [Part("brand-new", known=False), Part("url", argument=1), Part("q", known=False)],
    ),
    Line("a value that is missing", ("-H",), [Part("header", argument=1)]),
    Line(
        "abbreviations are unknown",
        ("--conf", "f"),
        [Part("conf", known=False), Part("url", argument=1)],
    ),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=c.id) for c in LINES])
def test_a_command_line_is_read_as_curl_reads_it(case: Line) -> None:
    assert parts_of(written(*case.arguments)) == case.expected


@dataclass(frozen=True)
class Leads:
    arguments: tuple[str, ...]
    expected: bool


LEADS = [
    Leads(("http://a.b/x",), False),
    Leads(("http://a.b/«x»",), False),
    Leads(("http://a.b«/x»",), False),
    Leads(("http://a.b?q=«x»", "-d", "«x»"), False),
    Leads(("a.b/«x»",), False),
    Leads(("-H", "Host: «x»", "http://a.b"), False),
    Leads(("http://«x»/",), True),
    Leads(("«http://a.b/»",), True),
    Leads(("«http://a.b/»«x»",), True),
    Leads(("http://a.b«.evil.com/»",), True),
    Leads(("http://a.b«@evil.com/»",), True),
    Leads(("http://a.b:«80/»",), True),
    Leads(("«a.b»",), True),
    Leads(("a.b«@evil.com»",), True),
    Leads(("--url", "http://«x»"), True),
    Leads(("--url=http://«x»",), True),
    Leads(("--", "«x»"), True),
    Leads(("-x", "«x»", "http://a.b"), True),
    Leads(("-K«x»", "http://a.b"), True),
    Leads(("--config", "«x»", "http://a.b"), True),
    Leads(("--connect-to", "::«x»", "http://a.b"), True),
    Leads(("--resolve", "a.b:80:«x»", "http://a.b"), True),
    Leads(("--unix-socket", "«x»", "http://a.b"), True),
    Leads(("--doh-url", "https://«x»", "http://a.b"), True),
    Leads(("«-x»", "http://evil", "http://a.b"), True),
    Leads(("-d", "«-Kfile»", "http://a.b"), True),
    Leads(("--conf", "«x»", "http://a.b"), True),
]


@pytest.mark.parametrize("case", [pytest.param(c, id=" ".join(c.arguments)) for c in LEADS])
def test_whether_data_decides_where_it_leads(case: Leads) -> None:
    arguments = written(*case.arguments)

    assert data_leads(arguments, parts_of(arguments)) is case.expected


@pytest.mark.parametrize(
    "arguments",
    [
        ("«file:///etc/passwd»",),
        ("«FILE:/etc/passwd»",),
        ("«  gopher://a»",),
        ("--url", "«dict://a»"),
        ("--url=«file:»///etc/passwd",),
        ("fi«le:///etc/passwd»",),
        ("--", "«file:///x»"),
    ],
)
def test_a_scheme_that_data_brings_in_is_refused(arguments: tuple[str, ...]) -> None:
    given = written(*arguments)

    with pytest.raises(RefusedArgument, match="allowSchemeInjection"):
        refuse_schemes(given, parts_of(given))


@pytest.mark.parametrize(
    "arguments",
    [
        ("«http://a»",),
        ("«HTTPS://a»",),
        ("ftp://a/«x»",),
        ("-H", "«X-Note: file:///x»", "http://a"),
        ("-H«Header: value»", "http://a"),
        ("-d", "«file:///x»", "http://a"),
        ("«a.b:80/x»",),
        ("http://a/«file:///x»",),
    ],
)
def test_other_texts_with_a_colon_are_no_schemes(arguments: tuple[str, ...]) -> None:
    given = written(*arguments)

    refuse_schemes(given, parts_of(given))


@pytest.mark.parametrize(
    "arguments",
    [
        ("«-Kfile»",),
        ("«@file»",),
        ("«-»x",),
        ("-d", "«@/etc/passwd»"),
        ("-d«@/etc/passwd»",),
        ("--data-binary=«@x»",),
        ("--json", "«@x»"),
        ("-H", "«@x»"),
        ("-F", "name=«@/etc/passwd»"),
        ("-F", "name=«</etc/passwd»"),
        ("-F", "«name=@/etc/passwd»"),
        ("-b", "«cookies.txt»"),
        ("--data-urlencode", "«@x»"),
        ("--data-urlencode", "«name@x»"),
        ("--data-urlencode", "name«@x»"),
    ],
)
def test_data_that_becomes_an_option_or_a_file_is_refused(arguments: tuple[str, ...]) -> None:
    given = written(*arguments)

    with pytest.raises(RefusedArgument, match="blockOptionInjection"):
        refuse_options(given, parts_of(given))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-H", "X: «-x»"),
        ("-d@«file»",),
        ("-d", "@«file»"),
        ("-o", "«file»"),
        ("-F", "name=@«file»"),
        ("-F", "name=«a text»"),
        ("-F", "name=«mail@example.com»"),
        ("-b", "«a=b»"),
        ("-b", "cookies.txt"),
        ("--data-urlencode", "«a=b@c»"),
        ("--data-urlencode", "name=«a@b»"),
        ("--data-raw", "x«@y»"),
        ("http://a/«@x»",),
    ],
)
def test_data_where_the_author_wants_it_is_not_refused(arguments: tuple[str, ...]) -> None:
    given = written(*arguments)

    refuse_options(given, parts_of(given))


@pytest.mark.parametrize(
    "arguments",
    [
        ("-K", "file"),
        ("-Kfile",),
        ("--config=file",),
        ("--connect-to", "::127.0.0.1:"),
        ("--resolve", "a:80:127.0.0.1"),
        ("-x", "http://p"),
        ("--socks5", "p"),
        ("--preproxy", "p"),
        ("--unix-socket", "/s"),
        ("--proto", "=file"),
        ("--proto-default", "file"),
        ("--doh-url", "https://d"),
        ("--next",),
        ("-:",),
        ("-q",),
        ("--brand-new",),
        ("--conf", "f"),
        ("-sZ",),
        ("--expand-url", "{{x}}"),
        ("--variable", "x@f"),
        ("-n",),
        ("--alt-svc", "f"),
        ("--hsts", "f"),
        ("--ipfs-gateway", "g"),
    ],
)
def test_beside_a_guard_only_known_options_are_allowed(arguments: tuple[str, ...]) -> None:
    given = written(*arguments, "http://a")

    with pytest.raises(RefusedArgument, match="blockPrivateAddresses"):
        refuse_unguarded(given, parts_of(given))


def test_usual_options_are_allowed_beside_a_guard() -> None:
    line = "-sSfL -X POST -H X:y -d a=b -o out --max-time 5 --compressed -u a:b --url http://a"
    given = written(*line.split(), "http://b", "--fail-with-body")

    refuse_unguarded(given, parts_of(given))


def test_an_option_without_its_value_is_refused_beside_a_guard() -> None:
    given = written("http://a", "-H")

    with pytest.raises(RefusedArgument, match="has no value"):
        refuse_unguarded(given, parts_of(given))
