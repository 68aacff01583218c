import { describe, expect, it } from "vitest";
import { NOTHING, between, callOf, hashOf, isFiltered, wantedOf } from "../src/browse.ts";

describe("the address of a list", () => {
  it("says all that is asked for, and is read back as it was written", () => {
    const wanted = {
      label: [0, 3],
      suggested: [2],
      person: "Ann & Bob",
      state: ["flagged", "disputed"],
      from: 0.25,
      to: 0.5,
      search: "50% off?",
      similar: 7,
      lasso: "0,0;1,0;1,1",
      sort: "latest",
      page: 3,
      open: 12,
    };
    expect(wantedOf(hashOf(wanted))).toEqual(wanted);
    expect(wantedOf("#/browse")).toEqual(NOTHING);
    expect(hashOf(NOTHING)).toBe("#/browse");
  });

  it("passes over what it does not understand", () => {
    expect(wantedOf("#/browse?class=cat&state=nice&from=2&to=x&page=-1&open=1e3&sort=nicest")).toEqual(NOTHING);
    expect(wantedOf("#/browse?from=0.9&to=0.1")).toEqual({ ...NOTHING, from: 0.1, to: 0.9 });
  });

  it("becomes a call for one page, or for the numbers of all items", () => {
    expect(callOf({ ...NOTHING, state: ["bad"], page: 3 }, 60)).toBe("api/items?state=bad&offset=120&limit=60");
    expect(callOf({ ...NOTHING, from: 0.5 }, 60, true)).toBe("api/items?confidence_from=0.5&offset=0&limit=1&rows=true");
  });

  it("tells a filter from an order", () => {
    expect(isFiltered({ ...NOTHING, sort: "latest", page: 2, open: 3, similar: 4 })).toBe(false);
    expect(isFiltered({ ...NOTHING, search: "cat" })).toBe(true);
  });
});

describe("a range of the list", () => {
  it("goes from one item to another in either direction", () => {
    expect(between([5, 3, 9, 1], 3, 1)).toEqual([3, 9, 1]);
    expect(between([5, 3, 9, 1], 9, 5)).toEqual([5, 3, 9]);
    expect(between([5, 3], 8, 3)).toEqual([3]);
  });
});
