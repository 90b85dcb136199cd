from Middleware.wire.models_list import encode_models


def test_the_list_has_what_strict_clients_look_for() -> None:
    assert encode_models(["bob:general", "bob:fast"], 1700000000) == {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 1700000000, "owned_by": "Wilmer"}
            for name in ("bob:general", "bob:fast")
        ],
    }
