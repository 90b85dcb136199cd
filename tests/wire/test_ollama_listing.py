import hashlib

import pytest

from Middleware.core.errors import MalformedRequest
from Middleware.wire import ollama_listing


def test_tags() -> None:
    assert ollama_listing.encode_tags(["bob:general"]) == {
        "models": [
            {
                "name": "bob:general",
                "model": "bob:general:latest",
                "modified_at": "2024-11-23T00:00:00Z",
                "size": 1,
                "digest": hashlib.sha256(b"bob:general").hexdigest(),
                "details": {
                    "format": "gguf",
                    "family": "wilmer",
                    "families": None,
                    "parameter_size": "N/A",
                    "quantization_level": "Q8",
                },
            }
        ]
    }


def test_codex_takes_the_version() -> None:
    version = ollama_listing.encode_version()["version"]

    assert tuple(map(int, version.split("."))) >= (0, 13, 4)


def test_show_is_asked_by_either_name() -> None:
    assert ollama_listing.parse_named({"model": "a"}) == "a"
    assert ollama_listing.parse_named({"model": "", "name": "b"}) == "b"
    with pytest.raises(MalformedRequest, match="`model` is missing"):
        ollama_listing.parse_named({})


def test_show_tells_capabilities_and_context() -> None:
    shown = ollama_listing.encode_show(8192)

    assert shown["capabilities"] == ["completion", "tools", "vision"]
    assert shown["model_info"] == {
        "general.architecture": "wilmer",
        "wilmer.context_length": 8192,
    }
    assert shown["details"]["family"] == "wilmer"


def test_nothing_is_kept_in_memory() -> None:
    assert ollama_listing.encode_running() == {"models": []}
