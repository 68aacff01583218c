import { describe, expect, it } from "vitest";
import { LABELLED, NOTHING, Planes, contrast, legend, rgbOf, showOn } from "../src/map_colours.ts";
import type { Rgb } from "../src/map_colours.ts";
import { dotsOf } from "../src/map_data.ts";
import { MAX_CORNERS, Places, STEPS, fit, isInside, lassoOf, lassoText, pan, toMap, toScreen, zoom } from "../src/map_geometry.ts";
import type { Corner } from "../src/map_geometry.ts";

/** Numbers that look random and are the same each time. */
function numbers(seed: number) {
  return () => (seed = (seed * 16807) % 2147483647) / 2147483647;
}

function somePlaces(count: number): Places {
  const next = numbers(7);
  return new Places(Uint16Array.from({ length: 2 * count }, () => Math.floor(next() * (STEPS + 1))));
}

describe("the part of the map that is seen", () => {
  const whole = fit(800, 500);

  it("begins with the whole map in the middle", () => {
    expect(toScreen(whole, [0.5, 0.5])).toEqual([400, 250]);
    expect(toScreen(whole, [0, 0])[1]).toBeGreaterThan(0);
    expect(toScreen(whole, [1, 1])[1]).toBeLessThan(500);
  });

  it("keeps what is under the pointer in its place when it comes closer", () => {
    const before = toMap(whole, 123, 321);
    const after = toMap(zoom(whole, 3, 123, 321, whole.scale), 123, 321);
    expect(after[0]).toBeCloseTo(before[0], 10);
    expect(after[1]).toBeCloseTo(before[1], 10);
  });

  it("comes no closer and goes no further than there is something to see", () => {
    expect(zoom(whole, 1e9, 0, 0, whole.scale).scale).toBe(400 * whole.scale);
    expect(zoom(whole, 1e-9, 0, 0, whole.scale).scale).toBe(0.5 * whole.scale);
  });

  it("never leaves the map", () => {
    for (const by of [1e6, -1e6]) {
      const [x, y] = toMap(pan(whole, by, by, 800, 500), 400, 250);
      expect(Math.min(x, y)).toBeGreaterThanOrEqual(-1e-9);
      expect(Math.max(x, y)).toBeLessThanOrEqual(1 + 1e-9);
    }
  });
});

describe("places", () => {
  const places = somePlaces(500);

  it("find the nearest item, as looking at all of them does", () => {
    const next = numbers(3);
    for (let turn = 0; turn < 200; turn++) {
      const [x, y, within] = [next(), next(), next() * 0.2];
      const isOdd = (item: number) => item % 2 === 1;
      const all = Array.from({ length: 500 }, (_, item) => item)
        .filter((item) => isOdd(item) && Math.hypot(places.x(item) - x, places.y(item) - y) <= within)
        .sort((a, b) => Math.hypot(places.x(a) - x, places.y(a) - y) - Math.hypot(places.x(b) - x, places.y(b) - y));
      expect(places.nearest(x, y, within, isOdd)).toBe(all[0] ?? null);
    }
  });

  it("count what is inside a polygon", () => {
    const corners: Corner[] = [
      [0.1, 0.2],
      [0.9, 0.1],
      [0.4, 0.5],
      [0.8, 0.9],
    ];
    const all = Array.from({ length: 500 }, (_, item) => item);
    expect(places.countInside(corners)).toBe(all.filter((i) => isInside(places.x(i), places.y(i), corners)).length);
    expect(places.countInside(corners)).toBeGreaterThan(0);
  });

  it("of none can be asked too", () => {
    expect(new Places(new Uint16Array()).nearest(0.5, 0.5, 1)).toBe(null);
  });
});

describe("a lasso", () => {
  const circle = Array.from({ length: 900 }, (_, i): Corner => [
    0.5 + 0.3 * Math.cos(i / 143.2),
    0.5 + 0.3 * Math.sin(i / 143.2),
  ]);

  it("has at most 64 corners and encloses nearly what was drawn", () => {
    const corners = lassoOf(circle, 1e-6);
    expect(corners.length).toBeLessThanOrEqual(MAX_CORNERS);
    expect(corners.length).toBeGreaterThan(20);
    const places = somePlaces(2000);
    expect(Math.abs(places.countInside(corners) - places.countInside(circle))).toBeLessThan(10);
  });

  it("that is a click or a line is none", () => {
    expect(lassoOf([[0.5, 0.5]], 0.01)).toEqual([]);
    expect(
      lassoOf(
        [
          [0, 0],
          [0.1, 0.1],
          [0.3, 0.3],
        ],
        0.01,
      ),
    ).toEqual([]);
  });

  it("is written as x,y;x,y", () => {
    expect(
      lassoText([
        [0.25, 1],
        [-0.5, 0],
      ]),
    ).toBe("0.25,1;-0.5,0");
  });
});

describe("colours", () => {
  const names = { order: [1, 0], name: (n: number) => `class ${n}`, colour: (n: number) => (n === 0 ? "#ffff00" : null) };
  const bytes = Uint8Array.from([1, 255, 0, 1, /* */ 95, 255, 40, 99, /* */ LABELLED, 0, LABELLED | 16, 8]);
  const planes = new Planes(bytes.buffer, 4);

  it("are read from bytes of one or two for a class", () => {
    expect([...planes.classes]).toEqual([1, NOTHING, 0, 1]);
    const wide = Uint8Array.from([44, 1, 255, 255, 95, 255, 1, 0]);
    expect([...new Planes(wide.buffer, 2).classes]).toEqual([300, NOTHING]);
    expect(() => new Planes(bytes.buffer, 5)).toThrow("cannot be the colours of 5 items");
  });

  it("group items by class, confidence and state", () => {
    const counts = (by: "class" | "confidence" | "state") =>
      legend(planes.groups(by), by, names, [255, 255, 255]).map(({ name, count }) => `${name} ${count}`);
    expect(counts("class")).toEqual(["class 1 2", "class 0 1", "none yet 1"]);
    expect(counts("confidence")).toEqual(["below 50% 1", "90–99% 1", "99% or more 1", "none 1"]);
    expect(counts("state")).toEqual(["bad item 1", "flagged 1", "labelled 1", "not labelled 1"]);
  });

  it("show on light and on dark, those that people chose as well", () => {
    for (const paper of [[247, 246, 243], [22, 22, 21]] as Rgb[])
      for (const { colour } of legend(planes.groups("class"), "class", names, paper))
        expect(contrast(colour, paper)).toBeGreaterThanOrEqual(2.4);
    expect(showOn([22, 22, 21], rgbOf("#ffff00"))).toEqual([255, 255, 0]);
  });

  it("have labelled items in front, and what the legend leaves out behind", () => {
    const data = { shown: {} as never, places: somePlaces(4), planes };
    const shades = new Map<number, Rgb>([[1, [1, 2, 3]]]);
    expect([...dotsOf(data, planes.groups("class"), shades, null).order]).toEqual([1, 3, 0, 2]);
    const alone = dotsOf(data, planes.groups("class"), shades, 1);
    expect([...alone.order]).toEqual([1, 2, 3, 0]);
    expect([...alone.isLarge]).toEqual([1, 0, 0, 0]);
    expect([...alone.colours.slice(0, 4)]).toEqual([1, 2, 3, 255]);
  });
});
