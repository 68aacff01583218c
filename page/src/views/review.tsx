// Looking at labels again. Labels that surprise the surrogate, worst first: keep, take what was expected, or choose
// another class. Items on which people differ are the other tab.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { prepare } from "../content.ts";
import { decideElsewhere, undoElsewhere } from "../desk.ts";
import { belongsToFocus, consume } from "../focus.ts";
import { Columns, LoadedItem, Thumb, ZoomControl, zoomByKey } from "../item.tsx";
import { classOfKey, isTyping, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { className, classView, classes, dialog, part, say, status } from "../state.ts";
import type { Doubt } from "../types.ts";
import { percent } from "../words.ts";
import { ClassButtons, FindClass } from "./classes.tsx";
import { DisputesOptions, DisputesView } from "./disputes.tsx";

function Tab({ name, to, count, words }: { name: string; to: string; count: number; words: string }) {
  const isOpen = part.value === to;
  return (
    <a href={to ? `#/review/${to}` : "#/review"} data-testid={`tab-${name}`} aria-current={isOpen ? "page" : undefined}>
      {words}
      {count > 0 && <span class="badge">{count}</span>}
    </a>
  );
}

export function ReviewView() {
  const disputes = part.value === "disputes";
  return (
    <>
      <div class="tab-bar">
        <nav class="tabs" aria-label="What to review">
          <Tab name="surprising" to="" count={status.value?.suspicious ?? 0} words="Surprising labels" />
          <Tab name="disputes" to="disputes" count={status.value?.disputed ?? 0} words="Disputes" />
        </nav>
        {disputes && <DisputesOptions />}
      </div>
      {disputes ? <DisputesView /> : <SurprisingLabels />}
    </>
  );
}

function SurprisingLabels() {
  const [doubts, setDoubts] = useState<Doubt[] | null>(null);
  const [done, setDone] = useState<Doubt[]>([]); // latest last, for undo
  const [at, setAt] = useState(0);
  const [trouble, setTrouble] = useState("");
  const card = useRef<HTMLElement>(null);
  const load = () =>
    get<Doubt[]>("api/review?n=50").then(
      (found) => {
        setDoubts(found);
        setDone([]);
        setAt(0);
        setTrouble("");
      },
      (error: unknown) => {
        setDoubts([]);
        setTrouble(error instanceof Failure ? error.message : String(error));
      },
    );
  useEffect(() => void load(), []);
  const now = doubts?.[Math.min(at, doubts.length - 1)];
  useEffect(() => {
    for (const doubt of doubts?.slice(at, at + 4) ?? []) void prepare(doubt);
  }, [doubts, at]);
  const settle = (words: string) => {
    if (!doubts || !now) return;
    setDone([...done, now]);
    setDoubts(doubts.filter((doubt) => doubt !== now));
    setAt(Math.max(0, Math.min(at, doubts.length - 2)));
    card.current?.focus({ preventScroll: true }); // so that Enter is not a second click
    say(words);
  };
  const keep = () => {
    if (!now) return;
    decideElsewhere("api/keep", { item: now.item }, now, `kept ${className(now.label)}`);
    settle(`Kept ${className(now.label)}.`);
  };
  const change = (index: number) => {
    if (!now) return;
    if (index === now.label) return keep();
    decideElsewhere("api/labels", { item: now.item, label: index, source: "review" }, now, className(index));
    settle(`Changed to ${className(index)}.`);
  };
  const takeBack = () => {
    if (!undoElsewhere()) return;
    const last = done.at(-1);
    if (last && doubts) {
      setDone(done.slice(0, -1));
      setDoubts([last, ...doubts]);
      setAt(0);
    }
    say("Undone.");
  };
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (dialog.value !== null || isTyping(event.target)) return;
      const key = nameOf(event);
      if (key === null || belongsToFocus(key, event.target)) return;
      if (zoomByKey(key)) return consume(event);
      if (event.repeat) return;
      const map = keyMap.value;
      const index = classOfKey(key, classes.value, map, classView.value);
      if (key === keyOf("keep", map)) keep();
      else if (key === keyOf("take", map) || (key === "w" && !map.take)) now && change(now.expected);
      else if (key === keyOf("forward", map)) setAt(Math.min(at + 1, (doubts?.length ?? 1) - 1));
      else if (key === keyOf("backward", map)) setAt(Math.max(at - 1, 0));
      else if (key === keyOf("undo", map) || key === "Ctrl+z") takeBack();
      else if (key === keyOf("find", map)) dialog.value = "find";
      else if (key === keyOf("classes", map)) dialog.value = "classes";
      else if (key === keyOf("help", map) || key === "h") dialog.value = "help";
      else if (index !== null) change(index);
      else return;
      consume(event);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const key = (action: "keep" | "take" | "undo") => <kbd>{shownKey(keyOf(action, keyMap.value))}</kbd>;
  if (doubts === null)
    return (
      <p class="centre faint" role="status">
        Looking for labels that surprise…
      </p>
    );
  if (!now) {
    return (
      <div class="card done" data-testid="review-empty">
        <div class="tick-mark" aria-hidden="true">
          ✓
        </div>
        <h1>Nothing waits for a review</h1>
        <p>
          {trouble ||
            (done.length > 0
              ? "You have looked at all of them."
              : "No label surprises the model. It needs some labels and a training before it can be surprised.")}
        </p>
        <div class="row">
          <button type="button" onClick={() => void load()}>
            Look again
          </button>
          {done.length > 0 && (
            <button type="button" data-testid="undo" onClick={takeBack}>
              Undo {key("undo")}
            </button>
          )}
          <a class="button" href="#/label">
            Back to labelling
          </a>
        </div>
      </div>
    );
  }
  return (
    <div class="label review">
      <h1 class="unseen">Review</h1>
      <section
        class="stage"
        ref={card}
        tabIndex={-1}
        data-testid="review-card"
        data-item={now.item}
        aria-label="Label to review"
      >
        <LoadedItem key={now.item} shown={now} testid="review-item" />
        <Columns item={now.item} columns={now.columns} />
        <div class="caption">
          <div class="item-id" title={now.id}>
            {now.id}
          </div>
          {now.kind === "image" && <ZoomControl />}
        </div>
      </section>
      <div class="below">
        <div class="verdict">
          <div>
            <span class="faint">{now.by} said</span>
            <b>{className(now.label)}</b>
          </div>
          <span class="arrow" aria-hidden="true">
            →
          </span>
          <div>
            <span class="faint">expected</span>
            <b class="accent">{className(now.expected)}</b>
          </div>
          <div class="surprise" title="0%: just what was expected; 100%: certain of the contrary">
            <span class="faint">surprise {percent(now.surprise)}</span>
            <span class="meter">
              <span style={{ width: percent(Math.min(1, now.surprise)) }} />
            </span>
          </div>
        </div>
        <div class="acts">
          <button type="button" class="act" data-testid="review-keep" onClick={keep}>
            Keep {className(now.label)} {key("keep")}
          </button>
          <button type="button" class="act main" data-testid="review-take" onClick={() => change(now.expected)}>
            Change to {className(now.expected)} {key("take")}
          </button>
          <button type="button" class="act" data-testid="undo" onClick={takeBack}>
            Undo {key("undo")}
          </button>
        </div>
        <div class="strip" role="group" aria-label={`${doubts.length} labels to review`}>
          {doubts.slice(0, 24).map((doubt, i) => (
            <button
              type="button"
              key={doubt.item}
              class={doubt === now ? "strip-item on" : "strip-item"}
              aria-current={doubt === now}
              title={`${className(doubt.label)}, expected ${className(doubt.expected)}`}
              onClick={() => setAt(i)}
            >
              <Thumb item={doubt.item} kind={doubt.kind} text={doubt.text} alt={`item ${doubt.id}`} />
            </button>
          ))}
          {doubts.length > 24 && <span class="faint">and {doubts.length - 24} more</span>}
        </div>
      </div>
      <aside class="side" aria-label="Another class">
        <ClassButtons onChoose={change} chosen={now.label} guess={now.expected} counts={false} verb="Change to" />
      </aside>
      {dialog.value === "find" && <FindClass mode="find" onChoose={change} item={now?.item} />}
    </div>
  );
}
