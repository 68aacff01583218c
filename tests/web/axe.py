"""What axe-core, the field's checker of accessibility, finds on a page as it is shown."""

import importlib.util
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.leaving_out import leave_out

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGE: Final = "axe_playwright_python"  # carries axe.min.js; nothing else of it is used
FIND: Final = """async (rules) => {
  const only = rules ? { runOnly: rules } : {};
  const shown = document.querySelector("dialog[open]") ?? document; // what lies behind a window was looked at before
  const { violations } = await axe.run(shown, { resultTypes: ["violations"], preload: false, ...only });
  return violations;
}"""
ALL: Final = None  # rules
OF_COLOURS: Final = ("color-contrast", "link-in-text-block")  # those that a change of colours alone can break
OF_PLACES: Final = (  # those that another size of the window can break: what is shown, and where
    "scrollable-region-focusable", "heading-order", "page-has-heading-one", "landmark-one-main",
    "target-size", "aria-hidden-focus", "button-name", "link-name", "label",
)  # fmt: skip


@cache
def source() -> str:
    """The script of axe-core, to be added to a page before it loads."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        leave_out("axe-playwright-python is NOT INSTALLED: the page was NOT CHECKED by axe; `make setup` installs it")
    return (Path(spec.origin).parent / "axe.min.js").read_text(encoding="utf-8")


def findings(page: "Page", rules: tuple[str, ...] | None = ALL) -> list[str]:
    """All that axe finds, of every severity, with the element and what is wrong; by these rules, or by all."""
    found: list[dict[str, Any]] = page.evaluate(FIND, rules)
    return [
        f"{violation['impact']} {violation['id']}: {node['html'][:120]} ({_messages(node)[:160]})"
        for violation in found
        for node in violation["nodes"]
    ]


def _messages(node: dict[str, Any]) -> str:
    return "; ".join(check["message"] for kind in ("any", "all", "none") for check in node[kind])
