import subprocess
import sys
from pathlib import Path

import pytest

from Middleware import __version__
from Middleware.cli.dispatch import main

FAKE = "tests.fakes.command"
COMMANDS = {"fake": (FAKE, "does as it is told"), "absent": ("no_such_module", "never imported")}
ROOT = Path(__file__).resolve().parent.parent.parent
PRINTS_MUCH = (
    "import sys; from Middleware.cli.dispatch import main;"
    "sys.exit(main(['fake', 'print much'], {'fake': ('tests.fakes.command', '')}))"
)


def test_a_command_gets_its_words_untouched(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--help", "--", "-x", "two words", ""]

    assert main(["fake", *words], COMMANDS) == 0

    assert capsys.readouterr().out == f"{words}\n"


@pytest.mark.parametrize(
    ("words", "code"),
    [(["exit", "0"], 0), (["exit", "7"], 7), (["interrupt"], 130), (["fail"], 1)],
    ids=["success", "its own code", "interrupted", "a mistake in the files"],
)
def test_the_exit_code_says_how_it_ended(words: list[str], code: int) -> None:
    assert main(["fake", *words], COMMANDS) == code


def test_a_mistake_in_the_files_is_told_with_its_detail(capsys: pytest.CaptureFixture[str]) -> None:
    main(["fake", "fail"], COMMANDS)

    assert capsys.readouterr().err == "Users/x.json: no such file.\n/srv/Users/x.json\n"


@pytest.mark.parametrize("words", [[], ["fak"]], ids=["none", "unknown"])
def test_without_a_known_command_all_are_listed(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words, COMMANDS)

    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert "fake    does as it is told\n  absent  never imported\n" in said
    assert ("There is no command 'fak'. Did you mean 'fake'?" in said) == bool(words)


def test_help_and_version_import_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--help", "--version"):
        with pytest.raises(SystemExit) as ended:
            main([word], {"absent": COMMANDS["absent"]})
        assert ended.value.code == 0

    said = capsys.readouterr().out
    assert said.startswith("usage: python -m Middleware")
    assert said.endswith(f"Headrace {__version__}\n")


@pytest.mark.skipif(sys.platform == "win32", reason="a closed pipe is told another way there")
def test_a_reader_that_has_read_enough_is_no_error() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PRINTS_MUCH],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        assert ran.stdout.readline() == "0\n"
        ran.stdout.close()
        said = ran.stderr.read()

    assert (ran.returncode, said) == (141, "")
