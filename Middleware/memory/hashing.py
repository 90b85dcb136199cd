"""How messages are recognised again (memory-and-state §3). The hashes are those of the
reference, so that its files can be read and go on being used.
"""

import hashlib

from Middleware.core.messages import Message

_CURLY = str.maketrans({"{": "__WILMER_L_CURLY__", "}": "__WILMER_R_CURLY__"})


def text_hash(text: str) -> str:
    """Lower-case hex SHA-256."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def escaped(text: str) -> str:
    """The form in which the reference takes its hashes: no brace stands in it."""
    return text.translate(_CURLY)


def message_hash(message: Message) -> str:
    """Of the content alone, without the role; of the images where there is no content."""
    text = escaped(message.content)
    if message.images and not text.strip():
        text += "".join(sorted(message.images))
    return text_hash(text)


def message_hashes(message: Message) -> frozenset[str]:
    """Every form in which a stored hash of the message may have been taken."""
    plain = message.content
    if message.images and not plain.strip():
        plain += "".join(sorted(message.images))
    return frozenset((message_hash(message), text_hash(plain)))


def is_blank(message: Message) -> bool:
    """True for a message whose hash is that of many others, as a mere tool call's is."""
    return not message.content.strip() and not message.images


def vision_hash(message: Message) -> str:
    """Of a message with images, for the descriptions that are kept of them."""
    return text_hash(message.role + escaped(message.content) + "".join(sorted(message.images)))
