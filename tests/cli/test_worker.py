"""A worker without doors, as a program of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fakes.conversation_client import Client
from tests.fakes.conversation_worker import wait_for

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_it_works_until_it_is_told_to_end(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'durable.sqlite'}"
    command = [sys.executable, "-m", "Middleware", "worker", "--database", url]
    command += ["--UserLevelSqlLiteDirectory", str(tmp_path)]
    with subprocess.Popen(
        [*command, "--turns-at-once", "2"], cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "The worker is ready.\n"
        client = Client(url)
        client.start("talk")
        client.message("talk", "Hello")
        client.settle("talk")
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=20)

    assert code == 0
    assert client.status("talk")["turn_count"] == 1
    with client.database.transaction() as connection:
        left = connection.exec_driver_sql("SELECT count(*) FROM conversation_executors").scalar()
    assert left == 0
    client.close()


@pytest.mark.slow
def test_two_workers_on_one_file_share_the_work(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'durable.sqlite'}"
    command = [sys.executable, "-m", "Middleware", "worker", "--database", url]
    command += ["--UserLevelSqlLiteDirectory", str(tmp_path)]
    workers = [
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8")
        for _ in range(2)
    ]
    try:
        for process in workers:
            assert process.stdout is not None
            assert process.stdout.readline() == "The worker is ready.\n"
        client = Client(url)
        names = [client.start(f"talk{number}") for number in range(8)]
        for name in names:
            client.message(name, "Hello")
        wait_for(lambda: all(client.status(name)["turn_count"] == 1 for name in names))
        client.close()
    finally:
        for process in workers:
            process.terminate()
            process.communicate(timeout=20)
