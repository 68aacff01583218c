// Which key does what. A key is written as people say it: "u", "Shift+1", "Space", "Enter".

export type Action =
  | "skip"
  | "unknown"
  | "bad"
  | "flag"
  | "note"
  | "undo"
  | "accept"
  | "suggest"
  | "find"
  | "why"
  | "help"
  | "classes"
  | "keep"
  | "take"
  | "remark"
  | "confirm"
  | "forward"
  | "backward"
  | "copies"
  | "zoom"
  | "larger"
  | "smaller";

export const ACTIONS: { action: Action; key: string; words: string; where: "label" | "review" | "grid" | "image" | "all" }[] = [
  { action: "skip", key: "Space", words: "Skip: not now", where: "label" },
  { action: "unknown", key: "u", words: "Don’t know: I cannot tell", where: "label" },
  { action: "bad", key: "x", words: "Bad item: broken, private or off topic", where: "label" },
  { action: "flag", key: "f", words: "Flag: somebody should look at it", where: "label" },
  { action: "note", key: "Shift+f", words: "Flag with a note, or change its note", where: "label" },
  { action: "accept", key: "Enter", words: "Accept the suggestion, where one is shown", where: "label" },
  { action: "suggest", key: "s", words: "Show or hide suggestions", where: "label" },
  { action: "why", key: "w", words: "Why this one: more or less", where: "label" },
  { action: "copies", key: "c", words: "Near-copies: show them, then label them too", where: "label" },
  { action: "zoom", key: "z", words: "Zoom: the image whole, or pixel by pixel (double click too)", where: "image" },
  { action: "larger", key: "+", words: "Zoom in (wheel or two fingers too); Shift and an arrow key move", where: "image" },
  { action: "smaller", key: "-", words: "Zoom out", where: "image" },
  { action: "find", key: "/", words: "Find or add a class", where: "all" },
  { action: "classes", key: "Shift+c", words: "Classes: describe, rename, merge, remove", where: "all" },
  { action: "undo", key: "Backspace", words: "Undo, as often as you like (Ctrl+Z too)", where: "all" },
  { action: "help", key: "?", words: "This help (h too, while labelling)", where: "all" },
  { action: "keep", key: "k", words: "Review: the label is right", where: "review" },
  { action: "take", key: "Enter", words: "Review: take the expected class (w too); disputes: what most say", where: "review" },
  { action: "remark", key: "n", words: "Disputes: write a note", where: "review" },
  { action: "forward", key: "ArrowRight", words: "Review: look at the next", where: "review" },
  { action: "backward", key: "ArrowLeft", words: "Review: look at the one before", where: "review" },
  { action: "confirm", key: "Enter", words: "Grid: confirm the chosen tiles", where: "grid" },
];

export type KeyMap = Record<string, string>; // action or "class-N" -> key

const DIGITS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];
const IN_ORDER = [...DIGITS, ...DIGITS.map((digit) => `Shift+${digit}`)];

/** Which classes are offered, in which order, and the keys that the project gives some of them. */
export interface ClassView {
  order: readonly number[];
  shortcuts: ReadonlyMap<number, string>;
}

/**
 * The key of each class by its number, null for none: the person's own, else the project's, else 1-9, 0 and the same with
 * Shift, so twenty have one. A class that is called by a digit has that digit, if no class before it does. A class that
 * comes later, goes or is hidden changes no other key: only who puts the classes in order deals the keys anew.
 */
export function classKeys(names: readonly string[], map: KeyMap = {}, view?: ClassView): (string | null)[] {
  const order = view?.order ?? names.map((_, number) => number);
  const given = view?.shortcuts ?? new Map<number, string>();
  const isOffered = new Set(order);
  const taken = new Set(order.flatMap((number) => given.get(number) ?? []));
  const asTheyCame = order.every((number, i) => i === 0 || (order[i - 1] ?? 0) < number);
  const own = new Map<number, string>();
  for (const number of asTheyCame ? names.keys() : order) {
    const name = names[number] ?? "";
    const usual = DIGITS.includes(name) && !taken.has(name) ? name : IN_ORDER.find((each) => !taken.has(each));
    if (usual) taken.add(usual); // kept free where the class has another
    const key = given.get(number) ?? usual;
    if (key) own.set(number, key);
  }
  const left = IN_ORDER.filter((key) => !order.some((number) => own.get(number) === key));
  return names.map((_, number) =>
    isOffered.has(number) ? (map[`class-${number}`] ?? own.get(number) ?? left.shift() ?? null) : null,
  );
}

/** For the help: which keys are which classes. Classes that are called by their own key are said in one row. */
export function classRows(names: readonly string[], map: KeyMap = {}, view?: ClassView): { key: string; words: string }[] {
  const keys = classKeys(names, map, view);
  const named = names.filter((name, i) => keys[i] === name).sort();
  const inOne = named.length > 2;
  const rows = (view?.order ?? [...names.keys()]).flatMap((number) => {
    const [name, key] = [names[number] ?? "", keys[number]];
    return !key || (inOne && key === name) ? [] : [{ key, words: `Class “${name}”` }];
  });
  if (!inOne) return rows;
  const unbroken = Number(named.at(-1)) - Number(named[0]) === named.length - 1;
  const key = unbroken ? `${named[0]} … ${named.at(-1)}` : named.join(" ");
  return [{ key, words: "The class of that name" }, ...rows];
}

export function keyOf(action: Action, map: KeyMap = {}): string {
  return map[action] ?? ACTIONS.find((each) => each.action === action)?.key ?? "";
}

/** The key of a press, or null where it is not for us (with Ctrl, Alt or Meta; a lone Shift). */
export function nameOf(
  event: Pick<KeyboardEvent, "key" | "code" | "shiftKey" | "ctrlKey" | "metaKey" | "altKey">,
): string | null {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "z")
    return "Ctrl+z";
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  // Digits go by the place of the key: Shift+1 is "!" on one keyboard, and on another the digits themselves need Shift.
  const digit = /^Digit(\d)$/.exec(event.code)?.[1];
  if (digit) return event.shiftKey ? `Shift+${digit}` : digit;
  if (event.key === " ") return "Space";
  if (event.key === "Shift" || event.key === "Dead") return null;
  if (/^Arrow/.test(event.key)) return (event.shiftKey ? "Shift+" : "") + event.key;
  if (/^[a-z]$/i.test(event.key)) return (event.shiftKey ? "Shift+" : "") + event.key.toLowerCase();
  return event.key;
}

export function classOfKey(key: string, names: readonly string[], map: KeyMap, view?: ClassView): number | null {
  const index = classKeys(names, map, view).indexOf(key);
  return index < 0 ? null : index;
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

const SHOWN: Record<string, string> = { Backspace: "Bksp", ArrowRight: "→", ArrowLeft: "←" };
export const shownKey = (key: string) => SHOWN[key] ?? key.replace("Shift+", "⇧");
