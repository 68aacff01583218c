// Where things are on the map of the pool: the part that is seen, the nearest item, what lies inside a lasso.

export type Corner = readonly [number, number];
export const STEPS = 65535; // in which the server tells places, along each axis
export const MAX_CORNERS = 64; // of a lasso
const FURTHEST = 0.5; // of the map that fits the window
const CLOSEST = 400;

/** Which part of the map is seen: a place (x, y) from 0 to 1 is drawn at (left + x * scale, top + y * scale). */
export interface Seen {
  left: number;
  top: number;
  scale: number;
}

/** The whole map in the middle of a window. */
export function fit(width: number, height: number, margin = 24): Seen {
  const scale = Math.max(40, Math.min(width, height) - 2 * margin);
  return { left: (width - scale) / 2, top: (height - scale) / 2, scale };
}

/** Closer or further by this factor; what is under (x, y) stays there. */
export function zoom(seen: Seen, factor: number, x: number, y: number, fitting: number): Seen {
  const scale = Math.min(Math.max(seen.scale * factor, FURTHEST * fitting), CLOSEST * fitting);
  const real = scale / seen.scale;
  return { scale, left: x - (x - seen.left) * real, top: y - (y - seen.top) * real };
}

/** Moved, but never so far that the map leaves the window. */
export function pan(seen: Seen, dx: number, dy: number, width: number, height: number): Seen {
  const held = (start: number, size: number) =>
    Math.min(Math.max(start, size / 2 - seen.scale), Math.max(size / 2, size / 2 - seen.scale));
  return { ...seen, left: held(seen.left + dx, width), top: held(seen.top + dy, height) };
}

export const toMap = (seen: Seen, x: number, y: number): Corner => [(x - seen.left) / seen.scale, (y - seen.top) / seen.scale];
export const toScreen = (seen: Seen, [x, y]: Corner): Corner => [seen.left + x * seen.scale, seen.top + y * seen.scale];

/** Items by the cell of a grid that they lie in, to find the nearest one without looking at all. */
export class Places {
  readonly count: number;
  private readonly side: number;
  private readonly starts: Uint32Array;
  private readonly members: Uint32Array;

  constructor(readonly steps: Uint16Array) {
    this.count = steps.length / 2;
    this.side = Math.max(1, Math.min(256, Math.ceil(Math.sqrt(this.count / 2))));
    const cells = new Uint32Array(this.count);
    this.starts = new Uint32Array(this.side ** 2 + 1);
    for (let item = 0; item < this.count; item++) {
      const cell = this.line(this.y(item)) * this.side + this.line(this.x(item));
      cells[item] = cell;
      this.starts[cell + 1] = (this.starts[cell + 1] ?? 0) + 1;
    }
    for (let cell = 0; cell < this.side ** 2; cell++)
      this.starts[cell + 1] = (this.starts[cell + 1] ?? 0) + (this.starts[cell] ?? 0);
    const next = this.starts.slice();
    this.members = new Uint32Array(this.count);
    for (let item = 0; item < this.count; item++) {
      const cell = cells[item] ?? 0;
      this.members[next[cell] ?? 0] = item;
      next[cell] = (next[cell] ?? 0) + 1;
    }
  }

  x(item: number): number {
    return (this.steps[2 * item] ?? 0) / STEPS;
  }

  y(item: number): number {
    return (this.steps[2 * item + 1] ?? 0) / STEPS;
  }

  /** The item nearest to a place, no further than this; null where there is none. `takes`: whether an item counts. */
  nearest(x: number, y: number, within: number, takes: (item: number) => boolean = () => true): number | null {
    let found: number | null = null;
    let least = within ** 2;
    for (let row = this.line(y - within); row <= this.line(y + within); row++)
      for (let column = this.line(x - within); column <= this.line(x + within); column++) {
        const cell = row * this.side + column;
        for (let at = this.starts[cell] ?? 0; at < (this.starts[cell + 1] ?? 0); at++) {
          const item = this.members[at] ?? 0;
          const far = (this.x(item) - x) ** 2 + (this.y(item) - y) ** 2;
          if (far <= least && takes(item)) [found, least] = [item, far];
        }
      }
    return found;
  }

  /** How many items lie inside a polygon: by the same rule as on the server, to the last one. */
  countInside(corners: readonly Corner[]): number {
    const xs = corners.map(([x]) => x);
    const ys = corners.map(([, y]) => y);
    const [low, high, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    let count = 0;
    for (let item = 0; item < this.count; item++) {
      const [x, y] = [this.x(item), this.y(item)];
      if (x >= low && x <= high && y >= top && y <= bottom && isInside(x, y, corners)) count++;
    }
    return count;
  }

  private line(place: number): number {
    return Math.min(this.side - 1, Math.max(0, Math.floor(place * this.side)));
  }
}

/** Whether a ray to the right crosses the border of a polygon an odd time. */
export function isInside(x: number, y: number, corners: readonly Corner[]): boolean {
  let inside = false;
  for (let i = 0; i < corners.length; i++) {
    let [x0, y0] = corners[i] as Corner;
    let [x1, y1] = corners[(i + 1) % corners.length] as Corner;
    if (y0 > y1) [x0, y0, x1, y1] = [x1, y1, x0, y0]; // as the server does, so that rounding is the same too
    if (y0 > y !== y1 > y && x < x0 + ((y - y0) * (x1 - x0)) / (y1 - y0)) inside = !inside;
  }
  return inside;
}

/** The corners of a drawn line that matter: those further than this from the line between their neighbours. */
function straighten(line: readonly Corner[], tolerance: number): Corner[] {
  const keep = new Uint8Array(line.length);
  keep[0] = keep[line.length - 1] = 1;
  const open: [number, number][] = [[0, line.length - 1]];
  for (let part = open.pop(); part; part = open.pop()) {
    const [from, to] = part;
    let [furthest, far] = [-1, tolerance];
    for (let i = from + 1; i < to; i++) {
      const gap = gapTo(line[i] as Corner, line[from] as Corner, line[to] as Corner);
      if (gap > far) [furthest, far] = [i, gap];
    }
    if (furthest < 0) continue;
    keep[furthest] = 1;
    open.push([from, furthest], [furthest, to]);
  }
  return line.filter((_, i) => keep[i]);
}

/** How far a place is from the stretch between two others. */
function gapTo([x, y]: Corner, [x0, y0]: Corner, [x1, y1]: Corner): number {
  const [dx, dy] = [x1 - x0, y1 - y0];
  const length = dx * dx + dy * dy;
  const along = length === 0 ? 0 : Math.min(1, Math.max(0, ((x - x0) * dx + (y - y0) * dy) / length));
  return Math.hypot(x - x0 - along * dx, y - y0 - along * dy);
}

/** A lasso of at most 64 corners with five decimals each, from the line that was drawn on the map; [] if it is none. */
export function lassoOf(drawn: readonly Corner[], tolerance: number): Corner[] {
  let corners = drawn.map(([x, y]): Corner => [round(x), round(y)]);
  for (let gap = tolerance; corners.length > MAX_CORNERS || gap === tolerance; gap *= 1.5)
    corners = straighten(corners, gap);
  return corners.length < 3 ? [] : corners;
}

const round = (value: number) => Math.round(Math.min(9, Math.max(-9, value)) * 1e5) / 1e5;

/** As it stands in an address: x,y;x,y;x,y. */
export const lassoText = (corners: readonly Corner[]) => corners.map(([x, y]) => `${x},${y}`).join(";");
