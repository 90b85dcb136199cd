from types import SimpleNamespace
from typing import Any, cast

import pytest

from Middleware.config.files import Snapshot
from Middleware.config.models import ApiType, User
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendTimeout, ConfigError
from Middleware.core.events import collect
from Middleware.llm.backend import backend_types
from Middleware.llm.pool import BackendPool
from tests.fakes.upstream import SILENCE, Upstream, chat
from tests.llm.setups import api_type, ask, endpoint


def files(*types: ApiType, **user: Any) -> Snapshot:
    """The two things that a pool wants of a snapshot."""
    known = {found.name: found for found in types}
    return cast(
        Snapshot, SimpleNamespace(user=User.model_validate(user), api_type=known.__getitem__)
    )


def named(url: str = "http://127.0.0.1:1", **keys: Any) -> Any:
    return endpoint(url, apiTypeConfigFileName="Open-AI-API", **keys)


def test_a_backend_is_built_once_and_again_when_a_file_has_changed() -> None:
    pool = BackendPool()
    types, fast = files(api_type()), named()

    first = pool.get(types, fast)

    assert pool.get(types, fast) is first
    assert pool.get(types, named()) is not first
    assert pool.get(files(api_type()), fast) is not first


def test_users_with_their_own_time_outs_do_not_share_a_backend() -> None:
    pool = BackendPool()
    kind, fast = api_type(), named()
    patient, hasty = files(kind), files(kind, readTimeoutInSeconds=5)

    assert pool.get(patient, fast) is not pool.get(hasty, fast)
    assert pool.get(hasty, fast) is pool.get(files(kind, readTimeoutInSeconds=5), fast)


def test_all_backends_share_connections_and_closing_ends_them() -> None:
    with Upstream(chat("ok")) as server:
        pool = BackendPool()
        types = files(api_type())
        for _ in range(3):
            backend = pool.get(types, named(server.url))
            assert collect(backend.complete(ask(), CancelToken())).text == "ok"
        pool.close()

    assert server.connections == 1


def test_the_time_out_of_the_endpoint_wins_over_the_users() -> None:
    pool = BackendPool()
    types = files(api_type(), readTimeoutInSeconds=14400)
    with Upstream([SILENCE]) as server:
        backend = pool.get(types, named(server.url, readTimeoutInSeconds=1))
        with pytest.raises(BackendTimeout, match="for 1 s"):
            collect(backend.complete(ask(), CancelToken()))


def test_an_unknown_type_is_told_with_its_file_and_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        BackendPool().get(files(api_type(type="openAIChatCompletions")), named())

    assert caught.value.message == (
        "ApiTypes/Open-AI-API.json: type: Unknown API type 'openAIChatCompletions'. "
        "Did you mean 'openAIChatCompletion'?"
    )


def test_many_changes_do_not_pile_up() -> None:
    pool = BackendPool()
    types = files(api_type())
    for _ in range(600):
        pool.get(types, named())

    assert len(pool._backends) <= 512


def test_the_alias_of_old_files_is_known() -> None:
    assert backend_types.find("openAIApiChatImageSpecific") is backend_types.find(
        "openAIChatCompletion"
    )
