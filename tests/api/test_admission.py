import pytest

from Middleware.api.admission import Keys, is_loopback, refuse_open_server
from Middleware.config.user import User
from Middleware.core.errors import ConfigError
from Middleware.core.messages import Caller

LOCKED = User.model_validate({"name": "alice", "apiKeys": ["one", {"name": "tv", "key": "two"}]})


@pytest.mark.parametrize(
    ("host", "inside"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("localhost", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("::", False),
        ("192.168.0.7", False),
        ("box.local", False),
        ("", False),
    ],
)
def test_loopback_addresses_are_known(host: str, inside: bool) -> None:
    assert is_loopback(host) is inside


def test_a_server_open_to_others_needs_a_key_or_the_owners_word() -> None:
    nobody, alice = Keys(tuple), Keys(lambda: [LOCKED])
    given = Keys(tuple, extra_key="k")

    with pytest.raises(ConfigError) as refused:
        refuse_open_server("0.0.0.0", nobody, no_auth=False)

    assert "--no-auth" in refused.value.message
    assert "apiKeys" in refused.value.message
    refuse_open_server("0.0.0.0", alice, no_auth=False)
    refuse_open_server("0.0.0.0", given, no_auth=False)
    refuse_open_server("0.0.0.0", nobody, no_auth=True)
    refuse_open_server("127.0.0.1", nobody, no_auth=False)


def test_a_caller_is_a_user_file_and_the_name_of_a_key() -> None:
    keys = Keys(lambda: [LOCKED], extra_key="three")

    callers = [keys.admit({"HTTP_X_API_KEY": key}) for key in ("one", "two", "three")]

    assert callers == [
        Caller(user="alice", key_name="key 1"),
        Caller(user="alice", key_name="tv"),
        Caller(user="", key_name="--api-key"),
    ]
