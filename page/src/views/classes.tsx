// The classes as buttons, each with its key; and the search among them.
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, get, post, randomKey } from "../api.ts";
import { Dialog } from "../dialogs.tsx";
import { classKeys, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, classView, classes, dialog, may, numberOf, offered, say, status, styles, take } from "../state.ts";
import type { Status } from "../types.ts";
import { likelihood, lookAlike, sentence } from "../words.ts";

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
  const keys = classKeys(names, keyMap.value, classView.value);
  const tally = status.value?.class_counts ?? [];
  const most = Math.max(1, ...tally);
  const short = offered.value.every((index) => className(index).length <= 3);
  return (
    <div
      class={`classes${offered.value.length > 20 ? " many" : ""}${short ? " short" : ""}`}
      role="group"
      aria-label="Classes"
      tabIndex={off ? 0 : undefined} // without buttons to walk to, the list itself can be pushed along by keys
    >
      {offered.value.map((index) => {
        const name = className(index);
        const style = styles.value.get(index);
        const key = keys[index] ?? null;
        const state = chosen === index ? " chosen" : guess === index ? " guess" : "";
        return (
          <button
            type="button"
            key={index}
            class={`class${state}`}
            data-testid={`class-${index}`}
            title={`${verb} “${name}”${key ? ` (${shownKey(key)})` : ""}${style?.description ? `\n${style.description}` : ""}`}
            aria-keyshortcuts={key ?? undefined}
            disabled={off}
            onClick={() => onChoose(index)}
          >
            <kbd class={key ? "" : "none"}>{key ? shownKey(key) : "·"}</kbd>
            {style?.colour && <span class="swatch" style={{ background: style.colour }} aria-hidden="true" />}
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

/** Add a class; its number, or what the server says against it. */
async function addClass(name: string, more: { alike: boolean; item: number | null }): Promise<number | Failure | null> {
  try {
    await post("api/classes", { name, ...more, annotator: annotator.value, key: randomKey() });
    take(await get<Status>("api/status"));
    say(`Class “${name}” added.`);
    return numberOf(name);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

const focusIt = (element: HTMLElement | null) => element?.focus();

/** Type a part of a name; Enter takes the first. A name that is not there can be added. */
export function FindClass({
  mode,
  onChoose,
  item = null,
}: {
  mode: "find" | "add";
  onChoose: (index: number) => void;
  item?: number | null; // that the class is chosen for: undoing its label takes a class that was made for it back
}) {
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const [busy, setBusy] = useState(false);
  const [twin, setTwin] = useState<{ words: string; index: number | null } | null>(null); // a class that looks the same
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => input.current?.focus(), []);
  const wanted = typed.trim();
  const lower = wanted.toLowerCase();
  const starts = (name: string) => (name.toLowerCase().startsWith(lower) ? 0 : 1);
  const found = offered.value
    .map((index) => ({ name: className(index), index }))
    .filter(({ name }) => name.toLowerCase().includes(lower))
    .sort((a, b) => starts(a.name) - starts(b.name));
  const isNew = wanted !== "" && numberOf(wanted) === null && may("owner");
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
    const index = lookAlike(option.name, offered.value, className);
    if (index === null) return add(option.name, false);
    setTwin({ words: `There is a class “${className(index)}” already. Add “${option.name}” too?`, index });
  };
  const add = async (name: string, alike: boolean) => {
    setBusy(true);
    const index = await addClass(name, { alike, item: mode === "find" ? item : null });
    setBusy(false);
    if (index instanceof Failure) {
      if (index.status === 409 && !alike) return setTwin({ words: sentence(index.message), index: null });
      return say(`The class was not added: ${index.message}`, "bad");
    }
    if (index === null) return;
    dialog.value = null;
    if (mode === "find") onChoose(index);
  };
  const keepTo = (index: number | null) => {
    dialog.value = null;
    if (mode === "find" && index !== null) onChoose(index);
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
        maxLength={200}
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
          <p>{twin.words}</p>
          <div class="row">
            <button
              type="button"
              class="main"
              data-testid="class-twin-no"
              ref={focusIt}
              onClick={() => keepTo(twin.index)}
            >
              {mode === "find" && twin.index !== null ? `No, choose “${className(twin.index)}”` : "No"}
            </button>
            <button type="button" data-testid="class-twin-yes" disabled={busy} onClick={() => void add(wanted, true)}>
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
          <li class="none">{mode === "add" ? "Type a name, then Enter." : may("owner") ? "No class has that name." : "No class has that name; owners of the project add classes."}</li>
        )}
      </ul>
    </Dialog>
  );
}
