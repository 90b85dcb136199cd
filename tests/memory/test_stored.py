from pathlib import Path

from Middleware.memory.stored import stored_memories, stored_summary
from Middleware.storage.discussions import DiscussionKey, DiscussionRoot


def test_what_is_remembered_of_a_discussion(tmp_path: Path) -> None:
    folder = DiscussionRoot(path=tmp_path).folder("talk", DiscussionKey())
    before = stored_memories(folder), stored_summary(folder)

    folder.write(
        "memories.json", [{"text_block": "a", "hash": "1"}, {"text_block": "b", "hash": "2"}]
    )
    folder.write("chat_summary.json", [{"text_block": "s", "hash": "2"}])

    assert before == ([], "")
    assert stored_memories(folder) == ["a", "b"]
    assert stored_summary(folder) == "s"
