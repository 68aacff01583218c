"""Makes a site of the repository's pages: navigation, links to files, and the reference made of docstrings.

Links between pages need nothing: the site's folders are the repository's. A link to a Python file leads to a page that
shows it, a link to a notebook's script to the page made of it, and other folders are named without a link.
"""

import inspect
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from docutils import nodes
from jinja2 import Environment, FileSystemLoader
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer, TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx.util.fileutil import copy_asset
from sphinx.util.osutil import relative_uri

from understudy.strategies.listing import module_of
from understudy.strategies.registry import STRATEGIES

ROOT = Path(__file__).parents[2]
INDEX = "docs/index"
# Python files that get a page of their own, to which links to them lead.
SHOWN = ("src/understudy/*.py", "benchmarks/*.py", "examples/*.py")
NOTEBOOKS = ("examples/notebooks", "docs/notebooks")  # the scripts, and the pages made of them
# Pages that lead to others below them. A folder that is named as a page is below that page, too.
LEADS_TO = {
    "benchmarks/README": ["benchmarks/default/README", "benchmarks/paper/README", "benchmarks/scale/README"],
    "docs/architecture": ["page/README"],
    "CONTRIBUTING": ["SECURITY"],
}


def page_of(path: str) -> str | None:
    """The page on which the site shows a file of the repository, without its ending; None for one to download."""
    if path == NOTEBOOKS[0]:
        return f"{NOTEBOOKS[1]}/index"
    if fnmatch(path, f"{NOTEBOOKS[0]}/*.py"):
        return f"{NOTEBOOKS[1]}/{Path(path).stem}"
    return path if any(fnmatch(path, pattern) for pattern in SHOWN) else None


class RepositoryLinks(SphinxTransform):
    """What all transforms here need: where a link of a page leads."""

    def path_of(self, link: nodes.Element) -> str:
        """The path in the repository that a link leads to, without the ending of a page."""
        target = link["reftarget"].partition("#")[0]
        if link.get("refdomain") == "doc":  # a page, which the parser has found already
            return target
        folder = ROOT if target.startswith("/") else (ROOT / self.env.docname).parent
        return (folder / target.lstrip("/")).resolve().relative_to(ROOT).as_posix()


class Navigation(RepositoryLinks):
    """The tree of pages: the index's sections with the pages they list, by the names they have there.

    Any other page is above those that it links to in a folder of its name, such as the pages of strategies.
    """

    default_priority = 390

    def apply(self, **kwargs: Any) -> None:
        page = self.env.docname
        if page == INDEX:
            for section in self.document.findall(nodes.section):
                lists = [node for node in section.children if isinstance(node, nodes.bullet_list)]
                entries = {path: name for part in lists for path, name in self.pages_in(part).items()}
                if entries:
                    section.insert(1, self.tree(entries, section.next_node(nodes.title).astext()))
        else:
            below = {path: name for path, name in self.pages_in(self.document).items() if path.startswith(f"{page}/")}
            others = [other for other in LEADS_TO.get(page, []) if (ROOT / f"{other}.md").exists()]
            if named := dict.fromkeys([*others, *below]):
                self.document.next_node(nodes.section).append(self.tree(named))

    def pages_in(self, part: nodes.Element) -> dict[str, str]:
        """The pages that a part links to, and the words that link to them first."""
        found: dict[str, str] = {}
        for link in [*part.findall(addnodes.pending_xref), *part.findall(addnodes.download_reference)]:
            path = self.path_of(link)
            if link.get("refdomain") == "doc" or path.startswith(NOTEBOOKS[0]):
                found.setdefault(page_of(path) or path, link.astext())
        return found

    def tree(self, entries: Mapping[str, str | None], caption: str | None = None) -> nodes.Node:
        return addnodes.toctree(
            parent=self.env.docname,
            entries=[(name, path) for path, name in entries.items()],
            includefiles=list(entries),
            rawentries=[],
            caption=caption,
            rawcaption=caption,
            maxdepth=-1,
            glob=False,
            hidden=True,
            includehidden=False,
            numbered=0,
            titlesonly=True,
        )


class LinksToFiles(RepositoryLinks):
    """Links that lead to files and folders which are not pages: to the file's page, or to nothing."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        for link in [
            *self.document.findall(addnodes.download_reference),
            *self.document.findall(lambda node: isinstance(node, addnodes.pending_xref) and node["reftype"] == "myst"),
        ]:
            path = self.path_of(link)
            if link.get("refdomain") == "doc":
                continue
            if page := page_of(path):
                uri = relative_uri(f"{self.env.docname}.html", f"{page}.html")
                link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))
            elif (ROOT / path).is_dir():
                link.replace_self(link.children)


class AlignedFormulas(SphinxTransform):
    """Formulas that align their lines themselves, which the builder would do once more, without room for a number."""

    default_priority = 410

    def apply(self, **kwargs: Any) -> None:
        for formula in self.document.findall(nodes.math_block):
            if r"\begin{" in formula.astext():
                formula["no-wrap"] = True
                formula.children = [nodes.Text(rf"\[{formula.astext()}\]")]


def show_files(app: Sphinx, error: Exception | None) -> None:
    """Write a page for every Python file that others may link to, with the numbers of its lines as anchors."""
    if error or app.builder.name != "html":
        return
    template = Environment(loader=FileSystemLoader(app.confdir / "templates"), autoescape=True).get_template(
        "file.html"
    )
    formatter = HtmlFormatter(lineanchors="line", wrapcode=True)
    lexer = TextLexer() if app.tags.has("quick") else PythonLexer()
    for file in sorted({file for pattern in SHOWN for file in (ROOT / pattern.partition("/")[0]).rglob("*.py")}):
        path = file.relative_to(ROOT).as_posix()
        if page_of(path) == path:
            target = Path(app.outdir) / f"{path}.html"
            target.parent.mkdir(parents=True, exist_ok=True)
            code = Markup(highlight(file.read_text(), lexer, formatter))
            target.write_text(template.render(path=path, code=code, index=INDEX, root="../" * path.count("/")))


def copy_mathjax(app: Sphinx, error: Exception | None) -> None:
    """Put what shows mathematics beside the pages, which ask no other host for anything."""
    if error is None and app.builder.name == "html":
        package = "sphinx-mathjax-offline"  # a folder of files, of a name that cannot be imported
        packaged = Path(str(distribution(package).locate_file(f"{package}/static/mathjax")))
        for path in ("tex-chtml.js", "output/chtml/fonts"):
            target = Path(app.outdir) / "_static" / "mathjax" / path
            copy_asset(packaged / path, target if (packaged / path).is_dir() else target.parent)


def start_page(app: Sphinx, error: Exception | None) -> None:
    """Let the root of the site lead to the index, which lies in docs/ as in the repository."""
    if error is None and app.builder.name == "html":
        uri = f"{INDEX}.html"
        page = f'<!doctype html><meta charset="utf-8"><title>Understudy</title><link rel="canonical" href="{uri}">'
        (Path(app.outdir) / "index.html").write_text(
            f'{page}<meta http-equiv="refresh" content="0; url={uri}"><a href="{uri}">Understudy</a>\n'
        )


# -- the reference made of docstrings -----------------------------------------------------------------------


def source_of(domain: str, info: dict[str, str]) -> str | None:
    """Where the source of a name is shown, seen from a page of docs/api or docs/strategies."""
    found: Any = import_module(info["module"])
    try:
        for part in info["fullname"].split("."):
            found = getattr(found, part)
        found = inspect.unwrap(getattr(found, "fget", found))
        file, (_, line) = Path(inspect.getsourcefile(found) or ""), inspect.getsourcelines(found)
    except (AttributeError, TypeError, OSError):  # a field of a class, a constant
        return None
    page = page_of(file.resolve().relative_to(ROOT).as_posix())
    return f"../../{page}.html#line-{line}" if page else None


def read_as_markdown(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Read docstrings as they are written: `code`, paths of pages, and no other character that means something."""
    parts = re.split(r"(`[^`]+`|docs/[\w/-]+\.md)", "\n".join(lines))
    for number, part in enumerate(parts):
        if number % 2 == 0:
            parts[number] = re.sub(r"([|*])", r"\\\1", part)
        else:
            parts[number] = f":doc:`/{part[:-3]}`" if part.endswith(".md") else f"`{part}`"
    lines[:] = "".join(parts).split("\n")


def name_types(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, arguments: str | None, result: str | None
) -> tuple[str | None, str | None]:
    """Types as the code names them: without their modules, except for those that are always written with theirs."""

    def shorten(text: str) -> str:
        text = text.replace("numpy.random._generator.", "np.random.").replace("numpy.", "np.")
        return re.sub(r"\b(?!np\.|random\.|torch\.device)(?:[A-Za-z_]\w*\.)+(?=[A-Z])", "", text)

    return arguments and shorten(arguments), result and shorten(result)


def add_reference(app: Sphinx, page: str, content: list[str]) -> None:
    """End the page of a strategy with the classes behind its names, and that of integrations with every module."""
    if page.startswith("docs/strategies/"):
        made = [getattr(new, "func", new) for name, new in STRATEGIES.items() if module_of(name) == Path(page).name]
        if names := dict.fromkeys(f"{strategy.__module__}.{strategy.__qualname__}" for strategy in made):
            content[0] += "\n## In Python\n" + "".join(map(directive, ["autoclass"] * len(names), names))
    if page == "docs/api/integrations":
        for module in iter_modules([str(ROOT / "src" / "understudy" / "integrations")]):
            content[0] += f"\n## `{module.name}`\n{directive('automodule', f'understudy.integrations.{module.name}')}"


def directive(kind: str, name: str) -> str:
    return f"\n```{{eval-rst}}\n.. {kind}:: {name}\n```\n"


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Navigation)
    app.add_transform(LinksToFiles)
    app.add_transform(AlignedFormulas)
    app.connect("build-finished", show_files)
    app.connect("build-finished", copy_mathjax)
    app.connect("build-finished", start_page)
    app.connect("source-read", add_reference)
    app.connect("autodoc-process-docstring", read_as_markdown)
    app.connect("autodoc-process-signature", name_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
