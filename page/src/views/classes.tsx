// The classes as buttons, each with its key; and the search among them.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, get, post, randomKey } from "../api.ts";
import { Dialog } from "../dialogs.tsx";
import { classKeys, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, classes, dialog, say, status, take } from "../state.ts";
import type { Status } from "../types.ts";
import { likelihood } from "../words.ts";

interface Buttons {
  onChoose: (index: number) => void;
  chosen?: number | null; // marked
  guess?: number | null; // the suggestion, where it is shown
  confidence?: number | null;
  counts?: boolean;
  verb?: string;
  off?: boolean; // there is nothing to label just now
}

export function ClassButtons({
  onChoose,
  chosen = null,
  guess = null,
  confidence = null,
  counts = true,
  verb = "Label",
  off = false,
}: Buttons) {
  const names = classes.value;
  const keys = classKeys(names, keyMap.value);
  const tally = status.value?.class_counts ?? [];
  const most = Math.max(1, ...tally);
  const short = names.every((name) => name.length <= 3);
  return (
    <div
      class={`classes${names.length > 20 ? " many" : ""}${short ? " short" : ""}`}
      role="group"
      aria-label="Classes"
      tabIndex={off ? 0 : undefined} // without buttons to walk to, the list itself can be pushed along by keys
    >
      {names.map((name, index) => {
        const key = keys[index] ?? null;
        const state = chosen === index ? " chosen" : guess === index ? " guess" : "";
        return (
          <button
            type="button"
            key={index}
            class={`class${state}`}
            data-testid={`class-${index}`}
            title={`${verb} “${name}”${key ? ` (${shownKey(key)})` : ""}`}
            aria-keyshortcuts={key ?? undefined}
            disabled={off}
            onClick={() => onChoose(index)}
          >
            <kbd class={key ? "" : "none"}>{key ? shownKey(key) : "·"}</kbd>
            <span class="class-name">{name}</span>
            {guess === index && confidence !== null && <span class="confidence">{likelihood(confidence, status.value?.calibration?.rough)}</span>}
            {counts && guess !== index && (
              <span class="tally" title="labels so far">
                {tally[index] ?? 0}
              </span>
            )}
            {counts && <span class="fill" style={{ width: `${(100 * (tally[index] ?? 0)) / most}%` }} />}
          </button>
        );
      })}
    </div>
  );
}

async function addClass(name: string): Promise<number | null> {
  try {
    await post("api/classes", { name, annotator: annotator.value, key: randomKey() });
    take(await get<Status>("api/status"));
    say(`Class “${name}” added.`);
    const index = classes.value.indexOf(name);
    return index < 0 ? null : index;
  } catch (error) {
    say(error instanceof Failure ? `The class was not added: ${error.message}` : String(error), "bad");
    return null;
  }
}

const sameLetters = (a: string, b: string) => a.normalize().toLowerCase() === b.normalize().toLowerCase();
const focusIt = (element: HTMLElement | null) => element?.focus();

/** Type a part of a name; Enter takes the first. A name that is not there can be added. */
export function FindClass({ mode, onChoose }: { mode: "find" | "add"; onChoose: (index: number) => void }) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [busy, setBusy] = useState(false);
  const [twin, setTwin] = useState<number | null>(null); // a class with the same letters, to be asked about
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const wanted = typed.trim();
  const lower = wanted.toLowerCase();
  const starts = (name: string) => (name.toLowerCase().startsWith(lower) ? 0 : 1);
  const found = classes.value
    .map((name, index) => ({ name, index }))
    .filter(({ name }) => name.toLowerCase().includes(lower))
    .sort((a, b) => starts(a.name) - starts(b.name));
  const isNew = wanted !== "" && !classes.value.includes(wanted);
  const options: { name: string; index: number | null }[] = [
    ...(mode === "find" ? found : []),
    ...(isNew ? [{ name: wanted, index: null }] : []),
  ];
  const picked = Math.min(at, options.length - 1);
  const choose = async (option: { name: string; index: number | null } | undefined) => {
    if (!option || busy) return;
    if (option.index !== null) {
      dialog.value = null;
      onChoose(option.index);
      return;
    }
    const alike = classes.value.findIndex((name) => sameLetters(name, option.name));
    if (alike >= 0 && twin === null) return setTwin(alike);
    await add(option.name);
  };
  const add = async (name: string) => {
    setBusy(true);
    const index = await addClass(name);
    setBusy(false);
    if (index === null) return;
    dialog.value = null;
    if (mode === "find") onChoose(index);
  };
  const keepTo = (index: number) => {
    dialog.value = null;
    if (mode === "find") onChoose(index);
  };
  const onKey = (event: KeyboardEvent) => {
    if (twin !== null) return; // the question is answered by its buttons
    if (event.key === "ArrowDown") setAt(Math.min(picked + 1, options.length - 1));
    else if (event.key === "ArrowUp") setAt(Math.max(picked - 1, 0));
    else if (event.key === "Enter") void choose(options[picked]);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title={mode === "find" ? "Find a class" : "Add a class"}>
      <input
        ref={input}
        autoFocus
        class="field"
        type="text"
        data-testid="find-class"
        maxLength={64}
        autocomplete="off"
        spellcheck={false}
        placeholder={mode === "find" ? "Type a part of its name" : "Its name"}
        aria-label={mode === "find" ? "Find a class" : "Name of the new class"}
        role="combobox"
        aria-expanded="true"
        aria-controls="found"
        aria-activedescendant={options.length ? `found-${picked}` : undefined}
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setAt(0);
          setTwin(null);
        }}
        onKeyDown={onKey}
      />
      {twin !== null && (
        <div class="twin" role="alert" data-testid="class-twin">
          <p>
            There is a class “{classes.value[twin]}” already. Add “{wanted}” too?
          </p>
          <div class="row">
            <button
              type="button"
              class="main"
              data-testid="class-twin-no"
              ref={focusIt}
              onClick={() => keepTo(twin)}
            >
              {mode === "find" ? `No, choose “${classes.value[twin]}”` : "No"}
            </button>
            <button type="button" data-testid="class-twin-yes" disabled={busy} onClick={() => void add(wanted)}>
              Add “{wanted}” too
            </button>
          </div>
        </div>
      )}
      <ul class="found" id="found" role="listbox" aria-label="Classes found" hidden={twin !== null}>
        {options.slice(0, 200).map((option, i) => (
          <li
            key={option.index ?? "new"}
            id={`found-${i}`}
            role="option"
            aria-selected={i === picked}
            class={i === picked ? "picked" : ""}
            data-testid={option.index === null ? "add-class-option" : `found-${option.index}`}
            onClick={() => void choose(option)}
          >
            {option.index === null
              ? mode === "find"
                ? `Add class “${option.name}” and choose it`
                : `Add class “${option.name}”`
              : option.name}
          </li>
        ))}
        {options.length === 0 && (
          <li class="none">{mode === "add" ? "Type a name, then Enter." : "No class has that name."}</li>
        )}
      </ul>
    </Dialog>
  );
}
