// What a person set in this browser.
import { effect, signal } from "@preact/signals";
import type { KeyMap } from "./keys.ts";

function kept<T>(name: string, otherwise: T) {
  let start = otherwise;
  try {
    start = (JSON.parse(localStorage.getItem(name) ?? "null") as T | null) ?? otherwise;
  } catch {
    // unreadable: as if it had never been set
  }
  const value = signal<T>(start);
  effect(() => {
    const now = JSON.stringify(value.value);
    try {
      localStorage.setItem(name, now);
    } catch {
      // kept while the page is open
    }
  });
  return value;
}

export const name = kept<string>("understudy:name", "");
export const suggestions = kept<boolean>("understudy:suggestions", false);
export const theme = kept<"auto" | "light" | "dark">("understudy:theme", "auto");
export const keyMap = kept<KeyMap>("understudy:keys", {});
export const dismissed = kept<string[]>("understudy:dismissed", []); // notes that were read
export const whyOpen = kept<boolean>("understudy:why", false);

effect(() => {
  document.documentElement.dataset.theme = theme.value;
});
