// What the items on the map are coloured by: class, confidence or state; and the colours, which show on light and dark.

export type Rgb = readonly [number, number, number];
export type ColourBy = "class" | "confidence" | "state";
/** A group of the legend: its items have one colour. */
export interface Group {
  key: number; // a class, a range of confidence or a state
  name: string;
  colour: Rgb;
  count: number;
}

export const NOTHING = -1; // the group of items without a class or a confidence
const GREY: Rgb = [138, 136, 128];
// Ten that also those tell apart who see no red or no green; further classes take them again, darker and lighter.
const OF_CLASSES = "#0072b2 #d55e00 #009e73 #cc79a7 #c79a00 #56b4e9 #8c3b12 #7b4fc9 #5a7d00 #e0457b".split(" ");
const OF_CONFIDENCE = "#5b2a86 #3b5b92 #21918c #5ec962 #d8b70a".split(" "); // unsure to sure
const RANGES: readonly [number, string][] = [
  [50, "below 50%"],
  [70, "50–70%"],
  [90, "70–90%"],
  [99, "90–99%"],
  [101, "99% or more"],
];
export const LABELLED = 1;
const STATES: readonly { bit: number; name: string; colour: string }[] = [
  { bit: 8, name: "bad item", colour: "#b3261e" }, // the first that an item is in counts
  { bit: 32, name: "disputed", colour: "#cc79a7" },
  { bit: 16, name: "flagged", colour: "#c79a00" },
  { bit: LABELLED, name: "labelled", colour: "#0072b2" },
  { bit: 4, name: "don’t know", colour: "#7b4fc9" },
  { bit: 2, name: "skipped", colour: "#8c3b12" },
  { bit: 0, name: "not labelled", colour: "#8a8880" },
];

/** What the server says of each item: its label, or else its suggestion; how sure that is; and a bit for each state. */
export class Planes {
  readonly classes: Int32Array; // -1: none
  readonly confidence: Uint8Array; // hundredths; 255: none
  readonly states: Uint8Array;

  constructor(bytes: ArrayBuffer, count: number) {
    const width = count === 0 ? 1 : bytes.byteLength / count - 2;
    if (width !== 1 && width !== 2) throw new Error(`${bytes.byteLength} bytes cannot be the colours of ${count} items`);
    const view = new DataView(bytes);
    const none = 256 ** width - 1;
    this.classes = Int32Array.from({ length: count }, (_, item) => {
      const found = width === 1 ? view.getUint8(item) : view.getUint16(2 * item, true);
      return found === none ? NOTHING : found;
    });
    this.confidence = new Uint8Array(bytes, width * count, count);
    this.states = new Uint8Array(bytes, (width + 1) * count, count);
  }

  isLabelled(item: number): boolean {
    return ((this.states[item] ?? 0) & LABELLED) !== 0;
  }

  /** The group of each item. */
  groups(by: ColourBy): Int32Array {
    if (by === "class") return this.classes;
    const values = by === "confidence" ? this.confidence : this.states;
    const table = Int32Array.from({ length: 256 }, (_, value) =>
      by === "confidence" ? rangeOf(value) : STATES.findIndex(({ bit }) => bit === 0 || (value & bit) !== 0),
    );
    return Int32Array.from(values, (value) => table[value] ?? NOTHING);
  }
}

const rangeOf = (hundredths: number) =>
  hundredths === 255 ? NOTHING : RANGES.findIndex(([below]) => hundredths < below);

/** The groups that have items, in the order of the classes, ranges or states; those without a value last. */
export function legend(
  groups: Int32Array,
  by: ColourBy,
  classes: { order: readonly number[]; name: (n: number) => string; colour: (n: number) => string | null | undefined },
  paper: Rgb,
): Group[] {
  const counts = new Map<number, number>();
  for (const key of groups) counts.set(key, (counts.get(key) ?? 0) + 1);
  const known = by === "class" ? classes.order : (by === "confidence" ? RANGES : STATES).map((_, i) => i);
  const keys = [...known.filter((key) => counts.has(key)), ...[...counts.keys()].filter((key) => !known.includes(key))];
  const last = keys.filter((key) => key !== NOTHING).concat(counts.has(NOTHING) ? [NOTHING] : []);
  return last.map((key) => ({
    key,
    count: counts.get(key) ?? 0,
    name: key === NOTHING ? (by === "class" ? "none yet" : "none") : nameOf(key, by, classes.name),
    colour: showOn(paper, key === NOTHING ? GREY : colourOf(key, by, classes.colour)),
  }));
}

function nameOf(key: number, by: ColourBy, className: (n: number) => string): string {
  if (by === "class") return className(key);
  return (by === "confidence" ? RANGES[key]?.[1] : STATES[key]?.name) ?? "";
}

function colourOf(key: number, by: ColourBy, own: (n: number) => string | null | undefined): Rgb {
  if (by === "confidence") return rgbOf(OF_CONFIDENCE[key] ?? "");
  if (by === "state") return rgbOf(STATES[key]?.colour ?? "");
  const given = own(key);
  if (given) return rgbOf(given);
  const round = Math.floor(key / OF_CLASSES.length) % 3; // as it is, lighter, darker
  return mix(rgbOf(OF_CLASSES[key % OF_CLASSES.length] ?? ""), round === 1 ? [255, 255, 255] : [0, 0, 0], round ? 0.35 : 0);
}

/** "#1f77b4" as three numbers; grey where it is something else. */
export function rgbOf(hex: string): Rgb {
  const digits = /^#([0-9a-f]{6})$/i.exec(hex)?.[1];
  if (!digits) return GREY;
  return [0, 2, 4].map((at) => parseInt(digits.slice(at, at + 2), 16)) as unknown as Rgb;
}

export const cssOf = ([r, g, b]: Rgb) => `rgb(${r} ${g} ${b})`;
const mix = (a: Rgb, b: Rgb, share: number) =>
  a.map((value, i) => Math.round(value + share * ((b[i] ?? 0) - value))) as unknown as Rgb;

function light([r, g, b]: Rgb): number {
  const linear = (value: number) => ((value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
}

/** How far two colours differ in lightness: 1 to 21. */
export function contrast(a: Rgb, b: Rgb): number {
  const [one, other] = [light(a), light(b)];
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}

/** The colour, or as much lighter or darker as it takes to be seen on this paper. */
export function showOn(paper: Rgb, colour: Rgb, least = 2.4): Rgb {
  const away: Rgb = light(paper) > 0.2 ? [0, 0, 0] : [255, 255, 255];
  let found = colour;
  for (let share = 0.1; contrast(found, paper) < least && share < 1; share += 0.1) found = mix(colour, away, share);
  return found;
}
