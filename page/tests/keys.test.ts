import { describe, expect, it } from "vitest";
import { ACTIONS, classKeys, classOfKey, classRows, keyOf, nameOf } from "../src/keys.ts";

const press = (
  key: string,
  code = "",
  with_: Partial<Record<"shiftKey" | "ctrlKey" | "metaKey" | "altKey", boolean>> = {},
) => nameOf({ key, code, shiftKey: false, ctrlKey: false, metaKey: false, altKey: false, ...with_ });

describe("keys", () => {
  it("are dealt to every action once", () => {
    const actions = ACTIONS.map(({ action }) => action);
    expect(actions.filter((action, i) => actions.indexOf(action) !== i)).toEqual([]);
  });

  it("give twenty classes a key each", () => {
    const all = classKeys(Array.from({ length: 21 }, (_, i) => `class ${i}`));
    expect(all.slice(0, 11)).toEqual(["1", "2", "3", "4", "5", "6", "7", "8", "9", "0", "Shift+1"]);
    expect(new Set(all).size).toBe(21);
    expect(all[20]).toBeNull();
  });

  it("are the names of classes that are digits", () => {
    const digits = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    expect(classKeys(digits)).toEqual(digits);
    expect(classKeys([...digits, "none of these"]).slice(9)).toEqual(["9", "Shift+1"]);
    expect(classKeys(["cat", "1", "0", "dog"])).toEqual(["1", "2", "0", "3"]);
  });

  it("are said in the help as they are", () => {
    const digits = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
    const ofThatName = "The class of that name";
    expect(classRows(digits)).toEqual([{ key: "0 … 9", words: ofThatName }]);
    expect(classRows([...digits, "none"])).toContainEqual({ key: "Shift+1", words: "Class “none”" });
    expect(classRows(["1", "2", "7", "cat"])[0]).toEqual({ key: "1 2 7", words: ofThatName });
    expect(classRows(["cat", "1"])).toEqual([
      { key: "1", words: "Class “cat”" },
      { key: "2", words: "Class “1”" },
    ]);
    expect(classRows(["cat"], { "class-0": "c" })).toEqual([{ key: "c", words: "Class “cat”" }]);
    expect(classRows(Array.from({ length: 21 }, (_, i) => `class ${i}`))).toHaveLength(20);
  });

  it("stay the same when a class is added", () => {
    const names = ["0", "cat", "2", "7", "1", "dog"];
    for (let n = 1; n < names.length; n++) expect(classKeys(names).slice(0, n)).toEqual(classKeys(names.slice(0, n)));
  });

  it("stay the same when a class goes, and are dealt anew only when the classes are put in order", () => {
    const names = ["cat", "dog", "fox", "owl"];
    const none = new Map<number, string>();
    expect(classKeys(names, {}, { order: [0, 2, 3], shortcuts: none })).toEqual(["1", null, "3", "4"]);
    expect(classKeys(names, {}, { order: [3, 0, 2], shortcuts: none })).toEqual(["2", null, "3", "1"]);
    expect(classKeys(names, {}, { order: [0, 1, 2, 3], shortcuts: new Map([[2, "1"]]) })).toEqual(["2", "3", "1", "5"]);
    expect(classKeys(names, {}, { order: [0, 1, 2, 3], shortcuts: new Map([[1, "q"]]) })).toEqual(["1", "q", "3", "4"]);
    expect(classOfKey("q", names, { "class-0": "q" }, { order: [1, 2], shortcuts: none })).toBeNull();
    const many = Array.from({ length: 22 }, (_, i) => `class ${i}`);
    const order = [...many.keys()].slice(2);
    expect(classKeys(many, {}, { order, shortcuts: none }).filter((key) => key === null)).toHaveLength(2);
    expect(classRows(names, {}, { order: [3, 0], shortcuts: none })[0]).toEqual({ key: "1", words: "Class “owl”" });
  });

  it("know a digit by its place, whatever the layout writes there", () => {
    expect(press("!", "Digit1", { shiftKey: true })).toBe("Shift+1");
    expect(press("&", "Digit1")).toBe("1");
    expect(press("4", "Numpad4")).toBe("4");
  });

  it("leave the browser's own shortcuts alone, but for undo", () => {
    expect(press("r", "KeyR", { ctrlKey: true })).toBeNull();
    expect(press("z", "KeyZ", { ctrlKey: true })).toBe("Ctrl+z");
    expect(press("z", "KeyZ", { metaKey: true })).toBe("Ctrl+z");
  });

  it("can be changed", () => {
    expect(keyOf("skip", { skip: "q" })).toBe("q");
    const names = ["cat", "dog", "fox"];
    expect(classOfKey("a", names, { "class-2": "a" })).toBe(2);
    expect(classOfKey("3", names, { "class-2": "a" })).toBeNull();
  });
});

describe("keys that zoom and pan", () => {
  it("tells an arrow with Shift from one without", () => {
    expect(press("ArrowLeft")).toBe("ArrowLeft");
    expect(press("ArrowLeft", "", { shiftKey: true })).toBe("Shift+ArrowLeft");
  });
  it("are those of no class as they come", () => {
    const names = Array.from({ length: 30 }, (_, number) => `class ${number}`);
    for (const action of ["zoom", "larger", "smaller", "copies"] as const)
      expect(classOfKey(keyOf(action), names, {})).toBeNull();
    expect(press("+", "Equal", { shiftKey: true })).toBe("+");
    expect(press("-", "Minus")).toBe("-");
  });

  it("belong to one action each of that name", () => {
    const names = ACTIONS.map(({ action }) => action);
    expect(names.filter((name, i) => names.indexOf(name) !== i)).toEqual([]);
  });
});
