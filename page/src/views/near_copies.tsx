// Near-copies of the item: how many there are, and on request what they are and whether they get its answer.
import { chosenCopies, copies, copiesOpen, hideCopies, pressCopies, takenOut, together, toggleCopy } from "../copies.ts";
import { Thumb } from "../item.tsx";
import { keyOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { plural } from "../words.ts";

export function CopiesButton({ off }: { off: boolean }) {
  const count = copies.value?.copies.length ?? 0;
  if (count === 0) return null;
  const chosen = chosenCopies.value.length;
  return (
    <button
      type="button"
      class={chosen > 0 ? "copies-button pressed" : "copies-button"}
      data-testid="copies"
      aria-expanded={copiesOpen.value}
      disabled={off}
      onClick={() => (copiesOpen.value ? hideCopies() : pressCopies())}
    >
      {chosen > 0 ? `and ${plural(chosen, "near-copy", "near-copies")}` : plural(count, "near-copy", "near-copies")}{" "}
      <kbd>{shownKey(keyOf("copies", keyMap.value))}</kbd>
    </button>
  );
}

export function NearCopies() {
  const found = copies.value;
  if (!found || !copiesOpen.value || found.copies.length === 0) return null;
  const chosen = chosenCopies.value;
  return (
    <section class="copies" data-testid="copies-panel" aria-label="Near-copies">
      <div class="copies-head">
        <label class="check">
          <input
            type="checkbox"
            data-testid="copies-together"
            checked={together.value}
            onChange={(event) => (together.value = event.currentTarget.checked)}
          />
          <span>
            Label them too
            <small>
              {chosen.length > 0
                ? `Your answer goes to ${plural(chosen.length + 1, "item")}; one undo takes it back from all`
                : found.line}
            </small>
          </span>
        </label>
      </div>
      <div class="strip" role="group" aria-label={plural(found.copies.length, "near-copy", "near-copies")}>
        {found.copies.map((copy) => (
          <button
            type="button"
            key={copy.item}
            class={chosen.includes(copy.item) ? "strip-item on" : "strip-item"}
            data-testid="copy"
            data-item={copy.item}
            aria-pressed={together.value && !takenOut.value.has(copy.item)}
            disabled={!together.value}
            title={`${copy.id}: ${copy.exact ? "the same content" : "nearly the same"}${together.value ? "; click to take it out, or in again" : ""}`}
            onClick={() => toggleCopy(copy.item)}
          >
            <Thumb item={copy.item} kind={copy.kind} text={copy.text} alt={`item ${copy.id}`} />
          </button>
        ))}
      </div>
    </section>
  );
}
