"""Where the configuration is, from what the command line says (config-files §2, design §3)."""

from dataclasses import dataclass
from pathlib import Path

from Middleware.core.errors import ConfigError
from Middleware.core.registry import nearest


class NoFolder(ConfigError):
    """A folder of the command line that cannot be used. Names it as it is on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Locations:
    """The three folders. None of them has to exist."""

    public: Path
    """Run-time data lies in here, whatever ``configs`` is."""
    configs: Path
    workflows: Path

    @classmethod
    def find(
        cls,
        install: Path,
        *,
        public: str | None = None,
        configs: str | None = None,
        workflows: str | None = None,
    ) -> "Locations":
        """Apply the rules of the options; ``install`` is the folder of the program.

        Workflows are in ``<configs>/Workflows`` if that exists, otherwise in the ``Workflows``
        of the installation.
        """
        public_dir = _given(public) or install / "Public"
        configs_dir = _given(configs) or public_dir / "Configs"
        workflows_dir = _given(workflows)
        if workflows_dir is None:
            inside = configs_dir / "Workflows"
            workflows_dir = inside if inside.is_dir() else install / "Workflows"
        return cls(public=public_dir, configs=configs_dir, workflows=workflows_dir)

    def require(self) -> None:
        """Raise NoFolder where configuration or workflows cannot be read from their folders."""
        for folder in (self.configs, self.workflows):
            if not folder.is_dir():
                gone = _first_gone(folder)
                raise NoFolder(f"There is no folder {gone}.", remedy=_near(gone))
        if not (self.configs / "Users").is_dir() and (self.configs / "Configs" / "Users").is_dir():
            raise NoFolder(
                f"There is no configuration in {self.configs} itself.",
                remedy=f"Did you mean {self.configs / 'Configs'}?",
            )

    @property
    def roots(self) -> tuple[Path, ...]:
        """No configuration file outside of these is opened."""
        return self.configs, self.workflows

    def show(self, path: Path) -> str:
        """The name of a file in messages: never says where on this machine it lies."""
        for root, prefix in ((self.workflows, ("Workflows",)), (self.configs, ())):
            try:
                return "/".join((*prefix, *path.relative_to(root).parts))
            except ValueError:
                continue
        return path.name


def _first_gone(folder: Path) -> Path:
    """The part of a path that is at fault: the outermost folder that is not there."""
    return next((one for one in reversed(folder.parents) if not one.is_dir()), folder)


def _near(folder: Path) -> str:
    """What was probably meant by a folder that is not there."""
    try:
        beside = [one.name for one in folder.parent.iterdir() if one.is_dir()]
    except OSError:
        return ""
    near = nearest(folder.name, beside)
    return f"Did you mean {folder.parent / near}?" if near else ""


def _given(text: str | None) -> Path | None:
    """A folder as typed: blank means not given, a leading ``~`` is the home folder."""
    if text is None or not text.strip():
        return None
    cut = text.strip().rstrip("/\\")
    path = Path(cut or text.strip()[0])
    try:
        return path.expanduser()
    except RuntimeError:
        # Nobody of that name: the folder may really be called so.
        return path
