import ast
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import start
from Middleware.cli import environment
from tests.fakes.checkout import ROOT, Checkout, Started, copy_checkout, make_checkout

ONE, TWO = "./wheels/one-1.0-py3-none-any.whl", "./wheels/one-2.0-py3-none-any.whl"
BUILDS = "Making .venv\n"
REBUILDS = "Building .venv anew\n"
INSTALLS = "Installing requirements.txt into .venv\n"
OVERHEAD_SECONDS = 0.1

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signals and links are POSIX's")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A checkout that was started once. Tests that change anything take a copy."""
    checkout = make_checkout(tmp_path_factory.mktemp("start") / "a checkout with spaces")
    checkout.requires(ONE)

    first = checkout.start("--port", "0")

    assert first.told["one"] == ["1.0"]
    assert BUILDS in first.progress
    assert INSTALLS in first.progress
    return checkout


@pytest.fixture
def checkout(prepared: Checkout, tmp_path: Path) -> Checkout:
    return copy_checkout(prepared, tmp_path / "a copy")


# --- What is started ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asks:
    id: str
    words: tuple[str, ...]
    requirements: str
    arguments: tuple[str, ...]


SERVER = str(ROOT / "server.py")
ALL_CORES = ("-n", "auto", "--maxprocesses", "8", "--dist", "worksteal")
ASKS = [
    Asks("nothing", (), "requirements.txt", (SERVER,)),
    Asks("server options", ("--port", "0"), "requirements.txt", (SERVER, "--port", "0")),
    Asks("a configuration folder", ("./c", "me"), "requirements.txt", (SERVER, "./c", "me")),
    Asks(
        "a command",
        ("check", "test", "--json"),
        "requirements.txt",
        ("-P", "-m", "Middleware", "check", "test", "--json"),
    ),
    Asks("all tests", ("test",), "requirements-dev.txt", ("-m", "pytest", *ALL_CORES)),
    Asks(
        "some tests",
        ("test", "-k", "start"),
        "requirements-dev.txt",
        ("-m", "pytest", *ALL_CORES, "-k", "start"),
    ),
    Asks(
        "one test",
        ("test", "tests/test_start.py::test_x"),
        "requirements-dev.txt",
        ("-m", "pytest", "tests/test_start.py::test_x"),
    ),
    Asks("one core", ("test", "-n0"), "requirements-dev.txt", ("-m", "pytest", "-n0")),
]


@pytest.mark.parametrize("case", [pytest.param(case, id=case.id) for case in ASKS])
def test_the_first_word_decides(case: Asks) -> None:
    assert start.plan(case.words) == (case.requirements, [*case.arguments])


def test_an_unknown_word_is_answered_at_once_with_the_known_ones(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "new")

    started = checkout.start("chek")

    assert (started.code, started.said) == (2, "")
    assert "There is no command and no folder 'chek'. Did you mean 'check'?" in started.progress
    assert re.search(r"^  test +run every check", started.progress, re.MULTILINE)
    assert re.search(r"^  serve +start the server", started.progress, re.MULTILINE)
    assert not checkout.venv.exists()


def test_a_folder_is_no_unknown_word(prepared: Checkout) -> None:
    assert prepared.start("wheels", "me").told["words"] == ["wheels", "me"]


def test_help_lists_the_commands_before_the_options_of_the_server(prepared: Checkout) -> None:
    started = prepared.start("--help")

    own, _, of_the_server = started.said.rpartition("\n\n")
    assert own.startswith("usage: python3 start.py [server options]")
    assert json.loads(of_the_server)["words"] == ["--help"]


def test_a_command_is_ours_whatever_lies_in_the_current_folder(
    prepared: Checkout, tmp_path: Path
) -> None:
    other = tmp_path / "Middleware"
    other.mkdir()
    (other / "__init__.py").touch()
    (other / "__main__.py").write_text("raise SystemExit('not this one')")

    told = prepared.start("check", "two words", "--json", cwd=tmp_path).told

    assert told["words"] == ["two words", "--json"]
    assert told["folder"] == str(tmp_path)
    assert Path(told["file"]).parent == prepared.root / "Middleware" / "cli"


# --- Whether it is Python enough ------------------------------------------------------------------


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13, 1), (3, 14)])
def test_a_python_that_will_do_is_not_spoken_of(version: tuple[int, ...]) -> None:
    assert start.wrong_python(version) == ""


def test_an_old_python_is_told_which_it_should_be() -> None:
    said = start.wrong_python((3, 9, 2))

    assert said.startswith("Headrace needs Python 3.11, 3.12 or 3.13. This is Python 3.9, ")
    assert re.search(r"\n(There is a newer one: python3.1[123] start.py|Install one: http)", said)


def test_an_old_python_gets_that_far(tmp_path: Path) -> None:
    """Everything above the question must be understood by it; below, it only has to be syntax."""
    pretend = "import sys, runpy; sys.version_info = (3, 9, 2, 'final', 0); sys.argv = ['start.py']"
    run = f"{pretend}; runpy.run_path({str(ROOT / 'start.py')!r}, run_name='__main__')"

    ran = subprocess.run(
        [sys.executable, "-c", run], cwd=tmp_path, capture_output=True, encoding="utf-8"
    )

    assert ran.returncode == 1
    assert ran.stderr.startswith("Headrace needs Python 3.11, 3.12 or 3.13.")
    ast.parse((ROOT / "start.py").read_text(encoding="utf-8"), feature_version=(3, 6))


def test_a_python_without_venv_is_told_what_to_install(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "new")
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['ensurepip'] = None")

    started = checkout.start(env={"PYTHONPATH": str(tmp_path)})

    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert started.code == 1
    assert f"sudo apt install python{version}-venv" in started.progress
    assert "Traceback" not in started.progress
    assert not checkout.venv.exists()


# --- The second start -----------------------------------------------------------------------------


def test_the_second_start_says_nothing_and_passes_everything_on(
    prepared: Checkout, tmp_path: Path
) -> None:
    words = ["--User", "two words", ""]

    started = prepared.start(*words, cwd=tmp_path)

    assert started.progress == ""
    told = started.told
    assert (told["words"], told["folder"]) == (words, str(tmp_path))
    assert told["prefix"] == str(prepared.venv)


def test_the_exit_code_is_that_of_the_server(prepared: Checkout) -> None:
    assert prepared.start("--exit", "7").code == 7


@posix_only
def test_a_signal_reaches_the_server_itself(prepared: Checkout) -> None:
    with prepared.popen("--wait") as started:
        assert started.stdout is not None
        told = json.loads(started.stdout.readline())
        started.send_signal(signal.SIGTERM)

    assert told["process"] == started.pid
    assert started.returncode == -signal.SIGTERM


def test_where_a_program_cannot_be_replaced_it_is_waited_for() -> None:
    assert start.run_as_child([sys.executable, "-c", "raise SystemExit(7)"]) == 7


def test_the_second_start_costs_next_to_nothing(prepared: Checkout) -> None:
    python = str(prepared.venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))
    through = [sys.executable, str(prepared.root / "start.py")]
    directly = [python, str(prepared.root / "server.py")]

    # The quickest of some, in processor time: others work on this machine too.
    def quickest(command: list[str]) -> float:
        return min(processor_seconds(command) for _ in range(5))

    assert quickest(through) - quickest(directly) < OVERHEAD_SECONDS


def processor_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# --- When it installs -----------------------------------------------------------------------------


def test_changed_requirements_are_installed_by_the_next_start(checkout: Checkout) -> None:
    checkout.requires(TWO)

    changed, again = checkout.start(), checkout.start()

    assert INSTALLS in changed.progress
    assert BUILDS not in changed.progress
    assert changed.told["one"] == ["2.0"]
    assert again.progress == ""


def test_what_one_file_changed_is_not_taken_as_installed_for_the_other(checkout: Checkout) -> None:
    development = environment.Environment(checkout.root)
    (checkout.root / "requirements-dev.txt").write_text("-r requirements.txt\n")
    development.prepare("requirements-dev.txt")
    assert development.is_ready("requirements-dev.txt")

    checkout.requires(TWO)
    checkout.start()
    ready_for_two = development.is_ready("requirements-dev.txt")
    checkout.requires(ONE)
    ready_for_one = development.is_ready("requirements-dev.txt")

    assert (ready_for_two, ready_for_one) == (False, False)


def test_a_checkout_that_was_moved_still_works(checkout: Checkout) -> None:
    moved = Checkout(checkout.root.rename(checkout.root.with_name("somewhere else")))

    started = moved.start("check", cwd=moved.root.parent)

    assert started.progress == ""
    assert started.told["prefix"] == str(moved.venv)
    assert started.told["file"].startswith(str(moved.root))


def test_an_environment_without_a_stamp_is_kept_and_completed(checkout: Checkout) -> None:
    (checkout.venv / "headrace.stamp").unlink()
    (checkout.venv / "mine").touch()

    started = checkout.start()

    assert started.told["one"] == ["1.0"]
    assert INSTALLS in started.progress
    assert (checkout.venv / "mine").exists()


def lose_the_python(venv: Path) -> None:
    (venv / "bin" / "python").unlink()
    (venv / "bin" / "python").symlink_to("/gone/python3")


def get_another_python(venv: Path) -> None:
    stamp = venv / "headrace.stamp"
    stamp.write_text(
        re.sub("^python .*", "python /usr/bin/python3.0", stamp.read_text(), flags=re.M)
    )


def lose_the_settings(venv: Path) -> None:
    (venv / "headrace.stamp").unlink()
    (venv / "pyvenv.cfg").unlink()


def be_interrupted(venv: Path) -> None:
    (venv.parent / ".venv.lock").write_text("not finished")


@pytest.mark.slow
@posix_only
@pytest.mark.parametrize(
    "happens_to", [lose_the_python, get_another_python, lose_the_settings, be_interrupted]
)
def test_a_broken_environment_is_built_anew(
    happens_to: Callable[[Path], None], checkout: Checkout
) -> None:
    (checkout.venv / "leftover").touch()
    happens_to(checkout.venv)

    started, again = checkout.start(), checkout.start()

    assert started.told["one"] == ["1.0"]
    assert REBUILDS in started.progress
    assert not (checkout.venv / "leftover").exists()
    assert again.progress == ""


@posix_only
def test_packages_that_are_gone_are_installed_again(checkout: Checkout) -> None:
    shutil.rmtree(checkout.venv / "lib")

    assert checkout.start().told["one"] == ["1.0"]


@pytest.mark.slow
def test_two_starts_at_once_make_one_environment(tmp_path: Path) -> None:
    checkout = make_checkout(tmp_path / "new")
    checkout.requires(ONE)

    with checkout.popen() as first, checkout.popen() as second, checkout.popen() as third:
        ended = [
            Started(one.returncode, *said)
            for one in (first, second, third)
            if (said := one.communicate(timeout=100))
        ]

    assert [one.told["one"] for one in ended] == [["1.0"]] * 3
    progress = "".join(one.progress for one in ended)
    assert progress.count(BUILDS) == progress.count(INSTALLS) == 1
    assert progress.count("Another start is preparing .venv. Waiting for it.") == 2


# --- When it cannot -------------------------------------------------------------------------------


def test_a_failure_shows_what_pip_said_and_what_to_do(checkout: Checkout) -> None:
    checkout.requires("two==1.0")

    started = checkout.start()

    assert (started.code, started.said) == (1, "")
    assert "Failed to establish a new connection" in started.progress
    assert "No matching distribution found for two==1.0" in started.progress
    assert started.progress.endswith("mirror (PIP_INDEX_URL=...), then start again.\n")


def test_after_a_failure_what_was_there_still_serves(checkout: Checkout) -> None:
    checkout.requires("two==1.0")
    checkout.start()
    checkout.requires(ONE)

    started = checkout.start()

    assert started.progress == ""
    assert started.told["one"] == ["1.0"]


REMEDIES = {
    "NewConnectionError(...)\nERROR: No matching distribution found for x": "cannot be reached",
    "ERROR: No matching distribution found for x": "no build of a package",
    "ERROR: Could not install: [Errno 28] No space left on device": "Make room on the disk",
    "SSLError(... CERTIFICATE_VERIFY_FAILED ...)": "PIP_CERT=",
    "something new": "Put right what is said above",
}


@pytest.mark.parametrize("said", REMEDIES)
def test_the_remedy_fits_what_pip_said(said: str) -> None:
    assert REMEDIES[said] in environment._remedy_for(said)


@contextmanager
def silent_index() -> Iterator[tuple[socket.socket, dict[str, str]]]:
    """A package index that takes the question and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as index:
        index.settimeout(100)
        port = index.getsockname()[1]
        yield index, {"PIP_INDEX_URL": f"http://127.0.0.1:{port}/simple"}


@pytest.mark.slow
@posix_only
def test_an_interrupted_installation_is_done_again(checkout: Checkout) -> None:
    checkout.requires("two==1.0")
    with silent_index() as (index, env), checkout.popen(env=env) as started:
        asked, _ = index.accept()
        with asked:
            started.send_signal(signal.SIGINT)
            _, progress = started.communicate(timeout=100)
    checkout.requires(ONE)

    again = checkout.start()

    assert started.returncode == 130
    assert progress.endswith("Interrupted. The next start does what is missing.\n")
    assert "Traceback" not in progress
    assert REBUILDS in again.progress
    assert again.told["one"] == ["1.0"]


@pytest.mark.slow
@posix_only
def test_a_killed_start_leaves_the_lock_to_the_pip_that_it_began(checkout: Checkout) -> None:
    checkout.requires("two==1.0")
    with silent_index() as (index, env), checkout.popen(env=env) as killed:
        asked, _ = index.accept()
        killed.kill()
        killed.wait(timeout=100)
        checkout.requires(ONE)
        with checkout.popen() as waiting:
            assert waiting.stderr is not None
            assert "Waiting for it." in waiting.stderr.readline()
            asked.close()
            index.close()
            said, progress = waiting.communicate(timeout=100)

    assert Started(waiting.returncode, said, progress).told["one"] == ["1.0"]
    assert progress.startswith(REBUILDS)


# --- Whatever the surroundings --------------------------------------------------------------------


SURROUNDINGS = {
    "an empty HOME": {"HOME": ""},
    "a HOME that is not there": {"HOME": "/no/such/folder"},
    "a pip cache that cannot be written": {"PIP_CACHE_DIR": "/dev/null/cache"},
    "pip told to install elsewhere": {"PIP_TARGET": "/tmp/elsewhere", "PIP_USER": "1"},
    "Python told to import elsewhere": {"PYTHONHOME": "", "PYTHONPATH": "/no/such/folder"},
}


@posix_only
@pytest.mark.parametrize("what", SURROUNDINGS)
def test_it_installs_in_spite_of(what: str, checkout: Checkout) -> None:
    checkout.requires(TWO)

    started = checkout.start(env=SURROUNDINGS[what])

    assert started.told["one"] == ["2.0"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_from_a_bare_checkout_to_an_answer_in_one_command(tmp_path: Path) -> None:
    """The only test that asks the real package index, as the environment has it set."""
    root, home = tmp_path / "a new checkout", tmp_path / "home"
    unversioned = shutil.ignore_patterns(".*", "__pycache__", "SqlLiteDBs", "DiscussionIds", "logs")
    shutil.copytree(ROOT, root, ignore=unversioned)
    home.mkdir()
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    with subprocess.Popen(
        [sys.executable, str(root / "start.py"), "--port", "0"],
        cwd=tmp_path,
        env={**own, "HOME": str(home)},
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as started:
        try:
            address = ready_address(started)
            health = fetch(f"{address}/health")
            answer = fetch(f"{address}/v1/chat/completions", ASSISTANT)
        finally:
            started.send_signal(signal.SIGINT)
            rest = started.communicate(timeout=30)[0]

    assert health["status"] == "ok"
    assert answer["choices"][0]["message"]["content"]
    assert started.returncode == 0, rest


ASSISTANT = {"model": "assistant", "messages": [{"role": "user", "content": "Hello"}]}


def fetch(url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=10) as response:
        return json.load(response)


def ready_address(started: "subprocess.Popen[str]") -> str:
    assert started.stdout is not None
    for line in started.stdout:
        if found := re.search(r"Headrace is ready at (http://\S+)", line):
            return found[1]
    raise AssertionError("it ended before it was ready")
