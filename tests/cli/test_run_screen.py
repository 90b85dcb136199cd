import io
from pathlib import Path

import pytest

from Middleware.cli.run import AnswerOutput, main
from Middleware.core.errors import ConfigError
from tests.fakes.headrace import Tree, answers


def test_a_step_begins_its_own_line_on_a_screen_that_it_shares_with_the_answer() -> None:
    screen, pipe = io.StringIO(), io.StringIO()
    shared = AnswerOutput(screen, shares_screen=True)
    apart = AnswerOutput(pipe, shares_screen=False)

    for answer in (shared, apart):
        answer.make_room()
        answer.write("Hel")
        answer.make_room()
        answer.write("lo\n")
        answer.make_room()
        answer.end_line()

    assert (screen.getvalue(), pipe.getvalue()) == ("Hel\nlo\n", "Hello\n")


def test_a_name_that_is_none_gets_the_nearest_one(tmp_path: Path) -> None:
    tree = Tree(tmp_path).scripted("Main").workflow("outer", [answers("Main")])

    with pytest.raises(ConfigError, match=r"outre.*Did you mean 'outer'\?"):
        main(["outre", "--message", "Hi", "--PublicDirectory", str(tree.public)])
