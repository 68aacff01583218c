// Whose keys Space and Enter are. To somebody who walks by Tab they belong to the button that has the focus. After a
// click they belong to the page again: a button that was clicked once must not answer to the next Space.

let walking = false; // the focus was last moved by Tab
addEventListener("keydown", (event) => event.key === "Tab" && (walking = true), true);
addEventListener("pointerdown", () => (walking = false), true);

export const cameByTab = () => walking;

/** To the item, or to the view where there is none. */
export function focusStage(): void {
  const stage = document.querySelector<HTMLElement>("main .stage") ?? document.getElementById("main");
  stage?.focus({ preventScroll: true });
}

/** Space and Enter belong to the button that was reached by Tab; to a link, Enter alone. */
export function belongsToFocus(key: string, target: EventTarget | null): boolean {
  return (
    walking &&
    (key === "Space" || key === "Enter") &&
    target instanceof Element &&
    target.closest(key === "Space" ? "button, summary, [role=option]" : "button, a, summary, [role=option]") !== null
  );
}

/** This press was an answer. A button that still has the focus loses it: some browsers click when the key comes up. */
export function consume(event: KeyboardEvent): void {
  event.preventDefault();
  if ((event.key === " " || event.key === "Enter") && document.activeElement?.closest("button, a, summary"))
    focusStage();
}
