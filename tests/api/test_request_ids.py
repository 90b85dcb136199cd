import re
from concurrent.futures import ThreadPoolExecutor

from Middleware.api.request_ids import RequestIds


def test_ids_are_different_on_all_threads_and_in_all_processes() -> None:
    new_id, other_process = RequestIds(), RequestIds()

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: new_id(), range(5000)))

    assert len({*ids, *(other_process() for _ in range(5000))}) == 10_000
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in ids)
