"""Reading what is remembered of a discussion (memory-and-state §2.3)."""

from Middleware.storage.discussions import DiscussionFolder


def stored_memories(folder: DiscussionFolder) -> list[str]:
    """Oldest first."""
    return _texts(folder, "memories.json")


def stored_summary(folder: DiscussionFolder) -> str:
    """The rolling summary; empty when there is none yet."""
    return next(iter(_texts(folder, "chat_summary.json")), "")


def _texts(folder: DiscussionFolder, name: str) -> list[str]:
    entries = folder.read_list(name)
    return [str(entry["text_block"]) for entry in entries if "text_block" in entry]
