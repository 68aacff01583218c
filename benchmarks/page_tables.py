"""Tables on a page of docs/: each stands between two marks, and is made from kept results."""

from collections.abc import Callable, Mapping, Sequence

from understudy.experiments.metrics import signed_text


def markdown_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: str = "---:") -> str:
    """A table in Markdown; `numbers` is the alignment of all columns but the first."""
    lines = [heads, ["---", *[numbers] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)


def signed(value: float, digits: int = 2) -> str:
    """A number with its own sign, also where it rounds to nothing: as the package's tables have it, with a minus."""
    return signed_text(value, digits).replace("-", "−")


def table_on(page: str, name: str) -> str:
    """What stands between the marks of a table."""
    start, end = _marks(name)
    if page.count(start) != 1 or page.count(end) != 1:
        raise ValueError(f"the page must have one {start} and one {end}")
    return page.split(start)[1].split(end)[0].strip()


def fill_tables(page: str, tables: Mapping[str, Callable[[], str]]) -> str:
    """The page with each of these tables made again."""
    for name, make in tables.items():
        table_on(page, name)  # an error where its marks are missing
        start, end = _marks(name)
        before, rest = page.split(start)
        page = f"{before}{start}\n{make()}\n{end}{rest.split(end)[1]}"
    return page


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name} -->", f"<!-- end of {name} -->"
