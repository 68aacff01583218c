// Drawing the map's points: by WebGL where there is any, else by the canvas. Both draw the same.
import type { Rgb } from "./map_colours.ts";
import type { Seen } from "./map_geometry.ts";

/** How every item is drawn. */
export interface Dots {
  steps: Uint16Array; // x and y of each
  colours: Uint8Array; // red, green, blue and how opaque, of each
  isLarge: Uint8Array; // whether it is large and has a rim: labelled
  order: Uint32Array; // those in front last
}

export interface Drawing {
  readonly kind: "webgl" | "canvas";
  /** Take other dots; nothing is drawn yet. */
  take(dots: Dots): void;
  /** Draw a window of this size in CSS pixels. */
  draw(seen: Seen, width: number, height: number, rim: Rgb): void;
  free(): void;
}

/** Radius in CSS pixels: larger where one looks closer, smaller where there are many. */
export function radiusOf(count: number, seen: Seen, fitting: number): number {
  const few = Math.min(1, Math.max(0, Math.log10(60_000 / Math.max(count, 1)) / 2.5));
  const base = 1.1 + 2.6 * few;
  return Math.min(9, base * Math.max(0.8, (seen.scale / fitting) ** 0.4));
}
export const LARGER = 1.7; // labelled ones
const RIM = 0.3; // share of the radius

const VERTEX = `#version 300 es
in vec2 place;
in vec4 colour;
in float large;
uniform vec4 seen; // left, top, scale, ratio of device pixels
uniform vec2 size;
uniform float radius;
out vec4 ink;
flat out float rim;
flat out float reach;
void main() {
  vec2 at = (seen.xy + place * seen.z) / size * 2.0 - 1.0;
  gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
  float r = radius * (large > 0.5 ? ${LARGER.toFixed(1)} : 1.0);
  gl_PointSize = 2.0 * r * seen.w + 1.0;
  reach = r * seen.w;
  ink = colour;
  rim = large > 0.5 ? ${RIM.toFixed(1)} : 0.0;
}`;
const FRAGMENT = `#version 300 es
precision mediump float;
in vec4 ink;
flat in float rim;
flat in float reach;
uniform vec3 edge;
out vec4 drawn;
void main() {
  float far = length(gl_PointCoord - 0.5) * (2.0 * reach + 1.0);
  float cover = clamp(reach + 0.5 - far, 0.0, 1.0);
  if (cover <= 0.0) discard;
  vec3 shade = mix(ink.rgb, edge, rim > 0.0 ? clamp(far - reach * (1.0 - rim) + 0.5, 0.0, 1.0) : 0.0);
  float alpha = ink.a * cover;
  drawn = vec4(shade * alpha, alpha);
}`;

class WebGlDrawing implements Drawing {
  readonly kind = "webgl";
  private readonly program: WebGLProgram;
  private readonly buffers: WebGLBuffer[];
  private count = 0;
  private fitting = 0;

  constructor(private readonly gl: WebGL2RenderingContext) {
    this.program = gl.createProgram();
    for (const [type, source] of [[gl.VERTEX_SHADER, VERTEX] as const, [gl.FRAGMENT_SHADER, FRAGMENT] as const]) {
      const shader = gl.createShader(type);
      if (!shader) throw new Error("no shader");
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(this.program, shader);
    }
    gl.linkProgram(this.program);
    if (!gl.getProgramParameter(this.program, gl.LINK_STATUS))
      throw new Error(gl.getProgramInfoLog(this.program) ?? "no program");
    gl.useProgram(this.program);
    this.buffers = Array.from({ length: 4 }, () => gl.createBuffer());
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  }

  take(dots: Dots): void {
    const { gl } = this;
    this.count = dots.order.length;
    this.attribute("place", 0, dots.steps, 2, gl.UNSIGNED_SHORT);
    this.attribute("colour", 1, dots.colours, 4, gl.UNSIGNED_BYTE);
    this.attribute("large", 2, dots.isLarge, 1, gl.UNSIGNED_BYTE, false);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.buffers[3] ?? null);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, dots.order, gl.DYNAMIC_DRAW);
  }

  draw(seen: Seen, width: number, height: number, rim: Rgb): void {
    const { gl } = this;
    const canvas = gl.canvas as HTMLCanvasElement;
    const ratio = resize(canvas, width, height);
    this.fitting = Math.min(width, height);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    const at = (name: string) => gl.getUniformLocation(this.program, name);
    gl.uniform4f(at("seen"), seen.left, seen.top, seen.scale, ratio);
    gl.uniform2f(at("size"), width, height);
    gl.uniform1f(at("radius"), radiusOf(this.count, seen, this.fitting));
    gl.uniform3f(at("edge"), rim[0] / 255, rim[1] / 255, rim[2] / 255);
    gl.drawElements(gl.POINTS, this.count, gl.UNSIGNED_INT, 0);
  }

  free(): void {
    for (const buffer of this.buffers) this.gl.deleteBuffer(buffer);
    this.gl.deleteProgram(this.program);
  }

  private attribute(
    name: string,
    which: number,
    values: Uint16Array | Uint8Array,
    size: number,
    type: number,
    scaled = true,
  ): void {
    const { gl } = this;
    const place = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[which] ?? null);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.DYNAMIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, size, type, scaled, 0, 0);
  }
}

class CanvasDrawing implements Drawing {
  readonly kind = "canvas";
  private dots: Dots | null = null;

  constructor(private readonly context: CanvasRenderingContext2D) {}

  take(dots: Dots): void {
    this.dots = dots;
  }

  draw(seen: Seen, width: number, height: number, rim: Rgb): void {
    const { context, dots } = this;
    const ratio = resize(context.canvas, width, height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    if (!dots) return;
    const small = radiusOf(dots.order.length, seen, Math.min(width, height));
    const edge = `rgb(${rim.join(" ")})`;
    const words = new Map<number, string>();
    let last = -1;
    for (const item of dots.order) {
      const x = seen.left + ((dots.steps[2 * item] ?? 0) / 65535) * seen.scale;
      const y = seen.top + ((dots.steps[2 * item + 1] ?? 0) / 65535) * seen.scale;
      const isLarge = dots.isLarge[item] === 1;
      const radius = isLarge ? small * LARGER : small;
      if (x < -radius || y < -radius || x > width + radius || y > height + radius) continue;
      const [r, g, b, a] = dots.colours.subarray(4 * item, 4 * item + 4) as unknown as [number, number, number, number];
      if (isLarge) {
        context.fillStyle = edge;
        context.globalAlpha = a / 255;
        context.fillRect(x - radius, y - radius, 2 * radius, 2 * radius);
        context.globalAlpha = 1;
        last = -1;
      }
      const colour = ((r * 256 + g) * 256 + b) * 256 + a;
      if (colour !== last) {
        let css = words.get(colour);
        if (css === undefined) words.set(colour, (css = `rgb(${r} ${g} ${b} / ${a / 255})`));
        context.fillStyle = css;
        last = colour;
      }
      const inner = isLarge ? radius * (1 - RIM) : radius * 0.9; // a square of about the area of the disc
      context.fillRect(x - inner, y - inner, 2 * inner, 2 * inner);
    }
  }

  free(): void {
    this.dots = null;
  }
}

/** Give a canvas as many pixels as the screen has for it; how many for one of CSS, at most two. */
function resize(canvas: HTMLCanvasElement, width: number, height: number): number {
  const ratio = Math.min(2, devicePixelRatio || 1);
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w) canvas.width = w;
  if (canvas.height !== h) canvas.height = h;
  return ratio;
}

/** A drawing on this canvas. `without`: by the canvas alone, even where there is WebGL. */
export function drawingOn(canvas: HTMLCanvasElement, without = false): Drawing | null {
  const gl = without ? null : canvas.getContext("webgl2", { alpha: true, antialias: false, premultipliedAlpha: true });
  if (gl) {
    try {
      return new WebGlDrawing(gl);
    } catch {
      return null; // the canvas is taken: the caller makes another
    }
  }
  const context = canvas.getContext("2d");
  return context && new CanvasDrawing(context);
}
