// A small window for the note on a flag.
import { useEffect, useRef, useState } from "preact/hooks";
import { Dialog } from "../dialogs.tsx";
import { dialog } from "../state.ts";

const MAX_LENGTH = 500; // characters; the server refuses more

/** Asks for the note on a flag. Enter flags, with or without one. */
export function FlagNote({
  note = "",
  what = "this item",
  onFlag,
}: {
  note?: string;
  what?: string;
  onFlag: (note: string) => void;
}) {
  const [words, setWords] = useState(note);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.select(), []);
  return (
    <Dialog title={`Flag ${what}`} testid="note-dialog">
      <form
        class="note-form"
        onSubmit={(event) => {
          event.preventDefault();
          dialog.value = null;
          onFlag(words.replace(/\s+/g, " ").trim());
        }}
      >
        <label for="flag-note">What should somebody look at?</label>
        <input
          id="flag-note"
          ref={input}
          class="field"
          data-testid="flag-note"
          maxLength={MAX_LENGTH}
          autocomplete="off"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        <p class="faint small">Everybody who reviews sees it. The item is still to be labelled.</p>
        <button type="submit" class="main" data-testid="flag-with-note">
          Flag
        </button>
      </form>
    </Dialog>
  );
}
