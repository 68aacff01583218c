// Help, settings, and the list of what could not be stored.
import { useState } from "preact/hooks";
import { outbox } from "../desk.ts";
import { Dialog } from "../dialogs.tsx";
import { ACTIONS, classKeys, classRows, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap, suggestions, theme } from "../settings.ts";
import { annotator, classes, dialog, me, refusedCount, waiting } from "../state.ts";

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
        {classRows(classes.value, map).map(({ key, words }) => row(key, words))}
        {ACTIONS.map(({ action, words }) => row(keyOf(action, map), words))}
        {row("a … t", "Grid: take a tile out, or in again")}
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
  const keys = classKeys(classes.value, map);
  const rows = [
    ...ACTIONS.map(({ action, words }) => ({ id: action as string, words, key: keyOf(action, map) })),
    ...classes.value
      .slice(0, 40)
      .map((name, i) => ({ id: `class-${i}`, words: `Class “${name}”`, key: keys[i] ?? "none" })),
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

export function SettingsWindow({ onLeave }: { onLeave: () => void }) {
  return (
    <Dialog title="Settings" testid="settings-dialog">
      <div class="setting">
        <span>
          You are <b data-testid="who">{annotator.value}</b>
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
          Show the model’s suggestions <small>They can sway an answer</small>
        </span>
        <input
          type="checkbox"
          checked={suggestions.value}
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
