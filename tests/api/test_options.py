from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from Middleware.api.options import ServerOptions, logging_directory, parse_options

HOME = Path.home()


@dataclass(frozen=True)
class Line:
    words: tuple[str, ...]
    expected: dict[str, Any]


LINES = [
    Line((), {}),
    Line(("--PublicDirectory", "~/pub/"), {"public_directory": HOME / "pub"}),
    Line(("--ConfigDirectory", "conf//"), {"config_directory": Path("conf")}),
    Line(("--ConfigDirectory", "C:\\conf\\"), {"config_directory": Path("C:\\conf")}),
    Line(("--ConfigDirectory", "/"), {"config_directory": Path("/")}),
    Line(("conf", "bob"), {"config_directory": Path("conf"), "users": ("bob",)}),
    Line(
        ("conf", "bob", "--ConfigDirectory", "other", "--User", "al"),
        {"config_directory": Path("other"), "users": ("al",)},
    ),
    Line(("--User", "a", "--User", " ", "--User=b"), {"users": ("a", "b")}),
    Line(("", ""), {}),
    Line(("--User", "", "--port", "", "--ConfigDirectory", " ", "--listen", ""), {}),
    Line(("--port", "0"), {"port": 0}),
    Line(("--listen",), {"listen": "0.0.0.0"}),
    Line(("--listen", "::1", "--port", "5051"), {"listen": "::1", "port": 5051}),
    Line(("--WorkflowsDirectory", "w"), {"workflows_directory": Path("w")}),
    Line(("--LoggingDirectory", "~/logs/<user>/"), {"logging_directory": f"{HOME}/logs/<user>"}),
    Line(("--UserLevelSqlLiteDirectory", "s"), {"sqlite_directory": Path("s")}),
    Line(("--DiscussionDirectory", "d"), {"discussion_directory": Path("d")}),
    Line(("--file-logging",), {"file_logging": True}),
    Line(("--database", "sqlite:///c.sqlite"), {"database": "sqlite:///c.sqlite"}),
    Line(("--database", "postgres://h/n"), {"database": "postgresql://h/n"}),
    Line(("--database", " "), {}),
    Line(("--concurrency", "3"), {"concurrency": 3}),
    Line(("--concurrency-timeout", "5"), {"concurrency_timeout_seconds": 5}),
    Line(("--concurrency-level", "endpoint"), {"concurrency_level": "endpoint"}),
    Line(("--threads", "40"), {"threads": 40}),
    Line(("--database", "postgresql://x"), {"database": "postgresql://x"}),
    Line(("--api-key", "k", "--no-auth"), {"api_key": "k", "no_auth": True}),
    Line(("--cors", "http://a", "--cors", "*"), {"cors": ("http://a", "*")}),
    Line(("--allow-inline-python",), {"allow_inline_python": True}),
    Line(("--log-format", "json"), {"log_format": "json"}),
    Line(("--log-level", "debug"), {"log_level": "debug"}),
    Line(("--max-body-mb", "8", "--grace", "0"), {"max_body_megabytes": 8, "grace_seconds": 0}),
]


@pytest.mark.parametrize("line", [pytest.param(line, id=" ".join(line.words)) for line in LINES])
def test_the_command_line_is_understood(line: Line) -> None:
    assert parse_options(line.words) == ServerOptions(**line.expected)


@pytest.mark.parametrize(
    "words",
    [
        ("--port", "70000"),
        ("--port", "x"),
        ("--concurrency", "-1"),
        ("--concurrency-timeout", "0"),
        ("--threads", "0"),
        ("--concurrency-level", "other"),
        ("--conf", "x"),
        ("a", "b", "c"),
    ],
    ids=" ".join,
)
def test_nonsense_ends_with_status_2_and_names_the_option(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse_options(words)

    assert ended.value.code == 2
    assert words[0].removeprefix("a") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--prot", "5"), "There is no option '--prot'. Did you mean '--port'?"),
        (("--listne=::",), "There is no option '--listne'. Did you mean '--listen'?"),
        (
            ("--publicdirectory", "x"),
            "There is no option '--publicdirectory'. Did you mean '--PublicDirectory'?",
        ),
        (("--xyzzy",), "There is no option '--xyzzy'. --help lists all."),
        (("a", "b", "c"), "There are words too many: c."),
        (
            ("--database", "headrace.sqlite"),
            "argument --database: 'headrace.sqlite' names no database; write "
            "postgresql://HOST/NAME or sqlite:///FILE",
        ),
    ],
    ids=["misspelt", "with a value", "other case", "like no other", "a third word", "no URL"],
)
def test_what_does_not_exist_is_told_with_the_nearest_that_does(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse_options(words)

    usage = "usage: python3 start.py [options] [CONFIG_DIR [USER]]"
    assert capsys.readouterr().err == f"{usage}\npython3 start.py: error: {says}\n"


@pytest.mark.parametrize(
    ("given", "user", "expected"),
    [
        (None, "bob", (Path("pub/logs"), False)),
        ("/l/<user>/x", "bob", (Path("/l/bob/x"), False)),
        ("/l/<user>", None, (Path("/l"), True)),
        ("/l", None, (Path("/l"), False)),
    ],
)
def test_the_log_folder_may_name_the_user(
    given: str | None, user: str | None, expected: tuple[Path, bool]
) -> None:
    options = ServerOptions(logging_directory=given)

    assert logging_directory(options, Path("pub"), user) == expected
