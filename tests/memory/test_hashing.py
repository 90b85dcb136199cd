import hashlib

import pytest

from Middleware.core.messages import Message, ToolCall
from Middleware.memory.hashing import is_blank, message_hash, message_hashes, vision_hash


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("Hello there", "4e47826698bb4630fb4451010062fadbf85d61427cbdfaed7ad0f23f239bed89"),
        ("Hi {name}", "01be06315b8189ffc98ce32641a6e565f6943b39f7b05d188ab25586f53bc297"),
    ],
)
def test_the_vectors_of_the_specification(content: str, expected: str) -> None:
    assert message_hash(Message("user", content)) == expected
    assert message_hash(Message("assistant", content)) == expected


def test_a_stored_hash_of_the_plain_text_is_known_too() -> None:
    assert message_hashes(Message("user", "Hi {name}")) == {
        message_hash(Message("user", "Hi {name}")),
        sha("Hi {name}"),
    }


def test_images_count_only_where_there_is_no_content() -> None:
    blank = Message("user", " ", images=("b", "a"))

    assert message_hash(blank) == sha(" ab")
    assert message_hash(Message("user", "x", images=("b",))) == sha("x")


def test_a_vision_hash_is_of_role_content_and_sorted_images() -> None:
    message = Message("user", "see {x}", images=("b", "a"))

    assert vision_hash(message) == sha("usersee __WILMER_L_CURLY__x__WILMER_R_CURLY__ab")


def test_a_mere_tool_call_is_blank() -> None:
    call = ToolCall(id="1", name="f", arguments="{}")

    assert is_blank(Message("assistant", " ", tool_calls=(call,)))
    assert not is_blank(Message("user", images=("a",)))
