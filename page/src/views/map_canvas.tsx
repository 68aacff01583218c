// The map itself: what wheel, mouse, fingers and keys do to it. What it shows and leads to is in map.tsx.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { ComponentChildren, Ref } from "preact";
import type { Rgb } from "../map_colours.ts";
import { drawingOn } from "../map_drawing.ts";
import type { Dots, Drawing } from "../map_drawing.ts";
import { fit, lassoOf, pan, toMap, toScreen, zoom } from "../map_geometry.ts";
import type { Corner, Places, Seen } from "../map_geometry.ts";

const NEAR = 12; // pixels within which an item is meant
const STILL = 5; // pixels that a click may move
const KEY_ZOOM = 1.4;
const KEY_PAN = 60; // pixels

export interface MapHandle {
  zoomBy(factor: number): void;
  whole(): void;
}

export interface MapCanvasProps {
  places: Places;
  dots: Dots;
  rim: Rgb;
  takes: (item: number) => boolean; // whether an item can be pointed at
  isLassoing: boolean;
  lasso: readonly Corner[];
  onLasso: (corners: Corner[]) => void;
  chosen: { item: number; isPinned: boolean } | null;
  onChoose: (item: number | null, isPinned: boolean) => void;
  onOpen: (item: number) => void;
  handle: Ref<MapHandle>;
  card: ComponentChildren;
  children: ComponentChildren; // over the map, and under the card
}

export function MapCanvas(props: MapCanvasProps) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const marker = useRef<SVGCircleElement>(null);
  const border = useRef<SVGPolygonElement>(null);
  const card = useRef<HTMLDivElement>(null);
  const drawing = useRef<Drawing | null>(null);
  const seen = useRef<Seen | null>(null);
  const size = useRef({ width: 0, height: 0 });
  const drawn = useRef<Corner[] | null>(null); // a lasso while it is being drawn
  const pointers = useRef(new Map<number, { x: number; y: number }>());
  const travelled = useRef(0);
  const asked = useRef(0);
  const latest = useRef(props);
  latest.current = props;
  const [attempt, setAttempt] = useState(0); // canvases so far: one that lost its WebGL is of no use any more
  const [byKeys, setByKeys] = useState(false);

  const redraw = () => {
    asked.current ||= requestAnimationFrame(() => {
      asked.current = 0;
      const { width, height } = size.current;
      const { rim, lasso, chosen, places } = latest.current;
      if (!seen.current || width === 0) return;
      const at = seen.current;
      drawing.current?.draw(at, width, height, rim);
      const corners = drawn.current ?? lasso;
      border.current?.setAttribute("points", corners.map((each) => toScreen(at, each).join(",")).join(" "));
      if (!chosen) return;
      const [x, y] = toScreen(at, [places.x(chosen.item), places.y(chosen.item)]);
      marker.current?.setAttribute("cx", String(x));
      marker.current?.setAttribute("cy", String(y));
      const box = card.current;
      if (!box) return;
      const left = x + 16 + box.offsetWidth > width ? x - 16 - box.offsetWidth : x + 16;
      box.style.left = `${Math.max(4, Math.min(left, width - box.offsetWidth - 4))}px`;
      box.style.top = `${Math.max(4, Math.min(y - box.offsetHeight / 2, height - box.offsetHeight - 4))}px`;
    });
  };
  const look = (next: Seen) => {
    seen.current = next;
    redraw();
  };
  const fitting = () => fit(size.current.width, size.current.height).scale;
  const zoomAt = (factor: number, x: number, y: number) =>
    seen.current && look(zoom(seen.current, factor, x, y, fitting()));
  const panBy = (dx: number, dy: number) =>
    seen.current && look(pan(seen.current, dx, dy, size.current.width, size.current.height));
  const itemAt = (x: number, y: number, within = NEAR) => {
    if (!seen.current) return null;
    const [mapX, mapY] = toMap(seen.current, x, y);
    return props.places.nearest(mapX, mapY, within / seen.current.scale, props.takes);
  };
  const middle = () => itemAt(size.current.width / 2, size.current.height / 2, 90);
  const place = (event: PointerEvent | WheelEvent | MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    return { x: event.clientX - (box?.left ?? 0), y: event.clientY - (box?.top ?? 0) };
  };

  useLayoutEffect(() => {
    const element = canvas.current;
    if (!element) return;
    drawing.current = drawingOn(element, attempt > 0 || location.hash.includes("canvas=2d"));
    if (drawing.current === null && attempt === 0) {
      setAttempt(1);
      return;
    }
    element.dataset.drawnBy = drawing.current?.kind;
    drawing.current?.take(latest.current.dots);
    redraw();
    const onLost = (event: Event) => {
      event.preventDefault();
      setAttempt((before) => before + 1);
    };
    element.addEventListener("webglcontextlost", onLost);
    return () => {
      element.removeEventListener("webglcontextlost", onLost);
      drawing.current?.free();
    };
  }, [attempt]);
  useLayoutEffect(() => {
    drawing.current?.take(props.dots);
    redraw();
  }, [props.dots]);
  useLayoutEffect(redraw);
  useLayoutEffect(() => {
    const element = card.current;
    if (!element) return;
    const watch = new ResizeObserver(redraw); // it grows when the item's picture and name are there
    watch.observe(element);
    return () => watch.disconnect();
  }, [props.chosen?.item]);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => {
      const { clientWidth: width, clientHeight: height } = element;
      const before = size.current;
      size.current = { width, height };
      if (!seen.current) seen.current = fit(width, height);
      else look(pan(seen.current, (width - before.width) / 2, (height - before.height) / 2, width, height));
      redraw();
    };
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    measure();
    const onWheel = (event: WheelEvent) => {
      event.preventDefault();
      const { x, y } = place(event);
      const lines = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1);
      zoomAt(Math.exp(-Math.max(-240, Math.min(240, lines)) / 320), x, y);
    };
    element.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      watch.disconnect();
      element.removeEventListener("wheel", onWheel);
      cancelAnimationFrame(asked.current);
    };
  }, []);
  useEffect(() => {
    const handle = props.handle as { current: MapHandle | null };
    handle.current = {
      zoomBy: (factor) => zoomAt(factor, size.current.width / 2, size.current.height / 2),
      whole: () => look(fit(size.current.width, size.current.height)),
    };
  }, []);

  const onDown = (event: PointerEvent) => {
    if (event.button > 0) return;
    canvas.current?.setPointerCapture(event.pointerId);
    setByKeys(false);
    const at = place(event);
    pointers.current.set(event.pointerId, at);
    travelled.current = pointers.current.size > 1 ? STILL + 1 : 0;
    if (pointers.current.size > 1) drawn.current = null;
    else if ((props.isLassoing || event.shiftKey) && seen.current) drawn.current = [toMap(seen.current, at.x, at.y)];
  };
  const onMove = (event: PointerEvent) => {
    const at = place(event);
    const before = pointers.current.get(event.pointerId);
    if (!before) {
      if (event.pointerType === "mouse" && !props.chosen?.isPinned) props.onChoose(itemAt(at.x, at.y), false);
      return;
    }
    travelled.current += Math.hypot(at.x - before.x, at.y - before.y);
    if (drawn.current && seen.current) {
      drawn.current.push(toMap(seen.current, at.x, at.y));
      redraw();
    } else if (pointers.current.size === 2) {
      const other = [...pointers.current].find(([id]) => id !== event.pointerId)?.[1];
      if (other) {
        const apart = Math.hypot(before.x - other.x, before.y - other.y);
        const now = Math.hypot(at.x - other.x, at.y - other.y);
        panBy((at.x - before.x) / 2, (at.y - before.y) / 2);
        if (apart > 0) zoomAt(now / apart, (at.x + other.x) / 2, (at.y + other.y) / 2);
      }
    } else if (travelled.current > STILL) panBy(at.x - before.x, at.y - before.y);
    pointers.current.set(event.pointerId, at);
  };
  const onUp = (event: PointerEvent) => {
    if (!pointers.current.delete(event.pointerId)) return;
    const line = drawn.current;
    drawn.current = null;
    if (line && seen.current) {
      const corners = travelled.current > STILL ? lassoOf(line, 1 / seen.current.scale) : [];
      props.onLasso(corners);
      redraw();
    } else if (travelled.current <= STILL && event.type === "pointerup") {
      const { x, y } = place(event);
      const item = itemAt(x, y, event.pointerType === "mouse" ? NEAR : 2 * NEAR);
      if (event.pointerType !== "mouse") props.onChoose(item, item !== null);
      else if (item !== null) props.onOpen(item);
    }
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { width, height } = size.current;
    if (event.key === "+" || event.key === "=") zoomAt(KEY_ZOOM, width / 2, height / 2);
    else if (event.key === "-") zoomAt(1 / KEY_ZOOM, width / 2, height / 2);
    else if (event.key === "ArrowLeft") panBy(KEY_PAN, 0);
    else if (event.key === "ArrowRight") panBy(-KEY_PAN, 0);
    else if (event.key === "ArrowUp") panBy(0, KEY_PAN);
    else if (event.key === "ArrowDown") panBy(0, -KEY_PAN);
    else if (event.key === "0") look(fit(width, height));
    else if (event.key === "Enter" && props.chosen) props.onOpen(props.chosen.item);
    else if (event.key === "Escape") {
      drawn.current = null;
      props.onLasso([]);
      props.onChoose(null, false);
      setByKeys(false);
      event.preventDefault();
      return;
    } else return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key === "Enter") return;
    setByKeys(true);
    props.onChoose(middle(), true);
  };
  return (
    <div ref={frame} class={props.isLassoing ? "map-frame lassoing" : "map-frame"}>
      <canvas
        key={attempt}
        ref={canvas}
        class="map-canvas"
        data-testid="map-canvas"
        tabIndex={0}
        role="application"
        aria-label="Map of the items. Arrow keys move it, plus and minus zoom, 0 shows all, Enter opens the item in the middle. The same items in numbers are below it."
        onPointerDown={onDown}
        onPointerMove={onMove}
        onPointerUp={onUp}
        onPointerCancel={onUp}
        onPointerLeave={() => pointers.current.size === 0 && !props.chosen?.isPinned && props.onChoose(null, false)}
        onKeyDown={onKey}
      />
      <svg class="map-over" aria-hidden="true">
        <polygon ref={border} class="map-lasso" points="" />
        {props.chosen && <circle ref={marker} class="map-marker" r="11" />}
        {byKeys && <path class="map-cross" d="M-9 0H9M0 -9V9" />}
      </svg>
      {props.children}
      {props.chosen && (
        <div ref={card} class={props.chosen.isPinned ? "map-card pinned" : "map-card"} data-testid="map-card" data-item={props.chosen.item}>
          {props.card}
        </div>
      )}
    </div>
  );
}
