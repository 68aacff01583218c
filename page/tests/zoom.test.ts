import { expect, test } from "vitest";
import type { Sizes } from "../src/zoom.ts";
import { WHOLE, fitOf, toggled, wheelFactor, within, zoomed } from "../src/zoom.ts";

// An image of 1600 x 1200 pixels, drawn as 800 x 600 in a frame of 1000 x 600.
const LARGE: Sizes = {
  frame: { width: 1000, height: 600 },
  drawn: { width: 800, height: 600 },
  pixels: { width: 1600, height: 1200 },
};
const TINY: Sizes = {
  frame: { width: 1000, height: 600 },
  drawn: { width: 288, height: 288 },
  pixels: { width: 8, height: 8 },
};
const near = (a: number, b: number) => expect(a).toBeCloseTo(b, 9);

test("what is under the pointer stays there", () => {
  const [at, first] = [{ x: 120, y: -80 }, zoomed(WHOLE, 3, { x: 0, y: 0 }, LARGE)];
  const before = { x: (at.x - first.x) / first.scale, y: (at.y - first.y) / first.scale };
  const after = zoomed(first, 1.5, at, LARGE);
  near(after.x + before.x * after.scale, at.x);
  near(after.y + before.y * after.scale, at.y);
});

test("zooming in and out again ends where it began", () => {
  const sight = zoomed(zoomed(WHOLE, 2, { x: 50, y: 40 }, LARGE), 0.5, { x: 50, y: 40 }, LARGE);
  near(sight.scale, 1);
  near(sight.x, 0);
  near(sight.y, 0);
});

test("never smaller than whole, never larger than 16 pixels a pixel or eight times", () => {
  expect(zoomed(WHOLE, 0.1, { x: 10, y: 10 }, LARGE)).toEqual(WHOLE);
  near(zoomed(WHOLE, 1e6, { x: 0, y: 0 }, LARGE).scale, 32);
  near(zoomed(WHOLE, 1e6, { x: 0, y: 0 }, TINY).scale, 8);
});

test("the frame is not left empty where the image could fill it", () => {
  const sight = within({ scale: 2, x: 5000, y: -5000 }, LARGE);
  expect(sight).toEqual({ scale: 2, x: (1600 - 1000) / 2, y: -(1200 - 600) / 2 });
  expect(within({ scale: 1.2, x: 30, y: 0 }, LARGE)).toEqual({ scale: 1.2, x: 0, y: 0 });
});

test("a double click leads to the pixels as they are, and back", () => {
  const full = toggled(WHOLE, { x: 0, y: 0 }, LARGE);
  near(full.scale * fitOf(LARGE), 1);
  expect(toggled(full, { x: 0, y: 0 }, LARGE)).toEqual(WHOLE);
  near(toggled(WHOLE, { x: 0, y: 0 }, TINY).scale, 2);
});

test("lines and pages of a wheel count as pixels, and a pinch on a trackpad in small steps", () => {
  const turn = (deltaY: number, deltaMode = 0, ctrlKey = false) => wheelFactor({ deltaY, deltaMode, ctrlKey });
  expect(turn(-100)).toBeGreaterThan(1);
  near(turn(-100) * turn(100), 1);
  near(turn(-3, 1), turn(-48));
  expect(turn(-4, 0, true)).toBeGreaterThan(turn(-4));
  near(turn(-10_000), turn(-240));
});
