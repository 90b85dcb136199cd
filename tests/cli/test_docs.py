"""The reference pages are what the code says now, and leave nothing unsaid."""

from pathlib import Path

import pytest

from Middleware.api.options import build_parser
from Middleware.cli import docs
from Middleware.cli.reference import pages
from Middleware.cli.tables import model_tables, option_tables, rows_of
from Middleware.config.loose import LooseBool, Settings
from Middleware.config.models import ApiType, Endpoint, McpServer, PromptTemplate, User
from Middleware.workflows.handlers.base.node_handler import node_types
from Middleware.workflows.handlers.base.node_options import NodeOptions
from Middleware.workflows.handlers.impl.context_compactor_handler import CompactorSettings

PAGES = pages()


class Small(Settings):
    switch: LooseBool = True
    """Says ``what`` it does (nodes §1)."""
    dream: str = ""
    """Not used yet: comes later."""


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_up_to_date(page: str) -> None:
    committed = (docs.FOLDER / page).read_text(encoding="utf-8")

    assert committed == PAGES[page], "run `python3 start.py docs` and commit what it writes"


def test_every_page_that_is_there_is_written_from_the_code() -> None:
    assert {path.name for path in docs.FOLDER.iterdir()} == PAGES.keys()


EXPLAINED = [User, Endpoint, ApiType, McpServer, PromptTemplate, NodeOptions, CompactorSettings]


@pytest.mark.parametrize(
    "model", [*EXPLAINED, *dict.fromkeys(kind.options for _, kind in node_types)]
)
def test_every_key_of_the_files_that_everybody_edits_is_explained(model: type[Settings]) -> None:
    assert [row.keys[0] for row in rows_of(model) if not row.text and row.keys != ("name",)] == []


def test_what_is_used_is_a_table_and_what_is_not_a_list() -> None:
    assert model_tables(Small) == (
        "| Key | Values | Default | Meaning |\n"
        "| --- | --- | --- | --- |\n"
        "| `switch` | true or false | `true` | Says `what` it does. |\n"
        "\nRead, but not used by this version: `dream`.\n"
    )


def test_every_option_of_the_server_is_listed() -> None:
    listed = option_tables(build_parser())

    assert "| `--listen` `ADDRESS` | address to listen on" in listed
    assert "`--log-format` `text` or `json`" in listed
    assert "<public>" not in listed, "would be taken for HTML"


def test_the_command_writes_what_has_changed_and_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "nodes.md").write_text("old", encoding="utf-8")

    assert docs.main([str(tmp_path)]) == 0

    assert (tmp_path / "nodes.md").read_text(encoding="utf-8") == PAGES["nodes.md"]
    assert capsys.readouterr().out == (
        f"written: {tmp_path / 'nodes.md'}\n5 files, 4 of them unchanged\n"
    )
