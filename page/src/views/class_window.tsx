// The classes of the project: what each means, and everything that can be done to them, for everybody.
import { useEffect, useState } from "preact/hooks";
import { Failure, get, post, randomKey } from "../api.ts";
import { screen } from "../desk.ts";
import { Dialog } from "../dialogs.tsx";
import { Thumb } from "../item.tsx";
import { ACTIONS, classKeys, nameOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, classView, classes, may, status } from "../state.ts";
import type { ClassList, ClassShown } from "../types.ts";
import { lookAlike, plural, sentence } from "../words.ts";
import { type Outcome, OutcomeList } from "./outcome.tsx";

type Change = (path: string, body: Record<string, unknown>, done: string, insist?: boolean) => Promise<void>;

const wordsOf = (error: unknown) => sentence(error instanceof Failure ? error.message : String(error));
const NO_COLOUR = "#808080"; // what the browser's field shows while a class has none
const MAX_EXAMPLES = 12;

export function ClassWindow() {
  const [list, setList] = useState<ClassList | null>(null);
  const [open, setOpen] = useState<number | null>(null);
  const [result, setResult] = useState<Outcome | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const mayChange = may("owner");
  const news = status.value?.class_news?.seq;
  const labelled = status.value?.labelled;
  useEffect(
    () => void get<ClassList>("api/classes").then(setList, (error) => setResult({ good: false, lines: [wordsOf(error)] })),
    [news, labelled],
  );
  const change: Change = async (path, body, done, insist = false) => {
    const twin = insist || typeof body.name !== "string" ? null : twinOf(body.name, body.number);
    if (twin !== null)
      return setResult({
        good: false,
        lines: [`There is a class “${className(twin)}”, which is easily taken for “${String(body.name)}”.`],
        insist: () => void change(path, body, done, true),
      });
    const whole = { ...body, ...(insist ? { alike: true } : {}), annotator: annotator.value, key: randomKey() };
    try {
      const fresh = await post<ClassList>(path, whole, 60_000);
      setList(path === "api/classes" ? await get<ClassList>("api/classes") : fresh);
      setResult({ good: true, lines: [done] });
    } catch (error) {
      const mayInsist = error instanceof Failure && error.status === 409 && "name" in body && !insist;
      const again = mayInsist ? () => void change(path, body, done, true) : undefined;
      setResult({ good: false, lines: [wordsOf(error)], insist: again });
    }
  };
  const alive = list?.classes.filter(({ gone }) => gone === null) ?? [];
  const twinOf = (name: string, itself: unknown) => {
    const others = alive.map(({ number }) => number).filter((number) => number !== itself);
    const twin = lookAlike(name, others, className);
    return twin !== null && className(twin) !== name ? twin : null;
  };
  const move = (from: number, to: number) => {
    const order = alive.map(({ number }) => number);
    const [moved] = order.splice(from, 1);
    if (moved === undefined || to < 0 || to > order.length) return;
    order.splice(to, 0, moved);
    void change("api/classes/order", { order }, "Moved.");
  };
  const keys = classKeys(classes.value, keyMap.value, classView.value);
  return (
    <Dialog title="Classes" testid="classes-dialog">
      <p class="faint">
        {mayChange ? "Changes here are for everybody, and can be taken back below." : "Owners of the project change classes."}
      </p>
      <OutcomeList outcome={result} testid="classes-result" />
      <ol class="class-list" aria-label="Classes">
        {alive.map((each, place) => (
          <li
            key={each.number}
            data-testid={`class-row-${each.number}`}
            class={dragged === place ? "dragged" : ""}
            draggable={mayChange && open !== each.number}
            onDragStart={() => setDragged(place)}
            onDragEnd={() => setDragged(null)}
            onDragOver={(event) => dragged !== null && event.preventDefault()}
            onDrop={() => dragged !== null && dragged !== place && move(dragged, place)}
          >
            <div class="class-line">
              <span class="swatch" style={{ background: each.colour ?? "transparent" }} aria-hidden="true" />
              <span class="class-words">
                <b>{each.name}</b>
                {each.hidden && <span class="faint"> hidden</span>}
                {each.description && <small>{each.description}</small>}
              </span>
              <span class="faint">{plural(each.count, "label")}</span>
              {keys[each.number] ? <kbd>{shownKey(keys[each.number] ?? "")}</kbd> : <kbd class="none">·</kbd>}
              {mayChange && <span class="class-buttons">
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Move ${each.name} up`}
                  data-testid={`up-${each.number}`}
                  disabled={place === 0}
                  onClick={() => move(place, place - 1)}
                >
                  ↑
                </button>
                <button
                  type="button"
                  class="quiet"
                  aria-label={`Move ${each.name} down`}
                  disabled={place === alive.length - 1}
                  onClick={() => move(place, place + 1)}
                >
                  ↓
                </button>
                <button
                  type="button"
                  aria-expanded={open === each.number}
                  data-testid={`open-${each.number}`}
                  onClick={() => setOpen(open === each.number ? null : each.number)}
                >
                  {open === each.number ? "Close" : "Change"}
                  <span class="unseen"> {each.name}</span>
                </button>
              </span>}
            </div>
            {open !== each.number && <Examples shown={each} />}
            {mayChange && open === each.number && (
              <ClassForm
                key={each.number}
                shown={each}
                others={alive}
                onChange={change}
                onRefuse={(words) => setResult({ good: false, lines: [words] })}
              />
            )}
          </li>
        ))}
      </ol>
      {mayChange && <NewClass onChange={change} />}
      {list && list.changes.length > 0 && (
        <details open data-testid="class-changes">
          <summary>Last changes</summary>
          <ul class="plain changes">
            {list.changes.map(({ seq, by, line, kept }) => (
              <li key={seq}>
                <span>
                  {line} {by !== null && <span class="faint">{by}</span>}
                </span>
                {mayChange && <button
                  type="button"
                  disabled={kept !== null}
                  title={kept === null ? "" : sentence(kept)}
                  data-testid={`undo-${seq}`}
                  onClick={() => void change("api/classes/undo", { change: seq }, `Taken back: ${line}`)}
                >
                  Undo<span class="unseen"> {line}</span>
                </button>}
              </li>
            ))}
          </ul>
        </details>
      )}
    </Dialog>
  );
}

function Examples({ shown, onRemove }: { shown: ClassShown; onRemove?: (item: number) => void }) {
  if (shown.examples.length === 0) return null;
  return (
    <ul class="examples" aria-label={`Examples of ${shown.name}`}>
      {shown.examples.map((example) => (
        <li key={example.item} title={example.id}>
          <Thumb item={example.item} kind={example.kind} text={example.text} alt={example.id} />
          {onRemove && (
            <button type="button" class="quiet" onClick={() => onRemove(example.item)}>
              Remove<span class="unseen"> {example.id}</span>
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

function NewClass({ onChange }: { onChange: Change }) {
  const [name, setName] = useState("");
  return (
    <form
      class="row"
      onSubmit={(event) => {
        event.preventDefault();
        const wanted = name.trim();
        if (wanted) void onChange("api/classes", { name: wanted }, `“${wanted}” added.`).then(() => setName(""));
      }}
    >
      <input
        class="field"
        type="text"
        aria-label="Name of a new class"
        placeholder="Another class"
        maxLength={200}
        data-testid="new-class"
        value={name}
        onInput={(event) => setName(event.currentTarget.value)}
      />
      <button type="submit" disabled={name.trim() === ""}>
        Add
      </button>
    </form>
  );
}

/** Everything that can be done to one class. */
function ClassForm({
  shown,
  others,
  onChange,
  onRefuse,
}: {
  shown: ClassShown;
  others: ClassShown[];
  onChange: Change;
  onRefuse: (words: string) => void;
}) {
  const { number, name, count } = shown;
  const [wanted, setWanted] = useState(name);
  const [words, setWords] = useState(shown.description);
  const [into, setInto] = useState<number | null>(null);
  const [removing, setRemoving] = useState(false);
  const [heir, setHeir] = useState<number | null>(null); // the class that labels of a removed one go to
  const set = (values: Record<string, unknown>, done: string) => onChange("api/classes/change", { number, ...values }, done);
  const rest = others.filter((other) => other.number !== number);
  const nameOfClass = (each: number | null) => rest.find((other) => other.number === each)?.name ?? "";
  const item = screen.value?.question.item ?? null;
  const items = shown.examples.map((example) => example.item);
  const pressKey = (event: KeyboardEvent) => {
    if (event.key === "Tab" || event.key === "Escape") return;
    event.preventDefault();
    const key = event.key === "Backspace" || event.key === "Delete" ? "" : nameOf(event);
    if (key === null) return;
    const action = ACTIONS.find((each) => each.key === key);
    if (action) onRefuse(`${shownKey(key)} is taken: ${action.words}.`);
    else void set({ shortcut: key }, key === "" ? "The key is the usual one again." : `${shownKey(key)} is the key of “${name}”.`);
  };
  return (
    <div class="class-form" data-testid={`form-${number}`}>
      <form
        class="setting"
        onSubmit={(event) => {
          event.preventDefault();
          void set({ name: wanted.trim() }, `“${name}” is “${wanted.trim()}” now.`);
        }}
      >
        <label>
          Name{" "}
          <input
            class="field"
            type="text"
            maxLength={200}
            data-testid="class-name"
            value={wanted}
            onInput={(event) => setWanted(event.currentTarget.value)}
          />
        </label>
        <button type="submit" data-testid="rename" disabled={wanted.trim() === name || wanted.trim() === ""}>
          Rename
        </button>
      </form>
      <form
        class="setting"
        onSubmit={(event) => {
          event.preventDefault();
          void set({ description: words }, "The description is saved.");
        }}
      >
        <label>
          What it means{" "}
          <input
            class="field"
            type="text"
            maxLength={500}
            data-testid="class-description"
            value={words}
            onInput={(event) => setWords(event.currentTarget.value)}
          />
        </label>
        <button type="submit" disabled={words === shown.description}>
          Save
        </button>
      </form>
      <div class="setting">
        <label>
          Key{" "}
          <input
            class="field key-field"
            type="text"
            readOnly
            data-testid="class-key"
            value={shown.shortcut === null ? "" : shownKey(shown.shortcut)}
            placeholder="press one"
            onKeyDown={pressKey}
          />
        </label>
        <label>
          Colour{" "}
          <input
            type="color"
            data-testid="class-colour"
            value={shown.colour ?? NO_COLOUR}
            onChange={(event) => void set({ colour: event.currentTarget.value }, "The colour is saved.")}
          />
        </label>
        {shown.colour !== null && (
          <button type="button" class="quiet" onClick={() => void set({ colour: "" }, "No colour any more.")}>
            No colour
          </button>
        )}
      </div>
      <div class="setting">
        <span>
          Examples <small>They are shown here to everybody</small>
        </span>
        <button
          type="button"
          data-testid="add-example"
          disabled={item === null || items.includes(item) || items.length >= MAX_EXAMPLES}
          onClick={() => void set({ examples: [...items, item] }, "The item is an example now.")}
        >
          Add the item on the screen
        </button>
      </div>
      <Examples
        shown={shown}
        onRemove={(gone) => void set({ examples: items.filter((each) => each !== gone) }, "Not an example any more.")}
      />
      <div class="setting">
        <span>
          {shown.hidden ? "It is hidden" : "Hide it"} <small>A hidden class keeps its labels, but is not offered</small>
        </span>
        <button
          type="button"
          data-testid="hide"
          onClick={() => void set({ hidden: !shown.hidden }, shown.hidden ? `“${name}” is shown again.` : `“${name}” is hidden.`)}
        >
          {shown.hidden ? "Show it" : "Hide"}
        </button>
      </div>
      {rest.length > 0 && (
        <div class="setting">
          <label>
            Merge into{" "}
            <ClassChoice testid="merge-into" rest={rest} chosen={into} onChoose={setInto} none="choose a class" />
          </label>
          <button
            type="button"
            data-testid="merge"
            disabled={into === null}
            onClick={() =>
              void onChange("api/classes/merge", { number, into }, `“${name}” is “${nameOfClass(into)}” now.`)
            }
          >
            Merge
          </button>
        </div>
      )}
      {!removing ? (
        <div class="setting">
          <span>
            Remove it <small>{count > 0 ? "You are asked what becomes of its labels" : "It has no labels"}</small>
          </span>
          <button type="button" data-testid="remove" onClick={() => setRemoving(true)}>
            Remove…
          </button>
        </div>
      ) : (
        <div class="twin" role="group" aria-label={`Remove ${name}`} data-testid="remove-question">
          <p>
            {count > 0
              ? `Remove “${name}”: what becomes of ${count === 1 ? "its label" : `its ${count} labels`}?`
              : `Remove “${name}”?`}
          </p>
          {count > 0 && (
            <ClassChoice testid="heir" rest={rest} chosen={heir} onChoose={setHeir} none="unlabelled again" />
          )}
          <div class="row">
            <button type="button" onClick={() => setRemoving(false)}>
              No
            </button>
            <button
              type="button"
              class="main"
              data-testid="remove-yes"
              onClick={() => void onChange("api/classes/remove", { number, into: heir }, `“${name}” is removed.`)}
            >
              Remove “{name}”
            </button>
          </div>
        </div>
      )}
    </div>
  );
}

function ClassChoice({
  testid,
  rest,
  chosen,
  onChoose,
  none,
}: {
  testid: string;
  rest: ClassShown[];
  chosen: number | null;
  onChoose: (number: number | null) => void;
  none: string;
}) {
  return (
    <select
      data-testid={testid}
      aria-label={none === "unlabelled again" ? "What becomes of its labels" : undefined}
      value={chosen === null ? "" : String(chosen)}
      onChange={(event) => onChoose(event.currentTarget.value === "" ? null : Number(event.currentTarget.value))}
    >
      <option value="">{none}</option>
      {rest.map((other) => (
        <option key={other.number} value={String(other.number)}>
          {none === "unlabelled again" ? `labelled ${other.name}` : other.name}
        </option>
      ))}
    </select>
  );
}
