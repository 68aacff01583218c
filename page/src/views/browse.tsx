// All items: found by what is known of them, seen, and decided one by one or many at once.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { between, callOf, hashOf, isFiltered, wantedOf } from "../browse.ts";
import type { Wanted } from "../browse.ts";
import { decideElsewhere, undo } from "../desk.ts";
import { belongsToFocus, consume } from "../focus.ts";
import { Thumb } from "../item.tsx";
import { classOfKey, isTyping, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, classView, classes, dialog, may, offered, say, status, styles, viewOf, waiting } from "../state.ts";
import type { BrowsePage, BrowsedItem } from "../types.ts";
import { likelihood, number, plural, sentence } from "../words.ts";
import { BrowseFilters } from "./browse_filters.tsx";
import { BrowseItem } from "./browse_item.tsx";
import { FindClass } from "./classes.tsx";
import { FlagNote } from "./flag_note.tsx";

const SIZE = 60; // items of a page
const MOST = 5000; // decided at once
const LATER = 1500; // ms until what others did is looked at
const MARKS: [state: string, sign: string, words: string][] = [
  ["flagged", "⚑", "flagged"],
  ["disputed", "≠", "disputed"],
  ["skipped", "↷", "skipped"],
  ["unknown", "?", "not known"],
  ["bad", "✕", "bad"],
  ["leased", "…", "with somebody"],
];
const PUT_BACK: Record<string, string> = { flagged: "flagged", skipped: "skipped", unknown: "dont_know", bad: "bad" };

const wanted = signal<Wanted>(wantedOf(location.hash));
addEventListener("hashchange", () => viewOf(location.hash) === "browse" && (wanted.value = wantedOf(location.hash)));

/** Ask for another list, or another item of it. The back button leads to the one before, unless this replaces it. */
function want(change: Partial<Wanted>, replaces = false): void {
  const next = { ...wanted.value, ...change };
  const hash = hashOf(next);
  if (hash === location.hash) return;
  if (replaces) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  wanted.value = next;
}

function Foot({ shown }: { shown: BrowsedItem }) {
  const colour = shown.label === null ? null : styles.value.get(shown.label)?.colour;
  const rough = status.value?.calibration?.rough;
  return (
    <span class="hit-foot">
      {colour && <span class="swatch" style={{ background: colour }} aria-hidden="true" />}
      {shown.label !== null ? (
        <b class="hit-label">{className(shown.label)}</b>
      ) : shown.suggestion !== null ? (
        <span class="hit-label faint">
          {className(shown.suggestion)}?{shown.confidence !== null && ` ${likelihood(shown.confidence, rough)}`}
        </span>
      ) : (
        <span class="hit-label faint">–</span>
      )}
      {MARKS.filter(([state]) => shown.states.includes(state)).map(([state, sign, words]) => (
        <span key={state} class={`sign ${state}`} title={words}>
          <span aria-hidden="true">{sign}</span>
          <span class="unseen"> {words}</span>
        </span>
      ))}
    </span>
  );
}

/** How many tiles stand side by side. */
function columns(list: Element | null): number {
  const tiles = [...(list?.children ?? [])] as HTMLElement[];
  return Math.max(1, tiles.filter((tile) => tile.offsetTop === tiles[0]?.offsetTop).length);
}

/** The pages of the list that is wanted; what others change on it comes by itself, unless items would move about. */
function useList(now: Wanted) {
  const [page, setPage] = useState<BrowsePage | null>(null);
  const [moved, setMoved] = useState<BrowsePage | null>(null);
  const [trouble, setTrouble] = useState("");
  const call = callOf(now, SIZE);
  const latest = useRef(call);
  latest.current = call;
  const load = async (mayMove: boolean) => {
    try {
      const fresh = await get<BrowsePage>(call);
      if (latest.current !== call) return;
      const last = Math.max(1, Math.ceil(fresh.total / SIZE));
      if (fresh.items.length === 0 && now.page > last) return want({ page: last }, true);
      setTrouble("");
      setPage((before) => {
        const isSame = before?.offset === fresh.offset && before.items.every((each, i) => each.item === fresh.items[i]?.item);
        const stays = before === null || mayMove || (isSame && before.items.length === fresh.items.length);
        setMoved(stays ? null : fresh);
        return stays ? fresh : before;
      });
    } catch (error) {
      if (latest.current === call) setTrouble(error instanceof Failure ? error.message : String(error));
    }
  };
  useEffect(() => void load(true), [call]);
  const timer = useRef(0);
  const loadLater = useRef(load);
  loadLater.current = load;
  useEffect(() => {
    if (timer.current) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      void loadLater.current(false);
    }, LATER);
  }, [status.value?.version]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const takeMoved = () => {
    setPage(moved);
    setMoved(null);
  };
  return { page, moved, trouble, load, takeMoved };
}

/** The item that is shown large: from the page, or by itself where it is on another one. */
function useOpened(now: Wanted, page: BrowsePage | null): BrowsedItem | null {
  const [alone, setAlone] = useState<BrowsedItem | null>(null);
  const onPage = page?.items.find((each) => each.item === now.open) ?? null;
  const version = status.value?.version;
  useEffect(() => {
    if (now.open === null || onPage) return;
    let isWanted = true;
    get<BrowsePage>(`api/items?item=${now.open}`).then(
      (found) => isWanted && setAlone(found.items[0] ?? null),
      (error: unknown) => {
        if (!isWanted) return;
        say(error instanceof Failure ? sentence(error.message) : String(error), "bad");
        want({ open: null }, true);
      },
    );
    return () => {
      isWanted = false;
    };
  }, [now.open, onPage === null, version]);
  return onPage ?? (alone?.item === now.open ? alone : null);
}

export function BrowseView() {
  const now = wanted.value;
  const { page, moved, trouble, load, takeMoved } = useList(now);
  const opened = useOpened(now, page);
  const [picked, setPicked] = useState<Set<number>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const [noteFor, setNoteFor] = useState<number[]>([]);
  const list = useRef<HTMLUListElement>(null);
  const anchor = useRef<number | null>(null);
  const lastPlace = useRef(0);
  const openAt = useRef<"first" | "last" | null>(null);
  const own = useRef(false);
  const items = page?.items.map((each) => each.item) ?? [];
  const filter = hashOf({ ...now, page: 1, open: null, sort: "" });

  useEffect(() => {
    wanted.value = wantedOf(location.hash);
  }, []);
  useEffect(() => setPicked(new Set()), [filter]);
  useEffect(() => {
    if (own.current && waiting.value === 0) {
      own.current = false;
      void load(true);
    }
  }, [waiting.value]);
  useEffect(() => {
    if (now.open !== null && items.includes(now.open)) lastPlace.current = items.indexOf(now.open);
    const edge = openAt.current === "first" ? items[0] : openAt.current === "last" ? items.at(-1) : undefined;
    if (edge === undefined || page?.offset !== (now.page - 1) * SIZE) return;
    openAt.current = null;
    want({ open: edge }, true);
  }, [page, now.open]);

  // -- what is decided ---------------------------------------------------------------------------------------

  const decide = (path: string, chosen: number[], more: Record<string, unknown>, words: string) => {
    if (chosen.length === 0) return;
    if (chosen.length > MOST) return say(`${number(MOST)} items at most can be decided at once.`, "bad");
    const item = chosen.length === 1 ? (chosen[0] ?? null) : null;
    own.current = true;
    decideElsewhere(`api/items/${path}`, { items: chosen, ...more }, { item, id: null }, words);
    say(chosen.length === 1 ? sentence(words) : `${plural(chosen.length, "item")}: ${words}.`);
  };
  const chosen = () => (now.open !== null ? [now.open] : [...picked]);
  const label = (index: number) => decide("label", chosen(), { label: index }, className(index));
  const flag = (note = "", of = chosen()) => decide("flag", of, { on: true, note }, note ? `flagged: ${note}` : "flagged");
  const bad = () => decide("bad", chosen(), {}, "bad");
  const putBack = (what: string) => decide("put-back", chosen(), { what }, "put back");
  const askNote = () => {
    if (chosen().length === 0) return;
    setNoteFor(chosen());
    dialog.value = "note";
  };
  const takeBack = () => {
    own.current = true;
    undo();
    say("Undone.");
  };

  // -- what is chosen ----------------------------------------------------------------------------------------

  const toggle = (item: number) => {
    const next = new Set(picked);
    if (!next.delete(item)) next.add(item);
    anchor.current = item;
    setPicked(next);
  };
  const pickTo = (item: number) => {
    setPicked(new Set([...picked, ...between(items, anchor.current ?? item, item)]));
  };
  const pickPage = () => setPicked(new Set([...picked, ...items]));
  const pickAll = async () => {
    const found = await get<BrowsePage>(callOf({ ...now, page: 1 }, SIZE, true)).catch(() => null);
    if (!found) return say("The server does not answer.", "bad");
    setPicked(new Set(found.rows));
    if (found.total > found.rows.length) say(`The first ${number(found.rows.length)} are selected; that is as many as can be decided at once.`);
  };
  const focusTile = (item: number) => {
    setCursor(item);
    const tile = list.current?.querySelector<HTMLElement>(`[data-item="${item}"] .hit-open`);
    tile?.focus();
    tile?.scrollIntoView({ block: "nearest" });
  };
  const move = (by: number) => {
    const at = cursor === null ? -1 : items.indexOf(cursor);
    const next = items[at < 0 ? 0 : Math.min(items.length - 1, Math.max(0, at + by))];
    if (next !== undefined) focusTile(next);
  };
  const pages = Math.max(1, Math.ceil((page?.total ?? 0) / SIZE));
  const step = (by: 1 | -1) => {
    const at = now.open === null ? -1 : items.indexOf(now.open);
    const next = at >= 0 ? at + by : by > 0 ? lastPlace.current : lastPlace.current - 1; // it has left the list
    if (items[next] !== undefined && next >= 0) return want({ open: items[next] }, true);
    if (by > 0 ? now.page >= pages : now.page <= 1) return;
    openAt.current = by > 0 ? "first" : "last";
    want({ page: now.page + by }, true);
  };
  const close = () => {
    const item = now.open;
    want({ open: null });
    if (item !== null) setTimeout(() => focusTile(item));
  };
  const turn = (to: number) => {
    want({ page: to, open: null });
    list.current?.parentElement?.scrollTo(0, 0);
  };
  const openByName = async (name: string) => {
    const found = await get<BrowsePage>(`api/items?limit=1&id=${encodeURIComponent(name)}`).catch(() => null);
    const item = found?.items[0]?.item;
    if (item !== undefined) want({ open: item });
  };

  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (dialog.value !== null || isTyping(event.target)) return;
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "a") {
        pickPage();
        return consume(event);
      }
      const key = nameOf(event);
      if (key === null) return;
      const onTile = event.target instanceof Element && event.target.closest(".hit-open") !== null;
      if (belongsToFocus(key, event.target) && !onTile) return;
      const map = keyMap.value;
      const isOpen = now.open !== null;
      const index = classOfKey(key, classes.value, map, classView.value);
      const at = cursor !== null && items.includes(cursor) ? cursor : null;
      if (key === "Escape" && isOpen) close();
      else if (key === "Escape" && picked.size > 0) setPicked(new Set());
      else if (key === "ArrowRight") isOpen ? step(1) : move(1);
      else if (key === "ArrowLeft") isOpen ? step(-1) : move(-1);
      else if (key === "ArrowDown" && !isOpen) move(columns(list.current));
      else if (key === "ArrowUp" && !isOpen) move(-columns(list.current));
      else if (key === "Enter" && at !== null && !isOpen) want({ open: at });
      else if (key === "Space" && at !== null) event.shiftKey ? pickTo(at) : toggle(at);
      else if (event.repeat) return;
      else if (key === keyOf("undo", map) || key === "Ctrl+z") takeBack();
      else if (key === keyOf("find", map) && chosen().length > 0) dialog.value = "find";
      else if (key === keyOf("classes", map)) dialog.value = "classes";
      else if (key === keyOf("help", map)) dialog.value = "help";
      else if (key === keyOf("note", map)) askNote();
      else if (key === keyOf("flag", map)) flag();
      else if (key === keyOf("bad", map)) bad();
      else if (index !== null) label(index);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });

  const isText = (status.value?.kind ?? "image") === "text";
  const onlyState = now.state.length === 1 ? PUT_BACK[now.state[0] ?? ""] : undefined;
  const noted = opened !== null && noteFor.length === 1 && noteFor[0] === opened.item ? opened : null;
  return (
    <div class={now.open === null ? "browse" : "browse with-panel"}>
      <BrowseFilters wanted={now} page={page} onWant={want} onName={(name) => void openByName(name)} />
      <div class="browse-list" role="region" aria-label="Items" tabIndex={-1}>
        {trouble && (
          <p class="trouble" role="alert" data-testid="browse-trouble">
            {sentence(trouble)}
          </p>
        )}
        {moved && (
          <p class="note plain-note short-note" role="status">
            <span>This list has changed.</span>
            <button type="button" data-testid="browse-refresh" onClick={takeMoved}>
              Show it as it is now
            </button>
          </p>
        )}
        {!page && !trouble && (
          <p class="centre faint" role="status">
            Looking…
          </p>
        )}
        {page?.total === 0 && (
          <p class="centre faint" data-testid="browse-empty">
            {isFiltered(now) ? "No items match." : "There are no items."}
          </p>
        )}
        <ul ref={list} class={`hits${isText ? " texts" : ""}${picked.size > 0 ? " picking" : ""}`} aria-label="Items" data-testid="founds">
          {page?.items.map((shown, i) => (
            <li
              key={shown.item}
              class={`hit${picked.has(shown.item) ? " picked" : ""}${shown.item === now.open ? " on" : ""}`}
              data-testid="found"
              data-item={shown.item}
            >
              <button
                type="button"
                class="hit-open"
                aria-current={shown.item === now.open}
                tabIndex={(cursor !== null && items.includes(cursor) ? cursor === shown.item : i === 0) ? 0 : -1}
                title={shown.id}
                onFocus={() => setCursor(shown.item)}
                onClick={(event) => {
                  if (event.shiftKey) pickTo(shown.item);
                  else if (event.ctrlKey || event.metaKey) toggle(shown.item);
                  else {
                    anchor.current = shown.item;
                    want({ open: shown.item });
                  }
                }}
              >
                <Thumb item={shown.item} kind={shown.kind} text={shown.text} alt={`item ${shown.id}`} />
                <Foot shown={shown} />
              </button>
              <button
                type="button"
                class="pick"
                role="checkbox"
                aria-checked={picked.has(shown.item)}
                aria-label={`Select ${shown.id}`}
                data-testid="pick"
                tabIndex={-1}
                onClick={(event) => (event.shiftKey ? pickTo(shown.item) : toggle(shown.item))}
              >
                <span class="box">{picked.has(shown.item) ? "✓" : ""}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
      <footer class="browse-foot">
        {picked.size > 0 ? (
          <div class="picked-bar" role="group" aria-label="What to do with the selection" data-testid="picked-bar">
            <b data-testid="picked-count">{number(picked.size)} selected</b>
            <select
              data-testid="label-as"
              aria-label="Label the selection as"
              value=""
              onChange={(event) => {
                const index = Number(event.currentTarget.value);
                event.currentTarget.value = "";
                decide("label", [...picked], { label: index }, className(index));
              }}
            >
              <option value="">Label as…</option>
              {offered.value.map((each) => (
                <option key={each} value={each}>
                  {className(each)}
                </option>
              ))}
            </select>
            <button type="button" data-testid="flag-picked" onClick={() => { setNoteFor([...picked]); dialog.value = "note"; }}>
              Flag…
            </button>
            <button type="button" data-testid="bad-picked" onClick={() => decide("bad", [...picked], {}, "bad")}>
              Bad
            </button>
            {may("reviewer") && (
              <button
                type="button"
                data-testid="put-back-picked"
                title="Takes away why they were skipped, not known, bad or flagged, whoever said so"
                onClick={() => decide("put-back", [...picked], { what: onlyState ?? "any" }, "put back")}
              >
                Put back
              </button>
            )}
            {page && page.total > picked.size && items.every((item) => picked.has(item)) && (
              <button type="button" data-testid="pick-all" onClick={() => void pickAll()}>
                Select all {number(page.total)}
              </button>
            )}
            <button type="button" data-testid="undo" onClick={takeBack}>
              Undo <kbd>{shownKey(keyOf("undo", keyMap.value))}</kbd>
            </button>
            <button type="button" class="quiet" data-testid="pick-none" onClick={() => setPicked(new Set())}>
              Clear
            </button>
          </div>
        ) : (
          <div class="pager" role="group" aria-label="Pages">
            <span class="faint" data-testid="browse-total">
              {page && page.total > 0
                ? `${number(page.offset + 1)}–${number(page.offset + page.items.length)} of ${number(page.total)}`
                : "0 items"}
            </span>
            <button type="button" data-testid="page-before" disabled={now.page <= 1} onClick={() => turn(now.page - 1)}>
              ← Previous
            </button>
            <button type="button" data-testid="page-after" disabled={now.page >= pages} onClick={() => turn(now.page + 1)}>
              Next →
            </button>
            <button type="button" data-testid="pick-page" disabled={items.length === 0} onClick={pickPage}>
              Select page <kbd>Ctrl A</kbd>
            </button>
            <button type="button" data-testid="undo" onClick={takeBack}>
              Undo <kbd>{shownKey(keyOf("undo", keyMap.value))}</kbd>
            </button>
          </div>
        )}
      </footer>
      {opened && now.open !== null && (
        <BrowseItem
          shown={opened}
          place={items.includes(opened.item) ? `${number((page?.offset ?? 0) + items.indexOf(opened.item) + 1)} of ${number(page?.total ?? 0)}` : "not in this list"}
          acts={{
            onLabel: label,
            onFlag: () => flag(),
            onNote: askNote,
            onBad: bad,
            onPutBack: putBack,
            onUndo: takeBack,
            onSimilar: () => want({ similar: opened.item, sort: "", page: 1 }),
            onStep: step,
            onClose: close,
          }}
        />
      )}
      {dialog.value === "note" && (
        <FlagNote
          note={noted?.flags.find((each) => each.by === annotator.value)?.note ?? ""}
          what={noteFor.length === 1 ? "this item" : plural(noteFor.length, "item")}
          onFlag={(note) => flag(note, noteFor)}
        />
      )}
      {dialog.value === "find" && <FindClass mode="find" onChoose={label} item={now.open} />}
    </div>
  );
}
