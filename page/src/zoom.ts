// Zoom and pan of the image on the screen. Only a transform is changed, so nothing else on the page moves; and a new
// image begins whole, without anything being measured before it is painted.
import { signal } from "@preact/signals";

/** How an image is seen: so many times as large as when it fits, and moved by so many pixels from the middle. */
export interface Sight {
  scale: number;
  x: number;
  y: number;
}

/** The frame and the image in it, in CSS pixels: `drawn` is the image as it fits, `pixels` what it really has. */
export interface Sizes {
  frame: { width: number; height: number };
  drawn: { width: number; height: number };
  pixels: { width: number; height: number };
}

export const WHOLE: Sight = { scale: 1, x: 0, y: 0 };
export const STEP = 1.4; // by a key or a button
const PIXEL_SIDE = 16; // CSS pixels that a pixel of the image has at most
const LEAST_LARGEST = 8; // and at least so many times as large as it fits
const NEARLY = 1.05; // closer than this two scales are one

/** How large pixels of the image are when it fits, in CSS pixels. */
export const fitOf = ({ drawn, pixels }: Sizes) => drawn.width / Math.max(1, pixels.width);

const largestOf = (sizes: Sizes) => Math.max(LEAST_LARGEST, PIXEL_SIDE / fitOf(sizes));

/** The sight, with nothing of the frame left empty that the image could fill. */
export function within(sight: Sight, sizes: Sizes): Sight {
  const scale = Math.min(largestOf(sizes), Math.max(1, sight.scale));
  const room = (drawn: number, frame: number) => Math.max(0, (drawn * scale - frame) / 2);
  const [right, down] = [
    room(sizes.drawn.width, sizes.frame.width),
    room(sizes.drawn.height, sizes.frame.height),
  ];
  const clamp = (value: number, most: number) => Math.min(most, Math.max(-most, value)) + 0; // no -0
  return { scale, x: clamp(sight.x, right), y: clamp(sight.y, down) };
}

/** Zoom by a factor around a point, given from the middle of the frame: what is there stays there. */
export function zoomed(sight: Sight, factor: number, at: { x: number; y: number }, sizes: Sizes): Sight {
  const scale = Math.min(largestOf(sizes), Math.max(1, sight.scale * factor));
  const by = scale / sight.scale;
  return within({ scale, x: at.x - (at.x - sight.x) * by, y: at.y - (at.y - sight.y) * by }, sizes);
}

/** The other of two: whole, or a pixel of the image a pixel of the screen; twice as large where that is no larger. */
export function toggled(sight: Sight, at: { x: number; y: number }, sizes: Sizes): Sight {
  if (sight.scale > 1) return WHOLE;
  const full = 1 / fitOf(sizes);
  return zoomed(WHOLE, full > NEARLY ? full : 2, at, sizes);
}

/** The factor of a turn of the wheel. A pinch on a trackpad comes as a wheel with Ctrl, in small steps. */
export function wheelFactor(event: Pick<WheelEvent, "deltaY" | "deltaMode" | "ctrlKey">): number {
  const pixels = event.deltaY * (event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? 400 : 1);
  const some = Math.min(240, Math.max(-240, pixels));
  return Math.exp(-some * (event.ctrlKey ? 0.01 : 0.0018));
}

/** What the control shows: null while the image is whole, else how large its pixels are, 1 for as they are. */
export const zoomLevel = signal<number | null>(null);

/** One image in its frame, under a mouse, fingers and keys. */
class Zoom {
  private sight = WHOLE;
  private readonly pointers = new Map<number, { x: number; y: number }>();

  constructor(
    private readonly frame: HTMLElement,
    private readonly image: HTMLImageElement,
  ) {
    this.show(WHOLE, false);
    frame.addEventListener("wheel", this.onWheel, { passive: false });
    frame.addEventListener("pointerdown", this.onDown);
    frame.addEventListener("pointermove", this.onMove);
    for (const over of ["pointerup", "pointercancel"] as const) frame.addEventListener(over, this.onUp);
    frame.addEventListener("dblclick", this.onDouble);
  }

  leave(): void {
    this.show(WHOLE, false);
    this.frame.removeEventListener("wheel", this.onWheel);
    this.frame.removeEventListener("pointerdown", this.onDown);
    this.frame.removeEventListener("pointermove", this.onMove);
    for (const over of ["pointerup", "pointercancel"] as const) this.frame.removeEventListener(over, this.onUp);
    this.frame.removeEventListener("dblclick", this.onDouble);
  }

  /** Zoom around the middle of the frame. */
  by(factor: number): void {
    this.show(zoomed(this.sight, factor, { x: 0, y: 0 }, this.sizes()), true);
  }

  toggle(): void {
    this.show(toggled(this.sight, { x: 0, y: 0 }, this.sizes()), true);
  }

  /** Look further into a direction, by a fifth of the frame. */
  pan(right: number, down: number): void {
    const sizes = this.sizes();
    const { x, y, scale } = this.sight;
    const moved = { scale, x: x - (right * sizes.frame.width) / 5, y: y - (down * sizes.frame.height) / 5 };
    this.show(within(moved, sizes), true);
  }

  /** Read only when somebody zooms: measuring costs a layout. */
  private sizes(): Sizes {
    const style = getComputedStyle(this.frame);
    const pad = (side: string) => Number.parseFloat(style.getPropertyValue(`padding-${side}`)) || 0;
    const { offsetWidth: width, offsetHeight: height } = this.image;
    const [wide, high] = [Math.max(1, this.image.naturalWidth), Math.max(1, this.image.naturalHeight)];
    const fit = Math.min(width / wide, height / high); // as object-fit: contain draws it
    return {
      frame: {
        width: this.frame.clientWidth - pad("left") - pad("right"),
        height: this.frame.clientHeight - pad("top") - pad("bottom"),
      },
      drawn: { width: wide * fit, height: high * fit },
      pixels: { width: wide, height: high },
    };
  }

  private show(sight: Sight, glides: boolean): void {
    this.sight = sight;
    const isWhole = sight.scale <= 1.0001;
    this.frame.classList.toggle("zoomed", !isWhole);
    this.image.classList.toggle("glides", glides);
    this.image.style.transform = isWhole ? "" : `translate(${sight.x}px, ${sight.y}px) scale(${sight.scale})`;
    this.frame.dataset.zoom = String(Math.round(sight.scale * 1000) / 1000);
    zoomLevel.value = isWhole ? null : sight.scale * fitOf(this.sizes());
  }

  /** A point of the window, from where the middle of the image is while it is whole. */
  private fromMiddle(point: { x: number; y: number }): { x: number; y: number } {
    const box = this.image.getBoundingClientRect();
    return {
      x: point.x - (box.left + box.width / 2 - this.sight.x),
      y: point.y - (box.top + box.height / 2 - this.sight.y),
    };
  }

  private readonly onWheel = (event: WheelEvent) => {
    event.preventDefault();
    this.stopGliding();
    const at = this.fromMiddle({ x: event.clientX, y: event.clientY });
    this.show(zoomed(this.sight, wheelFactor(event), at, this.sizes()), false);
  };

  private readonly onDouble = (event: MouseEvent) => {
    event.preventDefault();
    this.stopGliding();
    this.show(toggled(this.sight, this.fromMiddle({ x: event.clientX, y: event.clientY }), this.sizes()), true);
  };

  private readonly onDown = (event: PointerEvent) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    this.stopGliding();
    this.pointers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (this.sight.scale > 1 || this.pointers.size > 1) this.frame.setPointerCapture?.(event.pointerId);
  };

  private readonly onMove = (event: PointerEvent) => {
    const before = this.pointers.get(event.pointerId);
    if (!before) return;
    const now = { x: event.clientX, y: event.clientY };
    const other = [...this.pointers].find(([id]) => id !== event.pointerId)?.[1];
    this.pointers.set(event.pointerId, now);
    const sizes = this.sizes();
    if (!other) {
      if (this.sight.scale <= 1) return;
      const { scale, x, y } = this.sight;
      return this.show(within({ scale, x: x + now.x - before.x, y: y + now.y - before.y }, sizes), false);
    }
    const far = (point: { x: number; y: number }) => Math.max(1, Math.hypot(point.x - other.x, point.y - other.y));
    const middle = (point: { x: number; y: number }) => ({ x: (point.x + other.x) / 2, y: (point.y + other.y) / 2 });
    const [from, to] = [this.fromMiddle(middle(before)), this.fromMiddle(middle(now))];
    const pinched = zoomed(this.sight, far(now) / far(before), from, sizes);
    this.show(within({ ...pinched, x: pinched.x + to.x - from.x, y: pinched.y + to.y - from.y }, sizes), false);
  };

  private readonly onUp = (event: PointerEvent) => {
    this.pointers.delete(event.pointerId);
  };

  /** Where it glides, the image is not yet where it is going to be. */
  private stopGliding(): void {
    this.image.classList.remove("glides");
  }
}

let current: Zoom | null = null;

/** Let the image in this frame be zoomed; what comes back ends it. */
export function zoomable(frame: HTMLElement, image: HTMLImageElement): () => void {
  const mine = new Zoom(frame, image);
  current = mine;
  return () => {
    mine.leave();
    if (current === mine) current = null;
  };
}

export const zoomBy = (factor: number) => current?.by(factor);
export const toggleZoom = () => current?.toggle();

const WAYS: Record<string, [number, number]> = {
  "Shift+ArrowLeft": [-1, 0],
  "Shift+ArrowRight": [1, 0],
  "Shift+ArrowUp": [0, -1],
  "Shift+ArrowDown": [0, 1],
};

/** Pan with this key, where it is one for that and an image is there. */
export function panByKey(key: string): boolean {
  const way = WAYS[key];
  if (!way || !current) return false;
  current.pan(...way);
  return true;
}
