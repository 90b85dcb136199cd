"""Where the configuration is, from what the command line says (config-files §2, design §3)."""

from dataclasses import dataclass
from pathlib import Path


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
