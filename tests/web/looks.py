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
}).map((e) => e.outerHTML.slice(0, 200))"""

# Whether the element that has the focus shows it.
FOCUS: Final = """() => {
  const e = document.activeElement;
  const style = getComputedStyle(e);
  const shows = (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none";
  return { name: e.dataset.testid ?? e.id ?? e.tagName, shows };
}"""
