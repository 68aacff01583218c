// Items on which people differ, the most disputed first: what everybody said side by side, and one key to settle it.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { prepare } from "../content.ts";
import { decideElsewhere, undoElsewhere } from "../desk.ts";
import { belongsToFocus, consume, focusStage } from "../focus.ts";
import { Columns, LoadedItem, Thumb, ZoomControl, zoomByKey } from "../item.tsx";
import { classOfKey, isTyping, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, classView, classes, dialog, query, say, status, styles, waiting } from "../state.ts";
import type { Dispute, DisputeList, Opinion } from "../types.ts";
import { number, plural, when } from "../words.ts";
import { ClassButtons, FindClass } from "./classes.tsx";

const LISTED = 100; // of which the strip shows the first
const IN_STRIP = 24;
const QUIET = 150; // ms without news before the list is fetched again
const FILTERS = ["label", "other", "person"] as const;

const withSettled = signal(false);
const totals = signal({ disputed: 0, decided: 0 });

/** Beside the tabs: whether settled items are shown too, and what the address narrows the list to. */
export function DisputesOptions() {
  const given = new URLSearchParams(query.value);
  const pair = [given.get("label"), given.get("other")].filter((each) => each !== null);
  const words = [...pair, given.get("person")].filter((each) => each !== null);
  return (
    <div class="tab-options">
      {words.length > 0 && (
        <a class="button chip" href="#/review/disputes" data-testid="disputes-filter" title="Show all disputes">
          {words.join(" and ")} <span aria-hidden="true">✕</span>
          <span class="unseen">, show all disputes</span>
        </a>
      )}
      {(totals.value.decided > 0 || withSettled.value) && (
        <label class="check" title="Show items that are settled, too">
          <input
            type="checkbox"
            data-testid="show-settled"
            checked={withSettled.value}
            onChange={(event) => {
              withSettled.value = event.currentTarget.checked;
              focusStage();
            }}
          />
          Settled too ({number(totals.value.decided)})
        </label>
      )}
    </div>
  );
}

function addressOf(): string {
  const wanted = new URLSearchParams({ n: String(LISTED) });
  const given = new URLSearchParams(query.value);
  for (const name of FILTERS) {
    const value = given.get(name);
    if (value) wanted.set(name, value);
  }
  if (!withSettled.value) wanted.set("state", "disputed");
  return `api/disputes?${wanted.toString()}`;
}

/** What one person said, with the colour of its class. */
function Said({ opinion, counts }: { opinion: Opinion; counts: number }) {
  const { label, note } = opinion;
  const colour = label === null ? null : styles.value.get(label)?.colour;
  return (
    <li class={label === counts ? "said counts" : "said"} data-annotator={opinion.annotator}>
      <span class="faint">{opinion.annotator}</span>
      <b>
        {colour && <span class="swatch" style={{ background: colour }} aria-hidden="true" />}
        {label !== null ? className(label) : opinion.unknown ? "cannot tell" : "flagged it"}
      </b>
      {opinion.at !== null && (
        <small>
          {when(opinion.at)}
          {opinion.source === "review" && ", in a review"}
          {opinion.source === "grid" && ", one of many"}
          {opinion.source === "import" && ", imported"}
          {opinion.is_later && ", after it was settled"}
        </small>
      )}
      {note !== null && <q class="said-note">{note || "flagged"}</q>}
    </li>
  );
}

/** Where the item stands, in a sentence. */
function StateLine({ dispute }: { dispute: Dispute }) {
  const { settlement, label } = dispute;
  const answers = dispute.opinions.filter((opinion) => opinion.label !== null);
  const alike = answers.filter((opinion) => opinion.label === label).length;
  if (settlement)
    return (
      <p class="state-line" data-testid="dispute-state" data-state="settled">
        <b>{settlement.by}</b> settled it as <b class="accent">{className(settlement.label)}</b>, {when(settlement.at)}
        {settlement.note && (
          <>
            : <q>{settlement.note}</q>
          </>
        )}
        {settlement.contradicted_by.length > 0 && (
          <>
            . <em>{settlement.contradicted_by.join(", ")} labelled it otherwise since.</em>
          </>
        )}
      </p>
    );
  return (
    <p class="state-line" data-testid="dispute-state" data-state={dispute.state}>
      {dispute.resolution === "review" ? (
        <>
          A review made it <b>{className(label)}</b>
        </>
      ) : (
        <>
          {dispute.is_tie ? "As many say one as another: " : `${number(alike)} of ${plural(answers.length, "person", "people")} said `}
          <b>{className(label)}</b>
          {dispute.is_tie && " was said first"}
        </>
      )}
      {dispute.state === "disputed" ? ", which counts until it is settled." : "."}
    </p>
  );
}

function settledNow(dispute: Dispute, label: number, note: string): Dispute {
  const settlement = { label, by: annotator.value ?? "", at: Date.now() / 1000, note, contradicted_by: [] };
  return { ...dispute, state: "settled", label, resolution: "settled", settlement };
}

export function DisputesView() {
  const [list, setList] = useState<Dispute[] | null>(null);
  const [found, setFound] = useState(0);
  const [item, setItem] = useState<number | null>(null); // that is looked at
  const [done, setDone] = useState<Dispute[]>([]); // as they were before, latest last, for undo
  const [trouble, setTrouble] = useState("");
  const [note, setNote] = useState<{ item: number; words: string } | null>(null);
  const place = useRef(0); // of the item in the list: whatever stands there is next once it has gone
  const sent = useRef(new Set<number>()); // settled here, so that they are expected to leave the list
  const field = useRef<HTMLInputElement>(null);
  const at = list?.findIndex((dispute) => dispute.item === item) ?? -1;
  if (at >= 0) place.current = at;
  const now = list?.[at >= 0 ? at : Math.min(place.current, list.length - 1)];
  const shown = useRef(now);
  shown.current = now;
  const version = status.value?.version;
  const isWaiting = waiting.value > 0; // the server has not heard of all that was settled here
  const all = withSettled.value;
  const filter = query.value;

  useEffect(() => {
    if (isWaiting) return;
    let wanted = true;
    const timer = setTimeout(
      () =>
        get<DisputeList>(addressOf()).then(
          (fresh) => {
            if (!wanted) return;
            const seen = shown.current;
            const gone = seen && !fresh.disputes.some((dispute) => dispute.item === seen.item);
            if (gone && !sent.current.has(seen.item) && list !== null)
              say("This item is not disputed any more: somebody settled it, or changed a label.");
            totals.value = { disputed: fresh.disputed, decided: fresh.settled + fresh.review };
            setList(fresh.disputes);
            setFound(fresh.found);
            if (seen && !gone) setItem(seen.item);
            setTrouble("");
          },
          (error: unknown) => {
            if (!wanted) return;
            setTrouble(error instanceof Failure ? error.message : String(error));
            setList((known) => known ?? []);
          },
        ),
      list === null ? 0 : QUIET,
    );
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [version, isWaiting, all, filter]);
  useEffect(() => {
    for (const dispute of list?.slice(place.current, place.current + 4) ?? []) void prepare(dispute);
  }, [list, item]);

  const written = note && note.item === now?.item ? note.words : (now?.settlement?.note ?? "");
  const isWriting = note !== null && note.item === now?.item;
  const go = (to: number) => list && setItem(list[Math.max(0, Math.min(to, list.length - 1))]?.item ?? null);
  const settle = (index: number) => {
    if (!list || !now) return;
    const body = { item: now.item, label: index, note: written.trim() };
    decideElsewhere("api/settle", body, now, `settled as ${className(index)}`);
    sent.current.add(now.item);
    setDone([...done, now]);
    const next = list[place.current + 1] ?? list[place.current - 1];
    setList(
      all
        ? list.map((dispute) => (dispute === now ? settledNow(now, index, body.note) : dispute))
        : list.filter((dispute) => dispute !== now),
    );
    setFound(all ? found : found - 1);
    setItem(next?.item ?? null);
    setNote(null);
    focusStage(); // so that Enter is not a second click
    say(`Settled as ${className(index)}.`);
  };
  const takeBack = () => {
    if (!undoElsewhere()) return;
    const last = done.at(-1);
    if (last && list) {
      const others = list.filter((dispute) => dispute.item !== last.item);
      sent.current.delete(last.item);
      setDone(done.slice(0, -1));
      setList([last, ...others]);
      setItem(last.item);
    }
    say("Undone.");
  };
  const write = () => {
    if (!now) return;
    setNote({ item: now.item, words: written });
  };
  useEffect(() => {
    if (isWriting) field.current?.focus();
  }, [isWriting]);
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (dialog.value !== null || isTyping(event.target)) return;
      const key = nameOf(event);
      if (key === null || belongsToFocus(key, event.target)) return;
      if (zoomByKey(key)) return consume(event);
      if (event.repeat) return;
      const map = keyMap.value;
      const index = classOfKey(key, classes.value, map, classView.value);
      if (key === keyOf("take", map)) now?.majority != null && settle(now.majority);
      else if (key === keyOf("forward", map)) go(place.current + 1);
      else if (key === keyOf("backward", map)) go(place.current - 1);
      else if (key === keyOf("undo", map) || key === "Ctrl+z") takeBack();
      else if (key === keyOf("find", map)) dialog.value = "find";
      else if (key === keyOf("classes", map)) dialog.value = "classes";
      else if (key === keyOf("help", map) || key === "h") dialog.value = "help";
      else if (index !== null) settle(index);
      else if (key === keyOf("remark", map)) write();
      else return;
      consume(event);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const key = (action: "take" | "undo" | "remark") => <kbd>{shownKey(keyOf(action, keyMap.value))}</kbd>;
  if (list === null)
    return (
      <p class="centre faint" role="status">
        Looking for items on which people differ…
      </p>
    );
  if (!now)
    return (
      <div class="card done" data-testid="disputes-empty">
        <div class="tick-mark" aria-hidden="true">
          ✓
        </div>
        <h1>Nothing is disputed</h1>
        <p>
          {trouble ||
            (totals.value.decided > 0
              ? `People agree, or a reviewer has settled it: ${plural(totals.value.decided, "item")}.`
              : "Items that two or more people labelled differently are listed here.")}
        </p>
        <div class="row">
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
  return (
    <div class="label review disputes">
      <h1 class="unseen">Disputes</h1>
      <section
        class="stage"
        tabIndex={-1}
        data-testid="dispute-card"
        data-item={now.item}
        aria-label="Item on which people differ"
      >
        <LoadedItem key={now.item} shown={now} testid="dispute-item" />
        <Columns item={now.item} columns={now.columns} />
        <div class="caption">
          <div class="item-id" title={now.id}>
            {now.id}
          </div>
          {now.kind === "image" && <ZoomControl />}
        </div>
      </section>
      <div class="below">
        <ul class="opinions" data-testid="opinions" tabIndex={0} aria-label="What everybody said">
          {now.opinions.map((opinion) => (
            <Said key={opinion.annotator} opinion={opinion} counts={now.label} />
          ))}
        </ul>
        <StateLine dispute={now} />
        {isWriting && (
          <input
            ref={field}
            class="field"
            type="text"
            data-testid="dispute-note"
            aria-label="Note that is kept with the settlement"
            placeholder="Why? Kept with the settlement; Enter when it is written"
            maxLength={500}
            value={written}
            onInput={(event) => setNote({ item: now.item, words: event.currentTarget.value })}
            onKeyDown={(event) => {
              if (event.key !== "Enter" && event.key !== "Escape") return;
              event.preventDefault();
              if (event.key === "Escape") setNote(null);
              focusStage();
            }}
          />
        )}
        <div class="acts">
          {now.majority !== null && (
            <button
              type="button"
              class="act main"
              data-testid="settle-majority"
              onClick={() => now.majority !== null && settle(now.majority)}
            >
              Settle as {className(now.majority)}
              {now.is_tie ? "" : ", as most say"} {key("take")}
            </button>
          )}
          <button type="button" class="act" data-testid="write-note" aria-pressed={isWriting} onClick={write}>
            Note {key("remark")}
          </button>
          <button type="button" class="act" data-testid="undo" onClick={takeBack}>
            Undo {key("undo")}
          </button>
        </div>
        <div class="strip" role="group" aria-label={plural(found, "item")}>
          {list.slice(0, IN_STRIP).map((dispute) => (
            <button
              type="button"
              key={dispute.item}
              class={`strip-item${dispute === now ? " on" : ""}${dispute.state === "disputed" ? "" : " decided"}`}
              aria-current={dispute === now}
              title={dispute.opinions.flatMap(({ label }) => (label === null ? [] : [className(label)])).join(", ")}
              onClick={() => setItem(dispute.item)}
            >
              <Thumb item={dispute.item} kind={dispute.kind} text={dispute.text} alt={`item ${dispute.id}`} />
            </button>
          ))}
          {found > IN_STRIP && <span class="faint">and {number(found - IN_STRIP)} more</span>}
        </div>
      </div>
      <aside class="side" aria-label="Classes to settle it as">
        <ClassButtons onChoose={settle} chosen={now.settlement?.label ?? null} counts={false} verb="Settle as" />
      </aside>
      {dialog.value === "find" && <FindClass mode="find" onChoose={settle} item={now.item} />}
    </div>
  );
}
