// Near-copies of the item on the screen. They are looked for once it has been there for a moment, and get its answer only
// where that was asked for: each item begins anew.
import { computed, signal } from "@preact/signals";
import { get } from "./api.ts";
import type { Copies } from "./types.ts";

const MOMENT = 150; // ms: who is faster than this does not want to see copies, and the server has better things to do

// The same values for every item, so that nothing is drawn again for them.
const NOTHING: number[] = [];
const NONE_TAKEN_OUT: ReadonlySet<number> = new Set();

export const copies = signal<Copies | null>(null);
export const copiesOpen = signal(false);
export const together = signal(false); // the next answer goes to them too
export const takenOut = signal<ReadonlySet<number>>(NONE_TAKEN_OUT);

/** Those that the next answer goes to, besides the item itself. */
export const chosenCopies = computed(() =>
  together.value ? (copies.value?.copies ?? []).map(({ item }) => item).filter((item) => !takenOut.value.has(item)) : NOTHING,
);

export function forgetCopies(): void {
  copies.value = null;
  copiesOpen.value = false;
  together.value = false;
  takenOut.value = NONE_TAKEN_OUT;
}

/** Look for the near-copies of an item; what comes back ends it. */
export function lookForCopies(item: number): () => void {
  forgetCopies();
  let wanted = true;
  const timer = setTimeout(() => {
    void get<Copies>(`api/items/${item}/copies`).then(
      (found) => wanted && (copies.value = found),
      () => undefined, // it is only an offer
    );
  }, MOMENT);
  return () => {
    wanted = false;
    clearTimeout(timer);
    forgetCopies();
  };
}

/** The items that are answered with this one: none unless somebody asked for it. */
export const answeredAlong = (item: number): number[] => (copies.value?.item === item ? chosenCopies.value : []);

/** First they are shown; then the next answer is theirs too, or not after all. */
export function pressCopies(): void {
  if (!copies.value || copies.value.copies.length === 0) return;
  if (copiesOpen.value) together.value = !together.value;
  copiesOpen.value = true;
}

export function hideCopies(): void {
  copiesOpen.value = false;
  together.value = false;
}

export function toggleCopy(item: number): void {
  const next = new Set(takenOut.value);
  if (!next.delete(item)) next.add(item);
  takenOut.value = next;
}
