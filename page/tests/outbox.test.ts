import { describe, expect, it } from "vitest";
import { Outbox } from "../src/outbox.ts";
import { MemoryStorage } from "./browser.ts";

const wish = (key: string, item = 1) => ({
  key,
  path: "api/labels",
  body: { item, key },
  item,
  id: `item-${item}`,
  words: "cat",
});
const keys = (box: Outbox) => box.mine().map((entry) => entry.key);

describe("the outbox", () => {
  it("keeps decisions in the order they were made, whatever their keys", () => {
    const box = new Outbox(new MemoryStorage(), "p", "t");
    for (const key of ["z", "a", "m"]) box.add(wish(key));
    expect(keys(box)).toEqual(["z", "a", "m"]);
  });

  it("is still there after a reload, and the new tab sends what the old one left", () => {
    const storage = new MemoryStorage();
    const before = new Outbox(storage, "p", "old");
    before.add(wish("a"));
    before.add(wish("b"));
    const after = new Outbox(storage, "p", "new");
    expect(keys(after)).toEqual([]);
    expect(after.otherTabs()).toEqual(["old"]);
    after.adopt("old");
    after.add(wish("c"));
    expect(keys(after)).toEqual(["a", "b", "c"]);
    expect(keys(before)).toEqual([]);
    expect(after.mine()[0]?.tries).toBe(1); // nobody knows whether the old tab had sent it
  });

  it("keeps the decisions of another project apart", () => {
    const storage = new MemoryStorage();
    new Outbox(storage, "p", "t").add(wish("a"));
    expect(new Outbox(storage, "q", "t").entries()).toEqual([]);
  });

  it("goes on in memory when the browser's storage is full", () => {
    const storage = new MemoryStorage();
    const box = new Outbox(storage, "p", "t");
    box.add(wish("a"));
    storage.full = true;
    box.add(wish("b"));
    expect(keys(box)).toEqual(["a", "b"]);
    expect(box.isVolatile).toBe(true);
    box.mine().forEach((entry) => box.remove(entry));
    expect(keys(box)).toEqual([]);
  });

  it("keeps what was refused until it is cleared", () => {
    const box = new Outbox(new MemoryStorage(), "p", "t");
    box.refuse(box.add(wish("a")), "there is no such item");
    expect(keys(box)).toEqual([]);
    expect(box.refused().map((lost) => lost.reason)).toEqual(["there is no such item"]);
    box.forgetRefused();
    expect(box.refused()).toEqual([]);
  });
});
