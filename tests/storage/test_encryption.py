import pytest

from Middleware.storage.encryption import Cipher, Unreadable, derived_key, key_hash


def test_the_folder_and_the_key_of_the_specification() -> None:
    assert key_hash("my-secret-key") == "1311f8fc80a7ea28"
    assert derived_key("my-secret-key", "alice") == (
        b"g-wJTr94duGcZ-y0WoXrroN-B-SZxgNjLBXm7_-_Ubg="
    )


def test_what_was_encrypted_can_be_read_again_by_the_same_client_of_the_same_user() -> None:
    sealed = Cipher("key", "alice").encrypt(b"secret")

    assert b"secret" not in sealed
    assert Cipher("key", "alice").decrypt(sealed) == b"secret"


@pytest.mark.parametrize("other", [Cipher("other", "alice"), Cipher("key", "Alice")])
def test_nobody_else_can_read_it(other: Cipher) -> None:
    sealed = Cipher("key", "alice").encrypt(b"secret")

    with pytest.raises(Unreadable):
        other.decrypt(sealed)


def test_plain_text_is_not_taken_for_something_encrypted() -> None:
    with pytest.raises(Unreadable):
        Cipher("key", "alice").decrypt(b'{"a": 1}')
