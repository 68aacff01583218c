"""What a page writes beside itself: its figures for print and for papers, and its tables as files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from markupsafe import Markup

from understudy.data.files import write_atomically
from understudy.errors import UnderstudyError
from understudy.experiments import tables
from understudy.experiments.tables import Grid
from understudy.messages import install_command

NO_FIGURES: Final = (
    f"Figures for print and for papers need matplotlib: {install_command('plot')}, then run the report again."
)


@dataclass(frozen=True)
class PageFigure:
    """A drawing for the page, and its caption."""

    drawing: Markup
    caption: str
    wide: bool = True  # wider than the screen of a phone
    on_paper: bool = False  # on a screen the page draws it itself


def has_matplotlib() -> bool:
    """Whether figures for print can be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def make_folders(folder: Path) -> None:
    """Make the folders of figures and tables beside a page."""
    for name in ("figures", "tables"):
        try:
            (folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnderstudyError(f"cannot write to {folder}: {error.strerror}; free some space") from error


def draw_figure(
    folder: Path, key: str, caption: str, draw: Callable[[Any], Any], on_paper: bool = False
) -> tuple[PageFigure, ...]:
    """Draw, store and embed a figure. `draw` is called with the figures module, which needs matplotlib."""
    from understudy.experiments import drawing, figures

    drawn = draw(figures)
    svg = drawing.as_svg(drawn)
    drawing.save_figure(drawn, folder / "figures" / key, svg)
    inline = Markup(drawing.inline_svg(drawn, key, caption, svg))  # escaped by inline_svg
    return (PageFigure(inline, caption, bool(drawn.get_figwidth() > drawing.PHONE_INCHES), on_paper),)


def write_tables(folder: Path, sections: Iterable[tuple[str, Iterable[Grid]]]) -> None:
    """Every table of a page in Markdown and LaTeX, by the key of its section."""
    for key, grids in sections:
        for number, grid in enumerate(grids):
            stem = key if number == 0 else f"{key}-{number + 1}"
            write_atomically(folder / f"{stem}.md", tables.as_markdown(grid).encode())
            write_atomically(folder / f"{stem}.tex", tables.as_latex(grid).encode())
