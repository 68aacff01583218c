// Which key does what. A key is written as people say it: "u", "Shift+1", "Space", "Enter".

export type Action =
  | "skip"
  | "unknown"
  | "bad"
  | "flag"
  | "undo"
  | "accept"
  | "suggest"
  | "find"
  | "why"
  | "help"
  | "keep"
  | "take"
  | "confirm"
  | "forward"
  | "backward";

export const ACTIONS: { action: Action; key: string; words: string; where: "label" | "review" | "grid" | "all" }[] = [
  { action: "skip", key: "Space", words: "Skip: not now", where: "label" },
  { action: "unknown", key: "u", words: "Don’t know: I cannot tell", where: "label" },
  { action: "bad", key: "x", words: "Bad item: broken, private or off topic", where: "label" },
  { action: "flag", key: "f", words: "Flag: somebody should look at it", where: "label" },
  { action: "accept", key: "Enter", words: "Accept the suggestion, where one is shown", where: "label" },
  { action: "suggest", key: "s", words: "Show or hide suggestions", where: "label" },
  { action: "why", key: "w", words: "Why this one: more or less", where: "label" },
  { action: "find", key: "/", words: "Find or add a class", where: "all" },
  { action: "undo", key: "Backspace", words: "Undo, as often as you like (Ctrl+Z too)", where: "all" },
  { action: "help", key: "?", words: "This help (h too, while labelling)", where: "all" },
  { action: "keep", key: "k", words: "Review: the label is right", where: "review" },
  { action: "take", key: "Enter", words: "Review: take the expected class (w too)", where: "review" },
  { action: "forward", key: "ArrowRight", words: "Review: look at the next", where: "review" },
  { action: "backward", key: "ArrowLeft", words: "Review: look at the one before", where: "review" },
  { action: "confirm", key: "Enter", words: "Grid: confirm the chosen tiles", where: "grid" },
];

export type KeyMap = Record<string, string>; // action or "class-N" -> key

const DIGITS = ["1", "2", "3", "4", "5", "6", "7", "8", "9", "0"];
const IN_ORDER = [...DIGITS, ...DIGITS.map((digit) => `Shift+${digit}`)];

/**
 * The key of each class: 1-9, 0, then the same with Shift, so twenty have one. A class that is called by a digit has
 * that digit, if no class before it does. A class that comes later changes no key.
 */
export function classKeys(names: readonly string[], map: KeyMap = {}): (string | null)[] {
  const taken = new Set<string>();
  return names.map((name, index) => {
    const own = DIGITS.includes(name) && !taken.has(name) ? name : IN_ORDER.find((key) => !taken.has(key));
    if (own) taken.add(own);
    return map[`class-${index}`] ?? own ?? null;
  });
}

/** For the help: which keys are which classes. Classes that are called by their own key are said in one row. */
export function classRows(names: readonly string[], map: KeyMap = {}): { key: string; words: string }[] {
  const keys = classKeys(names, map);
  const named = names.filter((name, i) => keys[i] === name).sort();
  const inOne = named.length > 2;
  const rows = names.flatMap((name, i) => {
    const key = keys[i];
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
  if (/^[a-z]$/i.test(event.key)) return (event.shiftKey ? "Shift+" : "") + event.key.toLowerCase();
  return event.key;
}

export function classOfKey(key: string, names: readonly string[], map: KeyMap): number | null {
  const index = classKeys(names, map).indexOf(key);
  return index < 0 ? null : index;
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
  );
}

const SHOWN: Record<string, string> = { Backspace: "Bksp", ArrowRight: "→", ArrowLeft: "←" };
export const shownKey = (key: string) => SHOWN[key] ?? key.replace("Shift+", "⇧");
