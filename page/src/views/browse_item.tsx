// One item of a list, large: what everybody said of it, and what can be done about it.
import { STATE_WORDS } from "../browse.ts";
import { Columns, LoadedItem } from "../item.tsx";
import { keyOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, may, status } from "../state.ts";
import type { BrowsedItem } from "../types.ts";
import { likelihood, percent } from "../words.ts";
import { ClassButtons } from "./classes.tsx";

const SHORT = 400; // characters of a text that a list has; a longer one is fetched
const SOURCES: Record<string, string> = { grid: "grid", review: "review", browse: "from a list", import: "imported" };
const ASIDE: [state: string, what: string, words: string][] = [
  ["flagged", "flagged", "Take the flag away"],
  ["skipped", "skipped", "Put back: skipped"],
  ["unknown", "dont_know", "Put back: not known"],
  ["bad", "bad", "Put back: bad"],
];

const when = (at: number) =>
  new Date(at * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });

export interface ItemActs {
  onLabel: (index: number) => void;
  onFlag: () => void;
  onNote: () => void;
  onBad: () => void;
  onPutBack: (what: string) => void;
  onUndo: () => void;
  onSimilar: () => void;
  onStep: (by: 1 | -1) => void;
  onClose: () => void;
}

function Said({ shown }: { shown: BrowsedItem }) {
  const rough = status.value?.calibration?.rough;
  const others: [string[], string][] = [
    [shown.skipped_by, "skipped it"],
    [shown.unknown_to, "did not know"],
    [shown.bad_by, "called it bad"],
  ];
  return (
    <ul class="panel-said" data-testid="said">
      {shown.labels.map((each) => (
        <li key={`label ${each.by}`}>
          <b>{className(each.label)}</b> <span>{each.by}</span>{" "}
          <span class="faint">
            {when(each.at)}
            {SOURCES[each.source] && `, ${SOURCES[each.source]}`}
          </span>
        </li>
      ))}
      {others.flatMap(([people, words]) =>
        people.map((name) => (
          <li key={words + name}>
            <span>{name}</span> {words}
          </li>
        )),
      )}
      {shown.flags.map((flag) => (
        <li key={`flag ${flag.by}`} data-testid="flag-shown">
          <span class="flagged">⚑</span> <span>{flag.by}</span>
          {flag.note ? <q>{flag.note}</q> : <span class="faint"> without a note</span>}
        </li>
      ))}
      {shown.held_by !== null && <li>It is with {shown.held_by} now.</li>}
      {shown.suggestion !== null && (
        <li class="faint">
          The model says {className(shown.suggestion)}
          {shown.confidence !== null && ` (${likelihood(shown.confidence, rough)})`}
          {shown.surprise !== null && shown.label !== shown.suggestion && `; surprise ${percent(shown.surprise)}`}
        </li>
      )}
      {shown.labels.length === 0 && shown.suggestion === null && shown.at === null && (
        <li class="faint">Nobody has said anything about it.</li>
      )}
    </ul>
  );
}

export function BrowseItem({ shown, place, acts }: { shown: BrowsedItem; place: string; acts: ItemActs }) {
  const text = shown.text !== null && shown.text.length < SHORT ? shown.text : null;
  const isMine = shown.flags.some((flag) => flag.by === annotator.value);
  const key = (action: "flag" | "bad" | "undo") => <kbd>{shownKey(keyOf(action, keyMap.value))}</kbd>;
  return (
    <section class="item-panel" data-testid="panel" data-item={shown.item} aria-label={`Item ${shown.id}`}>
      <header class="panel-head">
        <button type="button" class="quiet" data-testid="previous" aria-label="Previous item" onClick={() => acts.onStep(-1)}>
          ←
        </button>
        <button type="button" class="quiet" data-testid="next" aria-label="Next item" onClick={() => acts.onStep(1)}>
          →
        </button>
        <span class="faint small" data-testid="panel-place">
          {place}
        </span>
        <button type="button" class="quiet close" data-testid="close-panel" aria-label="Close the item" onClick={acts.onClose}>
          ✕
        </button>
      </header>
      <div class="stage" tabIndex={-1}>
        <LoadedItem key={shown.item} shown={{ ...shown, text }} testid="panel-item" />
        <Columns item={shown.item} columns={shown.columns} />
      </div>
      <h2 class="panel-name" title={shown.id}>
        {shown.id}
      </h2>
      <p class="panel-states" data-testid="panel-states">
        {shown.label !== null && <b data-testid="panel-label">{className(shown.label)}</b>}
        {shown.states.map((state) => (
          <span key={state} class={`mark ${state}`}>
            {STATE_WORDS[state]}
          </span>
        ))}
      </p>
      <Columns item={shown.item} columns={shown.columns} />
      <Said shown={shown} />
      <div class="panel-acts">
        <button type="button" data-testid="similar" onClick={acts.onSimilar}>
          Similar ones
        </button>
        <button type="button" data-testid="panel-flag" onClick={isMine ? acts.onNote : acts.onFlag}>
          {isMine ? "Change the note" : "Flag"} {!isMine && key("flag")}
        </button>
        {!isMine && (
          <button type="button" data-testid="panel-note" onClick={acts.onNote}>
            Flag with a note
          </button>
        )}
        {shown.bad_by.length === 0 && (
          <button type="button" data-testid="panel-bad" onClick={acts.onBad}>
            Bad item {key("bad")}
          </button>
        )}
        {ASIDE.filter(([state]) => may("reviewer") && shown.states.includes(state)).map(([, what, words]) => (
          <button type="button" key={what} data-testid={`put-back-${what}`} onClick={() => acts.onPutBack(what)}>
            {words}
          </button>
        ))}
        <button type="button" data-testid="panel-undo" onClick={acts.onUndo}>
          Undo {key("undo")}
        </button>
      </div>
      <ClassButtons onChoose={acts.onLabel} chosen={shown.label} counts={false} verb="Label" />
    </section>
  );
}
