from Middleware.wire.models_list import encode_models


def test_the_list_has_what_strict_clients_look_for() -> None:
    models = {"bob:general": "reference", "eve:fast": "headrace"}

    assert encode_models(models, 1700000000) == {
        "object": "list",
        "data": [
            {"id": name, "object": "model", "created": 1700000000, "owned_by": owner}
            for name, owner in (("bob:general", "Wilmer"), ("eve:fast", "headrace"))
        ],
    }
