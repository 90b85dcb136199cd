from types import SimpleNamespace
from typing import Any, cast

import pytest

from Middleware.config.files import Snapshot
from Middleware.config.models import ApiType, User
from Middleware.core.cancellation import CancelToken
from Middleware.core.errors import BackendRejected, BackendTimeout, ConfigError
from Middleware.core.events import collect
from Middleware.llm.backend import backend_types
from Middleware.llm.guarded import GuardedBackend
from Middleware.llm.pool import BackendPool
from tests.fakes.upstream import SILENCE, Upstream, chat, refuses
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


def test_slots_outlive_an_edit_of_the_file() -> None:
    pool = BackendPool(slots=3)
    types = files(api_type())
    first = pool.get(types, named())

    assert pool.get(types, named()) is not first
    assert pool._gates["Endpoints/fast.json"].slots == 3
    gate = pool._gates["Endpoints/fast.json"]
    pool.get(types, named(maxContextTokenSize=1))
    assert pool._gates["Endpoints/fast.json"] is gate
    pool.get(types, named(maxConcurrentRequests=1))
    assert pool._gates["Endpoints/fast.json"].slots == 1


def test_an_endpoint_with_a_backup_is_tried_once() -> None:
    pool = BackendPool()
    with Upstream(refuses(500)) as server:
        backend = pool.get(files(api_type()), named(server.url, backupEndpointName="b", retries=5))
        with pytest.raises(BackendRejected):
            collect(backend.complete(ask(), CancelToken()))
        pool.close()

        assert len(server.asked) == 1


def test_only_endpoints_for_vectors_make_vectors() -> None:
    pool = BackendPool()
    vectors = files(api_type(type="openAIEmbeddings"))

    assert pool.embedder(vectors, named()).kind == "embeddings"
    with pytest.raises(ConfigError, match="makes no vectors of texts"):
        pool.embedder(files(api_type()), named())


def test_what_needs_no_server_is_not_guarded() -> None:
    scripted = files(api_type(type="scripted"))

    assert not isinstance(BackendPool().get(scripted, named("")), GuardedBackend)
    assert isinstance(BackendPool(slots=1).get(scripted, named("")), GuardedBackend)
