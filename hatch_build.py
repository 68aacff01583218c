"""What the built package says of itself: its description, and addresses once the owner has named one.

A relative link of README.md leads nowhere on a package index. With an address in pyproject.toml, in the table
`[tool.hatch.metadata.hooks.custom]`, links and pictures get it in front; without one links become their text, and
pictures are left out.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

README = "README.md"
VERSION = re.compile(r"__version__ = \"(.+)\"")
PICTURE = re.compile(r"!\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)\n*", re.DOTALL)
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)")
COMMENT = re.compile(r"<!---.*?--->\n*", re.DOTALL)  # for the tests only


class Addresses(MetadataHookInterface):
    """Fills in the description and the addresses while the package is built."""

    def update(self, metadata: dict[str, Any]) -> None:
        root = Path(self.root)
        found = VERSION.search((root / "src" / "understudy" / "version.py").read_text(encoding="utf-8"))
        if found is None:
            raise ValueError("src/understudy/version.py names no version")
        repository = str(self.config.get("repository", "")).rstrip("/")
        text = description((root / README).read_text(encoding="utf-8"), repository, f"v{found[1]}")
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        if repository:
            metadata["urls"] = urls(repository, f"v{found[1]}")


def description(readme: str, repository: str, tag: str) -> str:
    """The README for readers who do not have the repository around it."""
    text = COMMENT.sub("", readme)
    if not repository:
        return LINK.sub(r"\1", PICTURE.sub("", text))
    text = PICTURE.sub(lambda found: found[0].replace(found[2], f"{repository}/raw/{tag}/{found[2]}"), text)
    return LINK.sub(lambda found: f"[{found[1]}]({repository}/blob/{tag}/{found[2]})", text)


def urls(repository: str, tag: str) -> dict[str, str]:
    """The addresses that an index shows beside the description."""
    return {
        "Source": repository,
        "Documentation": f"{repository}/blob/{tag}/docs/index.md",
        "Changelog": f"{repository}/blob/{tag}/CHANGELOG.md",
        "Issues": f"{repository}/issues",
    }
