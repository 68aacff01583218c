"""Questions about what a page looks like, asked inside it: names, contrast, room, motion."""

from typing import Final

# Controls without a name that could be read aloud, and pictures without words.
NAMELESS: Final = """() => {
  const name = (e) => e.getAttribute("aria-label") || e.innerText?.trim() || e.title
    || [...(e.labels ?? [])].map((label) => label.innerText).join("") || e.querySelector("img[alt]")?.alt;
  const bad = [...document.querySelectorAll("button, a, input, select, [role=button], [role=dialog], dialog, nav")]
    .filter((e) => e.checkVisibility() && !name(e));
  const mute = [...document.querySelectorAll("img")].filter((e) => !e.hasAttribute("alt"));
  return [...bad, ...mute].map((e) => e.outerHTML.slice(0, 120));
}"""

# Text whose colour differs too little from what lies behind it: below 4.5, or 3 where it is large.
PALE: Final = """() => {
  const ctx = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    ctx.clearRect(0, 0, 1, 1);
    ctx.fillStyle = colour;
    ctx.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = ctx.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], under) => [r, g, b].map((c, i) => c * a + under[i] * (1 - a));
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor));
    return layers.reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true })) continue;
    if (e.closest("[disabled], [aria-disabled=true], [aria-hidden=true], .unseen, title")) continue;
    const style = getComputedStyle(e);
    let alpha = 1;
    for (let at = e; at; at = at.parentElement) alpha *= Number(getComputedStyle(at).opacity);
    const ground = behind(e);
    const ink = rgba(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [light(over([ink[0], ink[1], ink[2], ink[3] * alpha], ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const words = e.textContent.trim().slice(0, 40);
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)} ${e.className} “${words}”`);
  }
  return found;
}"""

# What reaches beyond the right edge of the window, but for what is meant to be pushed along in a strip of its own.
STICKS_OUT: Final = """() => {
  const inStrip = (e) => {
    for (let at = e.parentElement; at && at.id !== "main"; at = at.parentElement)
      if (/auto|scroll/.test(getComputedStyle(at).overflowX) && at.tagName !== "DIALOG") return true;
    return false;
  };
  return [...document.querySelectorAll("button, a, p, h1, h2, img, input, td, .stat, .banner")]
    .filter((e) => e.checkVisibility() && !e.closest(".unseen"))
    .filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !inStrip(e))
    .map((e) => "sticks out: " + e.outerHTML.slice(0, 120));
}"""

# Elements that would move, for those who asked that nothing should.
MOVING: Final = """() => [...document.querySelectorAll("*")].filter((e) => {
  const style = getComputedStyle(e);
  const lasts = (times) => times.split(",").some((time) => parseFloat(time) > 0.02);
  return lasts(style.transitionDuration) || (style.animationName !== "none" && lasts(style.animationDuration));
}).map((e) => "moves: " + e.outerHTML.slice(0, 200))"""

# Whether the element that has the focus shows it.
FOCUS: Final = """() => {
  const e = document.activeElement;
  const style = getComputedStyle(e);
  const shows = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  return { name: e.dataset.testid ?? e.id ?? e.tagName, shows };
}"""

# Words that lie over the caption of what they belong to, or reach out of their own frame.
COVERS: Final = """() => {
  const hit = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  // With what hangs out of it, where it hides nothing.
  const boxOf = (e) => {
    const { left, right, top, bottom, width } = e.getBoundingClientRect();
    const hangs = getComputedStyle(e).overflowY === "visible" ? Math.max(bottom, top + e.scrollHeight) : bottom;
    return { left, right, top, bottom: hangs, width };
  };
  const faults = [];
  for (const caption of document.querySelectorAll(".item-id, .tile-foot, figcaption")) {
    const around = caption.closest(".caption")?.parentElement.children ?? [];
    const frames = [...caption.parentElement.children, ...around]
      .filter((e) => !e.contains(caption) && e.checkVisibility());
    for (const frame of frames)
      if (hit(frame.getBoundingClientRect(), caption.getBoundingClientRect()))
        faults.push(`covers its caption “${caption.innerText}”: ` + frame.outerHTML.slice(0, 100));
  }
  const parts = [...document.querySelectorAll(".view > *, .label > *:not(dialog), .panel > *")]
    .filter((e) => e.checkVisibility());
  for (const part of parts)
    for (const other of parts)
      if (part.parentElement === other.parentElement && part.compareDocumentPosition(other) & 4
        && !part.matches(".unseen") && !other.matches(".grid-foot, .unseen")
        && hit(boxOf(part), boxOf(other)))
        faults.push("lies over what follows: " + part.outerHTML.slice(0, 60) + " | " + other.outerHTML.slice(0, 60));
  for (const e of document.querySelectorAll(".thumb-text, .text-frame p, .class-name, .bar-name, .stat"))
    if (e.checkVisibility() && e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "visible")
      if (getComputedStyle(e).display !== "inline") faults.push("reaches out: " + e.outerHTML.slice(0, 100));
  return faults;
}"""

# An item or a list of answers that is squeezed until nobody can use it.
CRUSHED: Final = """() => [[".stage", 100], [".side .classes", 80], [".tiles", 80]].flatMap(([name, least]) => {
  const height = document.querySelector(name)?.getBoundingClientRect().height;
  return height !== undefined && height < least ? [`${name} is only ${Math.round(height)} high`] : [];
})"""

# What a finger cannot hit. A box to tick is as large as the row that names it.
TOO_SMALL: Final = """() => [
  ...document.querySelectorAll("button, .button, nav a, input, select, summary, [role=option]"),
]
  .filter((e) => e.checkVisibility() && !e.closest(".unseen"))
  .map((e) => [e, (e.type === "checkbox" ? e.closest("label, .setting") ?? e : e).getBoundingClientRect()])
  .filter(([, box]) => box.width > 1 && (box.width < 43.5 || box.height < 43.5))
  .map(([e, box]) => `${Math.round(box.width)} x ${Math.round(box.height)}: ` + e.outerHTML.slice(0, 100))"""

# A page that must be pushed sideways; a window whose close button cannot be reached.
TOO_WIDE: Final = """() => {
  const faults = [];
  for (const e of [document.scrollingElement, document.getElementById("main"), document.querySelector("dialog")])
    if (e && e.scrollWidth > e.clientWidth + 1)
      faults.push(`${e.tagName} is ${e.scrollWidth} wide of ${e.clientWidth}`);
  const close = document.querySelector("dialog [aria-label=Close]")?.getBoundingClientRect();
  if (close && (close.top < 0 || close.bottom > innerHeight || close.right > innerWidth))
    faults.push("the window's close button is out of sight");
  return faults;
}"""
