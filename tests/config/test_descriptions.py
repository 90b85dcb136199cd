from Middleware.config.descriptions import class_paragraphs, class_text, field_texts, plain_text
from Middleware.config.loose import Settings


class Parent(Settings):
    """The ``parent``. It has more
    to say.

    And more (nodes §2).
    """

    first: str = ""
    """Of the ``parent``."""
    second: str = ""
    third: int = 3
    """Over two
    lines (config-files §3, decisions §8)."""


class Child(Parent):
    first: str = "mine"
    """Of the child."""


def test_texts_stand_below_fields_and_children_have_those_of_their_parents() -> None:
    assert field_texts(Parent) == {"first": "Of the `parent`.", "third": "Over two lines."}
    assert field_texts(Child) == {"first": "Of the child.", "third": "Over two lines."}


def test_a_class_is_told_by_its_first_sentence() -> None:
    assert class_text(Parent) == "The `parent`."


def test_all_that_a_class_says_keeps_its_paragraphs() -> None:
    assert class_paragraphs(Parent) == "The `parent`. It has more to say.\n\nAnd more."


def test_only_references_to_the_specification_are_left_out() -> None:
    assert plain_text("One (two) three (nodes §1).") == "One (two) three."
