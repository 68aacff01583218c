"""How pages of results are made: from templates, in one file each, with the scripts and the names to choose from."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import jinja2

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.experiments.charts import read_script, style_on_page
from understudy.experiments.styles import Style

SIGNS: Final = dict(zip("os^DvPX><*pdh1+|_", "●■▲◆▼✚✖▶◀★⬟♦⬢⅄+|–", strict=True))  # markers as characters
SORTS: Final = ("page.js",)  # the scripts of a page with tables alone
DRAWS: Final = ("page.js", "plot.js", "charts.js")  # and of one with curves


def write_page(path: Path, template: str, scripts: Sequence[str] = SORTS, **values: Any) -> Path:
    """Fill a template and write the page, with these scripts of the package in it."""
    loader = jinja2.PackageLoader("understudy", "experiments")
    pages = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    page = pages.get_template(template).render(scripts=[read_script(name) for name in scripts], **values)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnderstudyError(f"cannot write to {path.parent}: {error.strerror}; choose another folder") from error
    write_atomically(path, page.encode("utf-8", "replace"))
    return path


def chips_of(styles: Mapping[str, Style]) -> list[dict[str, Any]]:
    """The names at the top of a page, by which strategies are highlighted and chosen."""
    return [{"name": name, **style_on_page(name, style), "sign": SIGNS[style.marker]} for name, style in styles.items()]
