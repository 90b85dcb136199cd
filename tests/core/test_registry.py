import pytest

from Middleware.core.errors import ConfigError
from Middleware.core.registry import Registry, nearest


def colours() -> Registry[str]:
    registry: Registry[str] = Registry("colour")
    registry.register("Red", "Crimson")("#f00")
    registry.register("Blue")("#00f")
    return registry


def test_an_entry_is_found_under_each_of_its_names() -> None:
    registry = colours()

    assert [registry.get(name) for name in ("Red", "Crimson", "Blue")] == ["#f00", "#f00", "#00f"]
    assert registry.find("Red") == "#f00"
    assert registry.find("red") is None


def test_names_and_entries_come_in_alphabetical_order() -> None:
    registry = colours()

    assert registry.names() == ("Blue", "Crimson", "Red")
    assert list(registry) == [("Blue", "#00f"), ("Crimson", "#f00"), ("Red", "#f00")]


def test_a_decorated_class_stays_what_it_is() -> None:
    registry: Registry[type] = Registry("shape")

    @registry.register("Circle")
    class Circle:
        pass

    assert isinstance(Circle(), registry.get("Circle"))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Crimsn", "Unknown colour 'Crimsn'. Did you mean 'Crimson'?"),
        ("BLUE", "Unknown colour 'BLUE'. Did you mean 'Blue'?"),
        ("xyz", "Unknown colour 'xyz'. Known are: Blue, Crimson, Red."),
    ],
)
def test_an_unknown_name_is_refused_with_a_remedy(name: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        colours().get(name)

    assert caught.value.message == said


def test_a_name_can_be_taken_only_once() -> None:
    registry = colours()

    with pytest.raises(RuntimeError, match="colour 'Red' is registered twice"):
        registry.register("Red")("#e00")

    assert registry.get("Red") == "#f00"


def test_nothing_is_added_after_start_up() -> None:
    registry = colours()
    registry.freeze()

    with pytest.raises(RuntimeError, match="colour 'Green' was registered after start-up"):
        registry.register("Green")("#0f0")

    assert registry.find("Green") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("general", "General"),
        ("genral", "General"),
        ("Fast-Endpont", "Fast-Endpoint"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name_is_found_whatever_its_case(name: str, expected: str | None) -> None:
    assert nearest(name, ("General", "Fast-Endpoint")) == expected
