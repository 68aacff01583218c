// Likely items of one class at once, as many as can be believed: take out the wrong ones, confirm the rest.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { decideElsewhere, undo } from "../desk.ts";
import { belongsToFocus, consume } from "../focus.ts";
import { Thumb } from "../item.tsx";
import { classOfKey, isTyping, keyOf, nameOf, shownKey } from "../keys.ts";
import { keyMap } from "../settings.ts";
import { annotator, className, classView, classes, dialog, offered, say, status } from "../state.ts";
import type { GridOffer, Likely } from "../types.ts";
import { likelihood, percent, plural, sentence } from "../words.ts";
import { ClassButtons, FindClass } from "./classes.tsx";
import { CalibrationLine } from "./notes.tsx";

const N = 20;
const LETTERS = "abcdefghijklmnopqrst"; // a key for every tile
const rejected = new Map<number, Set<number>>(); // class -> items that somebody took out here
const settled = new Set<number>();
const TRIES = 5; // classes to look into for one with likely items

const likelyOf = (index: number, n: number) => get<Likely[]>(`api/likely?label=${index}&n=${n}`);
const offerOf = (index: number, n: number) => 
  get<GridOffer>(`api/grid?label=${index}&n=${n}&annotator=${encodeURIComponent(annotator.value ?? "")}`);

/** The class to begin with: of those that have likely items, the one with the fewest labels. */
async function firstClass(): Promise<number | null> {
  const counts = status.value?.class_counts ?? [];
  const known = offered.value.map((index) => ({ index, count: counts[index] ?? 0 })).filter(({ count }) => count > 0);
  const rarest = known.sort((a, b) => a.count - b.count).map(({ index }) => index);
  for (const index of rarest.slice(0, TRIES)) if ((await likelyOf(index, 1)).length > 0) return index;
  return null;
}

export function GridView() {
  const [index, setIndex] = useState<number | null>(null);
  const [tiles, setTiles] = useState<Likely[] | null>(null);
  const [offer, setOffer] = useState<GridOffer | null>(null);
  const [out, setOut] = useState<Set<number>>(new Set());
  const [trouble, setTrouble] = useState("");
  const latest = useRef<number | null>(null);
  const heading = useRef<HTMLHeadingElement>(null);
  const open = async (wanted: number, byItself = false) => {
    if (!byItself) heading.current?.focus({ preventScroll: true }); // so that Enter confirms, and is not a second click
    latest.current = wanted;
    setIndex(wanted);
    setTiles(null);
    setOut(new Set());
    setTrouble("");
    const no = rejected.get(wanted) ?? new Set();
    try {
      const found = await offerOf(wanted, Math.min(100, N + no.size));
      if (latest.current !== wanted) return; // another class was picked meanwhile
      setOffer(found);
      setTiles(found.items.filter((tile) => !no.has(tile.item) && !settled.has(tile.item)).slice(0, N));
    } catch (error) {
      if (latest.current !== wanted) return;
      setTiles([]);
      setTrouble(error instanceof Failure ? error.message : String(error));
    }
  };
  const toggle = (item: number) => {
    const next = new Set(out);
    if (!next.delete(item)) next.add(item);
    setOut(next);
  };
  const chosen = tiles?.filter((tile) => !out.has(tile.item)) ?? [];
  const confirm = () => {
    if (index === null || !tiles || tiles.length === 0) return;
    const no = rejected.get(index) ?? new Set<number>();
    for (const item of out) no.add(item);
    rejected.set(index, no);
    if (chosen.length > 0) {
      const items = chosen.map((tile) => tile.item);
      for (const item of items) settled.add(item);
      decideElsewhere(
        "api/labels/many",
        { items, label: index },
        { item: null, id: null },
        `${items.length} × ${className(index)}`,
      );
      say(`${plural(items.length, "item")} labelled ${className(index)}.`);
    }
    void open(index);
  };
  const takeBack = () => {
    settled.clear(); // what came back may be shown again
    undo();
    say("Undone.");
    if (index !== null) setTimeout(() => void open(index), 200);
  };
  useLayoutEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (dialog.value !== null || isTyping(event.target)) return;
      const key = nameOf(event);
      const onTile = event.target instanceof Element && event.target.closest(".tile") !== null;
      if (key === null || event.repeat) return;
      if (belongsToFocus(key, event.target) && !(key === "Enter" && onTile)) return;
      const map = keyMap.value;
      const which = classOfKey(key, classes.value, map, classView.value);
      const tile = LETTERS.indexOf(key);
      if (key === keyOf("confirm", map)) confirm();
      else if (key === keyOf("find", map)) dialog.value = "find";
      else if (key === keyOf("classes", map)) dialog.value = "classes";
      else if (key === keyOf("help", map)) dialog.value = "help";
      else if (key === keyOf("undo", map) || key === "Ctrl+z") takeBack();
      else if (tile >= 0 && key.length === 1 && tiles?.[tile]) toggle(tiles[tile].item);
      else if (which !== null) void open(which);
      else return;
      consume(event);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  });
  const model = status.value?.model;
  useEffect(() => {
    if (index !== null && tiles?.length === 0) void open(index);
    if (index === null && model != null)
      firstClass().then(
        (found) => found !== null && latest.current === null && void open(found, true),
        () => undefined, // then nothing is picked yet
      );
  }, [model]);
  const kind = status.value?.kind ?? "image";
  const rough = status.value?.calibration?.rough ?? false;
  return (
    <div class="view grid-view">
      <header class="view-head">
        <h1 ref={heading} tabIndex={-1}>
          {index === null || tiles?.length === 0 ? "Confirm many at once" : <>Is each of these “{className(index)}”?</>}
        </h1>
        <p class="faint">
          {index === null || tiles?.length === 0 ? (
            "Pick a class: as many of its likely items are shown as can be believed."
          ) : (
            <>
              Take out what is wrong<span class="with-keys">, by click or by its letter; Enter confirms the rest</span>. It
              stays unlabelled.
            </>
          )}
        </p>
        {index !== null && offer && (tiles?.length ?? 0) > 0 && (
          <p class="faint small" data-testid="grid-promise">
            {offer.promised !== null && `At least ${percent(offer.promised)} of these should be right. `}
            {sentence(offer.reason)}
          </p>
        )}
        {tiles?.some((tile) => tile.probability !== null) && <CalibrationLine />}
      </header>
      <ClassButtons onChoose={(each) => void open(each)} chosen={index} verb="Show likely" />
      {index !== null && (
        <>
          <div class={kind === "text" ? "tiles texts" : "tiles"} role="group" aria-label="Likely items">
            {tiles?.map((tile, i) => (
              <button
                type="button"
                key={tile.item}
                class={out.has(tile.item) ? "tile out" : "tile"}
                data-testid="grid-tile"
                data-item={tile.item}
                aria-pressed={!out.has(tile.item)}
                title={tile.probability === null ? tile.id : `${tile.id}: ${likelihood(tile.probability, rough)}`}
                onClick={() => toggle(tile.item)}
              >
                <Thumb item={tile.item} kind={tile.kind} text={tile.text} alt={`item ${tile.id}`} />
                <span class="tile-foot">
                  <kbd>{LETTERS[i]}</kbd>
                  <span>{tile.probability === null ? "–" : likelihood(tile.probability, rough)}</span>
                </span>
              </button>
            ))}
            {tiles === null && <p class="faint">Looking…</p>}
            {tiles?.length === 0 && (
              <p class="faint" data-testid="grid-empty">
                {trouble ||
                  (status.value?.model == null
                    ? "No model yet. After the first training its likely items are shown here."
                    : offer?.items.length === 0
                      ? sentence(offer.reason)
                      : "Nothing left that is likely of this class.")}
              </p>
            )}
          </div>
          <div class="grid-foot">
            {tiles?.length !== 0 && (
              <button type="button" class="main" data-testid="grid-confirm" disabled={!tiles} onClick={confirm}>
                {chosen.length > 0 ? `Label ${chosen.length} as “${className(index)}”` : "None of these; show others"}{" "}
                <kbd>{shownKey(keyOf("confirm", keyMap.value))}</kbd>
              </button>
            )}
            <button type="button" data-testid="undo" onClick={takeBack}>
              Undo <kbd>{shownKey(keyOf("undo", keyMap.value))}</kbd>
            </button>
          </div>
        </>
      )}
      {dialog.value === "find" && <FindClass mode="find" onChoose={(each) => void open(each)} />}
    </div>
  );
}
