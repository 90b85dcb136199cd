"""Files that commands write from the code, and that tests compare with it."""

from collections.abc import Mapping
from pathlib import Path


def write_changed(folder: Path, texts: Mapping[str, str]) -> None:
    """Write the files that are not as they should be, and say which those were."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = [name for name, text in texts.items() if written(folder, name) != text]
    for name in changed:
        (folder / name).write_text(texts[name], encoding="utf-8", newline="\n")
        print(f"written: {folder / name}")
    print(f"{len(texts)} files, {len(texts) - len(changed)} of them unchanged")


def written(folder: Path, name: str) -> str | None:
    """What is there now; None when there is nothing."""
    try:
        return (folder / name).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
