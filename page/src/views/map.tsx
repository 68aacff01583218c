// A map of the pool: neighbours lie together, coloured by class, confidence or state. It leads to lists of items.
import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { NOTHING as EVERYTHING, hashOf } from "../browse.ts";
import { Thumb } from "../item.tsx";
import { NOTHING, cssOf, legend, rgbOf } from "../map_colours.ts";
import type { ColourBy, Group, Rgb } from "../map_colours.ts";
import { dotsOf, fetchMap, knownMap } from "../map_data.ts";
import type { MapData } from "../map_data.ts";
import { lassoText } from "../map_geometry.ts";
import type { Corner } from "../map_geometry.ts";
import { theme } from "../settings.ts";
import { announcement, className, offered, status, styles } from "../state.ts";
import type { ItemCard } from "../types.ts";
import { likelihood, number, plural, sentence } from "../words.ts";
import { ListTabs } from "./list_tabs.tsx";
import { MapCanvas } from "./map_canvas.tsx";
import type { MapHandle } from "./map_canvas.tsx";

const REFRESH_MS = 1000; // at most as often the map asks for what changed
const CARD_MS = 80; // a pointer that rests so long on an item wants to see it
const KEYS_SHOWN = 40; // of a legend; more classes than that are in the numbers below
const WAYS: readonly [ColourBy, string][] = [
  ["class", "Class"],
  ["confidence", "Confidence"],
  ["state", "State"],
];
const colourBy = signal<ColourBy>("class");

export function MapView() {
  const [data, setData] = useState<MapData | null>(knownMap);
  const [trouble, setTrouble] = useState("");
  const [only, setOnly] = useState<number | null>(null);
  const [isLassoing, setLassoing] = useState(false);
  const [lasso, setLasso] = useState<Corner[]>([]);
  const [chosen, setChosen] = useState<{ item: number; isPinned: boolean } | null>(null);
  const handle = useRef<MapHandle | null>(null);
  const colours = useColours();
  useLiveMap(setData, setTrouble);
  const by = colourBy.value;
  const groups = useMemo(() => data?.planes.groups(by), [data, by]);
  const shownClasses = `${offered.value.join()}|${[...styles.value.values()].map((style) => style.colour).join()}`;
  const keys = useMemo(
    () =>
      groups
        ? legend(
            groups,
            by,
            { order: offered.value, name: className, colour: (n) => styles.value.get(n)?.colour },
            colours.paper,
          )
        : [],
    [groups, by, colours.paper, shownClasses, status.value?.classes.join("\n")],
  );
  const dots = useMemo(() => {
    if (!data || !groups) return null;
    return dotsOf(data, groups, new Map(keys.map((key) => [key.key, key.colour])), only);
  }, [data, groups, keys, only]);
  const choose = (item: number | null, isPinned: boolean) => {
    if (item !== (chosen?.item ?? null) || isPinned !== (chosen?.isPinned ?? false))
      setChosen(item === null ? null : { item, isPinned });
  };
  const inside = useMemo(() => (data && lasso.length ? data.places.countInside(lasso) : 0), [data, lasso]);
  useEffect(() => setLasso([]), [data?.shown.points]); // the items lie elsewhere now
  const take = (corners: Corner[]) => {
    setLasso(corners);
    setLassoing(false);
    if (corners.length && data)
      announcement.value = `${plural(data.places.countInside(corners), "item")} inside the lasso.`;
  };
  return (
    <div class="view map-view" data-testid="map" data-layout={data?.shown.layout}>
      <h1 class="unseen">Map of the items</h1>
      {data && dots && groups ? (
        <>
          <div class="map-tools">
            <ListTabs />
            <div class="map-ways" role="group" aria-label="Colour by">
              {WAYS.map(([way, name]) => (
                <button
                  type="button"
                  key={way}
                  aria-pressed={by === way}
                  data-testid={`map-by-${way}`}
                  onClick={() => {
                    colourBy.value = way;
                    setOnly(null);
                  }}
                >
                  {name}
                </button>
              ))}
            </div>
            <button
              type="button"
              aria-pressed={isLassoing}
              data-testid="map-lasso"
              title="Draw around items, or drag with Shift held down"
              onClick={() => setLassoing(!isLassoing)}
            >
              Lasso
            </button>
            {lasso.length > 0 && (
              <div class="map-found" role="status" data-testid="map-found">
                <b>{plural(inside, "item")} inside</b>
                {inside > 0 && (
                  <a class="button main" data-testid="map-list" href={hashOf({ ...EVERYTHING, lasso: lassoText(lasso) })}>
                    Open as a list
                  </a>
                )}
                <button type="button" data-testid="map-clear" onClick={() => setLasso([])}>
                  Clear
                </button>
              </div>
            )}
          </div>
          <div class="map-place">
            <MapCanvas
              places={data.places}
              dots={dots}
              rim={colours.ink}
              takes={(item) => only === null || groups[item] === only}
              isLassoing={isLassoing}
              lasso={lasso}
              onLasso={take}
              chosen={chosen}
              onChoose={choose}
              onOpen={(item) => (location.hash = hashOf({ ...EVERYTHING, open: item }))}
              handle={handle}
              card={chosen && <Card key={chosen.item} item={chosen.item} data={data} />}
            >
              <div class="map-zooms">
                <button type="button" aria-label="Zoom in" title="Zoom in (+)" onClick={() => handle.current?.zoomBy(1.6)}>
                  +
                </button>
                <button type="button" aria-label="Zoom out" title="Zoom out (-)" onClick={() => handle.current?.zoomBy(1 / 1.6)}>
                  −
                </button>
                <button type="button" title="The whole map (0)" data-testid="map-whole" onClick={() => handle.current?.whole()}>
                  All
                </button>
              </div>
            </MapCanvas>
          </div>
          <Legend keys={keys} by={by} only={only} onOnly={setOnly} />
          <p class="map-line faint" data-testid="map-line">
            {lineOn(data)}
          </p>
          <Numbers data={data} />
        </>
      ) : (
        <>
          <ListTabs />
          <p class="centre faint" role="status">
            {trouble ? sentence(trouble) : "The map is being drawn…"}
          </p>
        </>
      )}
    </div>
  );
}

function lineOn({ shown }: MapData): string {
  if (shown.layout === "neighbours")
    return "Items whose features are alike lie together. How far groups lie from each other says little.";
  const now = "Shown along the two directions in which the features differ most.";
  if (shown.is_being_made) return `${now} A map on which items that are alike lie together is being made, and follows.`;
  return shown.trouble ? `${now} No better map could be made: ${sentence(shown.trouble)}` : now;
}

/** The map as it is, and as it becomes while people label. */
function useLiveMap(setData: (data: MapData) => void, setTrouble: (words: string) => void): void {
  const version = status.value?.version;
  const latest = useRef({ at: 0, timer: 0, isAsking: false, isStale: false });
  const ask = () => {
    const turn = latest.current;
    turn.timer = 0;
    if (turn.isAsking) {
      turn.isStale = true;
      return;
    }
    turn.isAsking = true;
    turn.isStale = false;
    turn.at = performance.now();
    fetchMap()
      .then(setData)
      .catch((error: unknown) => setTrouble(error instanceof Failure ? error.message : String(error)))
      .finally(() => {
        turn.isAsking = false;
        if (turn.isStale) soon();
      });
  };
  const soon = () => {
    const turn = latest.current;
    turn.timer ||= window.setTimeout(ask, Math.max(0, turn.at + REFRESH_MS - performance.now()));
  };
  useEffect(soon, [version]);
  useEffect(() => () => clearTimeout(latest.current.timer), []);
}

/** What lies behind the points and what stands out on it, as the theme has it at the moment. */
function useColours(): { paper: Rgb; ink: Rgb } {
  const [found, setFound] = useState<{ paper: Rgb; ink: Rgb }>({ paper: [255, 255, 255], ink: [31, 30, 27] });
  const chosen = theme.value;
  useLayoutEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const measure = () => {
      const style = getComputedStyle(document.body);
      setFound({ paper: rgbIn(style.backgroundColor), ink: rgbIn(style.color) });
    };
    const later = requestAnimationFrame(measure); // once the theme has been put on the page
    dark.addEventListener("change", measure);
    return () => {
      cancelAnimationFrame(later);
      dark.removeEventListener("change", measure);
    };
  }, [chosen]);
  return found;
}

function rgbIn(css: string): Rgb {
  const parts = /^rgba?\((\d+),? (\d+),? (\d+)/.exec(css);
  return parts ? [Number(parts[1]), Number(parts[2]), Number(parts[3])] : rgbOf("");
}

function Legend(props: { keys: Group[]; by: ColourBy; only: number | null; onOnly: (key: number | null) => void }) {
  const { keys, by, only, onOnly } = props;
  return (
    <div class="map-legend" role="group" aria-label={`Colours by ${by}; press one to see it alone`}>
      {keys.slice(0, KEYS_SHOWN).map(({ key, name, colour, count }) => (
        <button
          type="button"
          key={key}
          class="map-key"
          data-testid={`map-key-${key === NOTHING ? "none" : key}`}
          aria-pressed={only === key}
          title={only === key ? "Show all again" : `Show only ${name}`}
          onClick={() => onOnly(only === key ? null : key)}
        >
          <span class="swatch" style={{ background: cssOf(colour) }} aria-hidden="true" />
          <span class="map-key-name">{name}</span>
          <span class="faint">{number(count)}</span>
        </button>
      ))}
      {keys.length > KEYS_SHOWN && <span class="faint">and {number(keys.length - KEYS_SHOWN)} more, in the numbers below</span>}
    </div>
  );
}

/** What an item is: its picture or text, its label or what is suggested. */
function Card({ item, data }: { item: number; data: MapData }) {
  const [found, setFound] = useState<ItemCard | null>(null);
  useEffect(() => {
    const timer = setTimeout(
      () => void get<ItemCard>(`api/items/${item}`).then(setFound, () => undefined),
      CARD_MS,
    );
    return () => clearTimeout(timer);
  }, [item]);
  const label = data.planes.classes[item] ?? NOTHING;
  const confidence = data.planes.confidence[item] ?? 255;
  const isRough = status.value?.calibration?.rough ?? false;
  const words = data.planes.isLabelled(item)
    ? className(label)
    : label === NOTHING
      ? "not labelled"
      : `${className(label)}?${confidence === 255 ? "" : ` ${likelihood(confidence / 100, isRough)}`}`;
  return (
    <>
      {found && <Thumb item={item} kind={found.kind} text={found.text} alt={`item ${found.id}`} />}
      <b data-testid="map-card-label">{words}</b>
      <span class="faint">
        {data.planes.isLabelled(item) ? "labelled" : label === NOTHING ? "" : "suggested"} {stateWords(data, item)}
      </span>
      {found && <span class="faint map-card-id">{found.id}</span>}
      <a class="button map-open" href={hashOf({ ...EVERYTHING, open: item })}>
        Open
      </a>
    </>
  );
}

function stateWords({ planes }: MapData, item: number): string {
  const bits = planes.states[item] ?? 0;
  const said = [
    [8, "bad item"],
    [32, "disputed"],
    [16, "flagged"],
    [4, "don’t know"],
    [2, "skipped"],
  ] as const;
  return said.flatMap(([bit, name]) => (bits & bit ? [name] : [])).join(", ");
}

/** The map for those who do not see it: how many items of each class and in each state there are. */
function Numbers({ data }: { data: MapData }) {
  const { planes } = data;
  const rows = useMemo(() => {
    const counts = new Map<number, { labelled: number; suggested: number }>();
    for (let item = 0; item < planes.classes.length; item++) {
      const key = planes.classes[item] ?? NOTHING;
      const row = counts.get(key) ?? { labelled: 0, suggested: 0 };
      row[planes.isLabelled(item) ? "labelled" : "suggested"] += 1;
      counts.set(key, row);
    }
    return counts;
  }, [planes]);
  const states = legend(planes.groups("state"), "state", { order: [], name: className, colour: () => null }, [0, 0, 0]);
  const known = [...offered.value, ...[...rows.keys()].filter((key) => !offered.value.includes(key) && key !== NOTHING)];
  return (
    <details class="map-numbers" data-testid="map-numbers">
      <summary>The map in numbers</summary>
      <p>
        {states.map(({ name, count }) => `${name}: ${number(count)}`).join(" · ")}
        {rows.has(NOTHING) && ` · without a label or suggestion: ${number(rows.get(NOTHING)?.suggested ?? 0)}`}
      </p>
      <div class="scroll-x tall" tabIndex={0} role="region" aria-label="Items by class">
        <table>
          <thead>
            <tr>
              <th scope="col">Class</th>
              <th scope="col">Labelled</th>
              <th scope="col">Suggested</th>
            </tr>
          </thead>
          <tbody>
            {known.map((key) => (
              <tr key={key}>
                <th scope="row">{className(key)}</th>
                <td>{number(rows.get(key)?.labelled ?? 0)}</td>
                <td>{number(rows.get(key)?.suggested ?? 0)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}
