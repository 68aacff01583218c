"""Small pictures of objects for notebooks: a few lines of HTML with SVG, legible on light and dark pages.

Whatever is written is escaped. Drawing reads what is known already; it neither trains nor predicts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Final, NamedTuple

from markupsafe import Markup

MAX_BARS: Final = 10  # classes with a bar of their own
MAX_NAME: Final = 40  # characters
MAX_TEXT: Final = 140  # characters
MAX_CAPTION: Final = 11  # characters below a picture

# Middle tones, which stand out against white and black alike; whatever else is drawn has the colour of the text.
BLUE, ORANGE, GREEN, GREY = "#3b82c4", "#d9730d", "#17976b", "#8b949e"
LINE_COLOURS: Final = (ORANGE, BLUE, GREEN, "#c264a0", GREY, "#8f6fc9", "#5aa9d6", "#b8860b")
WIDTH, HEIGHT = 300, 120  # pixels of a chart
LEFT, TOP, RIGHT, BOTTOM = 38, 8, 6, 22  # pixels around its lines

CARD: Final = (
    "font:13px/1.45 system-ui,-apple-system,'Segoe UI',sans-serif;color:inherit;max-width:640px;padding:10px 12px;"
    "border:1px solid rgba(128,128,128,.35);border-radius:8px;margin:4px 0;text-align:left"
)
SOFT: Final = "opacity:.7"
TABLE: Final = "border-collapse:collapse;border:0;font-size:12px;color:inherit;font-variant-numeric:tabular-nums"
ONE_LINE: Final = "overflow:hidden;text-overflow:ellipsis;white-space:nowrap"


class Share(NamedTuple):
    """A part of a whole: what it is, how many there are, and its colour."""

    name: str
    number: int
    colour: str


class Line(NamedTuple):
    """A curve: how many labels, and a share from 0 to 1 at each."""

    labels: Sequence[float]
    shares: Sequence[float]


@dataclass(frozen=True)
class Sample:
    """One item of a pool: a picture as a data URI, or a text; below it its class, where it is known."""

    caption: str
    picture: str | None = None
    text: str = ""


def draw_safely(draw: Callable[[], Markup]) -> str | None:
    """What is drawn as HTML. None where that fails: the notebook then shows the plain text."""
    try:
        return str(draw())
    except Exception:  # a picture is never worth an error
        return None


def draw_card(title: str, facts: Sequence[str], *parts: Markup) -> Markup:
    """A frame with a title, some facts beside it, and these parts below each other."""
    subtitle = " · ".join(_cut(fact) for fact in facts)
    head = _format('<div><b>{}</b> <span style="{}">{}</span></div>', title, SOFT, subtitle)
    return _format('<div style="{}">{}{}</div>', CARD, head, _join(parts))


def draw_beside(*parts: Markup) -> Markup:
    """Parts beside each other; below each other where there is no room."""
    cells = _join(_format('<div style="flex:1 1 240px;min-width:0">{}</div>', part) for part in parts if part)
    return _format('<div style="display:flex;flex-wrap:wrap;gap:2px 24px">{}</div>', cells)


def draw_note(text: str) -> Markup:
    return _format('<div style="{};margin-top:6px">{}</div>', SOFT, text)


def draw_shares(shares: Sequence[Share], total: int) -> Markup:
    """One bar whose pieces are these shares of a total, named below with their numbers."""
    first, pieces, names = 0.0, [], []
    for share in (share for share in shares if share.number):
        width = max(100 * share.number / max(total, 1), 0.6)
        pieces.append(_format('<rect x="{:.2f}%" width="{:.2f}%" height="10" fill="{}"/>', first, width, share.colour))
        names.append(_format("{}{:,} {}", _swatch(share.colour), share.number, share.name))
        first += width
    bar = _format(
        '<svg width="100%" height="10" role="img" aria-label="{}" style="display:block;margin:8px 0 3px">'
        '<rect width="100%" height="10" fill="currentColor" fill-opacity=".13"/>{}</svg>',
        ", ".join(f"{share.number:,} {share.name}" for share in shares),
        _join(pieces),
    )
    return bar + _format("<div>{}</div>", Markup(" &nbsp; ").join(names)) if names else bar


def draw_class_counts(counts: Sequence[int], names: Sequence[Any], title: str) -> Markup:
    """A bar for each class; of many only the largest. Nothing if all are 0."""
    if not any(counts):
        return Markup()
    order = list(range(len(counts)))
    if len(order) > MAX_BARS:
        order = sorted(order, key=lambda place: -counts[place])[: MAX_BARS - 1]
    rows = [_class_row(str(names[place]), counts[place], max(counts)) for place in order]
    table = _format('<table style="{};width:100%;margin:2px 0 0">{}</table>', TABLE, _join(rows))
    rest = len(counts) - len(order)
    others = sum(counts) - sum(counts[place] for place in order)
    return _heading(title) + table + (draw_note(f"{rest:,} more classes with {others:,} in all") if rest else Markup())


def _class_row(name: str, count: int, most: int) -> Markup:
    return _format(
        '<tr style="background:none">'
        '<td style="text-align:left;padding:1px 8px 1px 0;border:0;max-width:130px;{}">{}</td>'
        '<td style="width:100%;padding:1px 0;border:0"><svg width="100%" height="9" style="display:block">'
        '<rect width="{:.2f}%" height="9" rx="2" fill="{}"/></svg></td>'
        '<td style="text-align:right;padding:1px 0 1px 8px;border:0">{:,}</td></tr>',
        ONE_LINE, _cut(name), 100 * count / most, BLUE, count,
    )  # fmt: skip


def draw_curves(lines: Mapping[str, Line], title: str, below: str = "labels") -> Markup:
    """Shares over numbers of labels, a line each. The axes hold what there is and no more; nothing without a point."""
    lines = {name: line for name, line in lines.items() if len(line.labels)}
    if not lines:
        return Markup()
    every = [share for line in lines.values() for share in line.shares]
    low, high = max(0.0, min(every) - 0.02), min(1.0, max(every) + 0.02)
    first, last = (end(at for line in lines.values() for at in line.labels) for end in (min, max))
    left = first if last > first else last - 1  # a single point lies above its number, at the right
    across, up = (WIDTH - LEFT - RIGHT) / (last - left), (HEIGHT - TOP - BOTTOM) / ((high - low) or 1)
    shapes = [_axes((low, high), (first, last), below)]
    for line, colour in zip(lines.values(), cycle(LINE_COLOURS), strict=False):
        points = [
            (LEFT + (x - left) * across, HEIGHT - BOTTOM - (y - low) * up)
            for x, y in zip(line.labels, line.shares, strict=True)
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        shapes.append(
            _format(
                '<polyline points="{}" fill="none" stroke="{}" stroke-width="1.8" stroke-linejoin="round"/>',
                path,
                colour,
            )
        )
        shapes.append(_format('<circle cx="{:.1f}" cy="{:.1f}" r="2.6" fill="{}"/>', *points[-1], colour))
    return _heading(title) + _format(
        '<svg viewBox="0 0 {} {}" style="display:block;width:100%;max-width:{}px" role="img" aria-label="{}">{}</svg>',
        WIDTH, HEIGHT, WIDTH, f"{title}: {', '.join(lines)}", _join(shapes),
    )  # fmt: skip


def _axes(shares: tuple[float, float], labels: tuple[float, float], below: str) -> Markup:
    text = '<text x="{}" y="{}" text-anchor="{}" font-size="10" fill="currentColor" fill-opacity=".75">{}</text>'
    line = '<line x1="{}" x2="{}" y1="{}" y2="{}" stroke="currentColor" stroke-opacity=".22"/>'
    end, foot, (low, high), (first, last) = WIDTH - RIGHT, HEIGHT - BOTTOM, shares, labels
    return _join(
        [
            *(_format(line, LEFT, end, y, y) for y in (TOP, foot)),
            _format(text, LEFT - 4, TOP + 4, "end", f"{100 * high:.0f} %"),
            _format(text, LEFT - 4, foot + 3, "end", f"{100 * low:.0f} %"),
            _format(text, LEFT, HEIGHT - 8, "start", f"{first:,.0f}" if last > first else ""),
            _format(text, end, HEIGHT - 8, "end", f"{last:,.0f} {below}"),
        ]
    )


def draw_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A table of curves: the first column names them, beside the colour of their line; the others are numbers."""
    lines = [_table_row("th", "", head)]
    for cells, colour in zip(rows, cycle(LINE_COLOURS), strict=False):
        lines.append(_table_row("td", _swatch(colour), cells))
    return _format('<table style="{};margin:8px 0 0">{}</table>', TABLE, _join(lines))


def _table_row(kind: str, mark: str, cells: Sequence[str]) -> Markup:
    first = Markup('<{kind} style="text-align:left;padding:1px 0;border:0;background:none">{mark}{text}</{kind}>')
    other = Markup('<{kind} style="text-align:right;padding:1px 0 1px 14px;border:0;background:none">{text}</{kind}>')
    texts = [first.format(kind=kind, mark=mark, text=_cut(cells[0]))]
    texts += [other.format(kind=kind, text=text) for text in cells[1:]]
    return _format('<tr style="background:none">{}</tr>', _join(texts))


def draw_samples(samples: Sequence[Sample]) -> Markup:
    """A few items: pictures beside each other with their class below, or texts line by line."""
    pictures = [sample for sample in samples if sample.picture is not None]
    if not pictures:
        return _join(
            _format(
                '<div style="margin-top:4px;overflow-wrap:anywhere">{} <span style="{}">{}</span></div>',
                _cut(sample.text, MAX_TEXT), SOFT, f"– {_cut(sample.caption)}" if sample.caption else "",
            )
            for sample in samples
        )  # fmt: skip
    figures = _join(
        _format(
            '<div style="width:64px;text-align:center;font-size:11px"><img src="{}" alt="{}" '
            'style="width:64px;height:64px;object-fit:contain;margin:0"><div style="{};{}">{}</div></div>',
            sample.picture, sample.caption, ONE_LINE, SOFT, _cut(sample.caption, MAX_CAPTION),
        )
        for sample in pictures
    )  # fmt: skip
    return _format('<div style="display:flex;flex-wrap:wrap;gap:8px;margin-top:8px">{}</div>', figures)


def _heading(text: str) -> Markup:
    return _format('<div style="margin-top:8px;font-size:12px;font-weight:600">{}</div>', text)


def _swatch(colour: str) -> Markup:
    return _format('<span style="color:{}">&#9632;</span> ', colour)


def _cut(text: str, most: int = MAX_NAME) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _format(template: str, *values: Any) -> Markup:
    """The template, which is HTML, with these values, which are escaped unless they are HTML already."""
    return Markup(template).format(*values)


def _join(parts: Any) -> Markup:
    return Markup().join(parts)
