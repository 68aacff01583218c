// Help, settings, and the list of what could not be stored.
import { useEffect, useState } from "preact/hooks";
import { Failure } from "../api.ts";
import { outbox } from "../desk.ts";
import { Dialog } from "../dialogs.tsx";
import { ACTIONS, type Action, classKeys, classRows, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap, suggestions, theme } from "../settings.ts";
import { changeSettings, fetchSettings } from "../project.ts";
import { allowed, annotator, className, classView, classes, dialog, may, me, offered, refusedCount, waiting } from "../state.ts";
import type { ProjectSettings, SettingShown } from "../types.ts";
import { ROLE_WORDS, sentence } from "../words.ts";
import { FolderLine } from "./notes.tsx";
import { type Outcome, OutcomeList } from "./outcome.tsx";

/** What a key does for this person: only owners change classes. */
const ownWords = (action: Action, words: string) =>
  may("owner") ? words : action === "find" ? "Find a class" : action === "classes" ? "Classes: what they mean" : words;

export function Help() {
  const map = keyMap.value;
  const row = (key: string, words: string) => (
    <div key={key + words}>
      <dt>
        <kbd>{shownKey(key)}</kbd>
      </dt>
      <dd>{words}</dd>
    </div>
  );
  return (
    <Dialog title="Keys" testid="help-dialog">
      <p>
        Look, press the key of the class, and the next item is there. Every answer is stored before the next is asked
        for, and every answer can be undone.
      </p>
      <dl class="keys">
        {classRows(classes.value, map, classView.value).map(({ key, words }) => row(key, words))}
        {ACTIONS.filter(({ where }) => where !== "review" || may("reviewer")).map(({ action, words }) =>
          row(keyOf(action, map), ownWords(action, words)),
        )}
        {row("a … t", "Grid: take a tile out, or in again")}
        {row("← ↑ ↓ →", "Browse: walk through the list; Enter opens an item, Space selects it, Shift+Space all up to it")}
        {row("Ctrl+a", "Browse: select the whole page; Escape closes the item, then gives the selection up")}
      </dl>
      <p class="faint">
        Some items are random audit items, which measure the model: they are never trained on, and have no suggestion.
        Keys can be changed in the settings.
      </p>
    </Dialog>
  );
}

function KeyChanger() {
  const [waitingFor, setWaitingFor] = useState<string | null>(null);
  const map = keyMap.value;
  const keys = classKeys(classes.value, map, classView.value);
  const rows = [
    ...ACTIONS.filter(({ where }) => where !== "review" || may("reviewer")).map(({ action, words }) => ({
      id: action as string,
      words: ownWords(action, words),
      key: keyOf(action, map),
    })),
    ...offered.value
      .slice(0, 40)
      .map((i) => ({ id: `class-${i}`, words: `Class “${className(i)}”`, key: keys[i] ?? "none" })),
  ];
  const press = (event: KeyboardEvent, id: string) => {
    if (waitingFor !== id) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Escape") return setWaitingFor(null);
    const key = nameOf(event);
    if (key === null || key === "Tab") return;
    keyMap.value = { ...map, [id]: key };
    setWaitingFor(null);
  };
  return (
    <details>
      <summary>Change keys</summary>
      <p class="faint">Choose one, then press the new key; Esc cancels. Your key takes precedence over the default one.</p>
      <ul class="remap">
        {rows.map(({ id, words, key }) => (
          <li key={id}>
            <span>{words}</span>
            <button
              type="button"
              class={waitingFor === id ? "waiting" : ""}
              data-testid={`remap-${id}`}
              onClick={() => setWaitingFor(id)}
              onKeyDown={(event) => press(event, id)}
              onBlur={() => setWaitingFor(null)}
            >
              {waitingFor === id ? "press a key" : <kbd>{shownKey(key)}</kbd>}
            </button>
          </li>
        ))}
      </ul>
      <button type="button" onClick={() => (keyMap.value = {})}>
        All as usual again
      </button>
    </details>
  );
}

const inWords = (value: SettingShown["value"]) =>
  value === null || (Array.isArray(value) && value.length === 0)
    ? "none"
    : Array.isArray(value)
      ? value.join(", ")
      : value === true
        ? "yes"
        : value === false
          ? "no"
          : String(value);

const titled = (name: string) => name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

function SettingInput({ setting, onSet }: { setting: SettingShown; onSet: (value: unknown) => void }) {
  const { name, value, kind, least, most, choices } = setting;
  const common = { id: `setting-${name}`, "data-testid": `setting-${name}`, "aria-describedby": `meaning-${name}` };
  if (kind === "flag")
    return (
      <input
        {...common}
        type="checkbox"
        checked={value === true}
        onChange={(event) => onSet(event.currentTarget.checked)}
      />
    );
  if (kind === "columns") {
    const chosen = Array.isArray(value) ? value : [];
    return (
      <div class="column-choice" role="group" {...common} aria-label={titled(name)}>
        {[...new Set([...chosen, ...(choices ?? [])])].map((column) => (
          <label class="check" key={column}>
            <input
              type="checkbox"
              checked={chosen.includes(column)}
              onChange={(event) =>
                onSet(event.currentTarget.checked ? [...chosen, column] : chosen.filter((each) => each !== column))
              }
            />
            <span>{column}</span>
          </label>
        ))}
      </div>
    );
  }
  if (kind === "choice")
    return (
      <select {...common} value={String(value)} onChange={(event) => onSet(event.currentTarget.value)}>
        {[...new Set([String(value), ...(choices ?? [])])].map((each) => (
          <option key={each}>{each}</option>
        ))}
      </select>
    );
  return (
    <input
      {...common}
      class="field short-field"
      type="number"
      step={kind === "whole number" ? 1 : "any"}
      min={least ?? undefined}
      max={most ?? undefined}
      value={String(value)}
      required
      onInput={(event) => onSet(event.currentTarget.value === "" ? "" : event.currentTarget.valueAsNumber)}
    />
  );
}

/** The settings of the project, which hold for everybody. */
function ProjectForm() {
  const [found, setFound] = useState<ProjectSettings | null>(null);
  const [wanted, setWanted] = useState<Record<string, unknown>>({});
  const [result, setResult] = useState<Outcome | null>(null);
  const [busy, setBusy] = useState(false);
  const failed = (error: unknown) =>
    setResult({ good: false, lines: [sentence(error instanceof Failure ? error.message : String(error))] });
  useEffect(() => void fetchSettings().then(setFound, failed), []);
  const save = async () => {
    setBusy(true);
    try {
      const fresh = await changeSettings(wanted);
      setFound(fresh);
      setWanted({});
      setResult({ good: true, lines: fresh.notes.length > 0 ? fresh.notes : ["Saved."] });
    } catch (error) {
      failed(error);
    }
    setBusy(false);
  };
  const open = found?.settings.filter(({ fixed }) => fixed === null) ?? [];
  const fixed = found?.settings.filter((setting) => setting.fixed !== null) ?? [];
  return (
    <details data-testid="project-settings">
      <summary>Project</summary>
      <p class="faint">These hold for everybody who labels here.</p>
      <form
        class="project-form"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        {open.map((setting) => (
          <div class="setting" key={setting.name}>
            <label for={`setting-${setting.name}`}>
              {titled(setting.name)}
              <small id={`meaning-${setting.name}`}>{sentence(setting.meaning)}</small>
            </label>
            <SettingInput
              setting={{ ...setting, value: (wanted[setting.name] ?? setting.value) as SettingShown["value"] }}
              onSet={(value) => setWanted({ ...wanted, [setting.name]: value })}
            />
          </div>
        ))}
        {open.length > 0 && (
          <button
            type="submit"
            class="main"
            data-testid="save-settings"
            disabled={busy || Object.keys(wanted).length === 0}
          >
            Save
          </button>
        )}
      </form>
      <OutcomeList outcome={result} testid="settings-result" />
      {fixed.length > 0 && (
        <ul class="plain fixed-settings">
          {fixed.map((setting) => (
            <li key={setting.name}>
              <b>{titled(setting.name)}</b>: {inWords(setting.value)}
              <small>{sentence(setting.fixed ?? "")}</small>
            </li>
          ))}
        </ul>
      )}
    </details>
  );
}

export function SettingsWindow({ onLeave }: { onLeave: () => void }) {
  return (
    <Dialog title="Settings" testid="settings-dialog">
      <div class="setting">
        <span>
          You are <b data-testid="who">{annotator.value}</b>
          <small data-testid="role">{ROLE_WORDS[me.value?.role ?? "annotator"]}</small>
        </span>
        <button
          type="button"
          data-testid="change-name"
          disabled={waiting.value > 0}
          title={waiting.value > 0 ? "Some of your labels are still on their way" : ""}
          onClick={onLeave}
        >
          {me.value?.fixed ? "Log out" : "Change"}
        </button>
      </div>
      <label class="setting">
        <span>
          Show the model’s suggestions{" "}
          <small>{allowed.value.suggestions ? "They can sway an answer" : "This project shows none"}</small>
        </span>
        <input
          type="checkbox"
          disabled={!allowed.value.suggestions}
          checked={suggestions.value && allowed.value.suggestions}
          onChange={(event) => (suggestions.value = event.currentTarget.checked)}
        />
      </label>
      <label class="setting">
        <span>Light or dark</span>
        <select
          data-testid="theme"
          value={theme.value}
          onChange={(event) => (theme.value = event.currentTarget.value as "auto")}
        >
          <option value="auto">same as the system</option>
          <option value="light">light</option>
          <option value="dark">dark</option>
        </select>
      </label>
      <div class="setting">
        <span>
          Classes{" "}
          <small>
            {may("owner") ? "Describe, rename, merge or remove them, for everybody" : "What they mean, and examples"}
          </small>
        </span>
        <button type="button" data-testid="open-classes" onClick={() => (dialog.value = "classes")}>
          {may("owner") ? "Change" : "See"}
        </button>
      </div>
      {may("owner") && (
        <>
          <div class="setting">
            <span>
              People <small>Add, rename or retire them; who may do what</small>
            </span>
            <button type="button" data-testid="open-people" onClick={() => (dialog.value = "people")}>
              Change
            </button>
          </div>
          <FolderLine />
          <ProjectForm />
        </>
      )}
      <KeyChanger />
    </Dialog>
  );
}

export function RefusedWindow() {
  const lost = outbox()?.refused() ?? [];
  const clear = () => {
    outbox()?.forgetRefused();
    refusedCount.value = 0;
    dialog.value = null;
  };
  return (
    <Dialog title="Could not be stored" testid="refused-dialog">
      <p>
        The server understood these and said no, so they were not sent again. They are kept here until you clear the
        list.
      </p>
      <ul class="plain">
        {lost.map(({ entry, reason }) => (
          <li key={entry.key}>
            <b>{entry.words}</b>
            {entry.id !== null && ` for ${entry.id}`}: {reason}
          </li>
        ))}
      </ul>
      <button type="button" onClick={clear}>
        Clear the list
      </button>
    </Dialog>
  );
}
