"""The visible text of a page (nodes §22)."""

from html.parser import HTMLParser
from typing import Final

_HIDDEN: Final = frozenset({"script", "style", "head", "noscript", "iframe"})


class _Visible(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.lines: list[str] = []
        self._hidden: list[str] = []
        self._piece: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.end_piece()
        if tag in _HIDDEN:
            self._hidden.append(tag)
        elif tag == "body":
            # Pages forget to end their head; its content model ends it.
            self._hidden.clear()

    def handle_endtag(self, tag: str) -> None:
        self.end_piece()
        if tag in self._hidden:
            while self._hidden.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._piece.append(data)

    def end_piece(self) -> None:
        """The parser hands over in parts what stands between two tags."""
        if text := "".join(self._piece).strip():
            self.lines.append(text)
        self._piece.clear()


def visible_text(page: str) -> str:
    """One line a piece of text, entities decoded; what is not shown is left out."""
    parser = _Visible()
    parser.feed(page)
    parser.close()
    parser.end_piece()
    return "\n".join(parser.lines)
