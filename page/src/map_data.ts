// The map as the server tells it: places once, colours whenever they changed.
import { Failure, get, getBytes } from "./api.ts";
import { LABELLED, Planes } from "./map_colours.ts";
import type { Rgb } from "./map_colours.ts";
import type { Dots } from "./map_drawing.ts";
import { Places } from "./map_geometry.ts";
import type { MapShown } from "./types.ts";

export interface MapData {
  shown: MapShown;
  places: Places;
  planes: Planes;
}

let known: MapData | null = null; // also while another view is open

/** The map as it is now; only what changed is fetched. */
export async function fetchMap(): Promise<MapData> {
  try {
    return await fetchOnce();
  } catch (error) {
    if (error instanceof Failure) throw error;
    return fetchOnce(); // items joined between two of the calls, so that what they said did not fit together
  }
}

async function fetchOnce(): Promise<MapData> {
  const shown = await get<MapShown>("api/map", 60_000);
  const before = known;
  const [places, planes] = await Promise.all([
    before && before.shown.points === shown.points
      ? before.places
      : getBytes("api/map/points").then((bytes) => new Places(new Uint16Array(bytes))),
    before && before.shown.colours === shown.colours
      ? before.planes
      : getBytes("api/map/colours").then((bytes) => new Planes(bytes, shown.items)),
  ]);
  if (places.count !== shown.items) throw new Error(`${places.count} places cannot be those of ${shown.items} items`);
  return (known = { shown, places, planes });
}

export const knownMap = () => known;

const FAINT = 14; // how opaque what the legend leaves out is, of 255
const USUAL = 170;

/** How every item is drawn: labelled ones in front, what the legend leaves out behind all others. */
export function dotsOf(
  { places, planes }: MapData,
  groups: Int32Array,
  colours: ReadonlyMap<number, Rgb>,
  only: number | null,
): Dots {
  const { count } = places;
  const shades = new Uint8Array(4 * count);
  const isLarge = new Uint8Array(count);
  const layers: [number[], number[], number[]] = [[], [], []];
  for (let item = 0; item < count; item++) {
    const group = groups[item] ?? -1;
    const [r, g, b] = colours.get(group) ?? [128, 128, 128];
    const isLabelled = ((planes.states[item] ?? 0) & LABELLED) !== 0;
    const isOut = only !== null && group !== only;
    shades[4 * item] = r;
    shades[4 * item + 1] = g;
    shades[4 * item + 2] = b;
    shades[4 * item + 3] = isOut ? FAINT : isLabelled ? 255 : USUAL;
    isLarge[item] = isLabelled && !isOut ? 1 : 0;
    layers[isOut ? 0 : isLabelled ? 2 : 1].push(item);
  }
  const order = new Uint32Array(count);
  let at = 0;
  for (const layer of layers) for (const item of layer) order[at++] = item;
  return { steps: places.steps, colours: shades, isLarge, order };
}
