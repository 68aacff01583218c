// Two drawings by hand: the spark in the top bar and the curve on the progress page.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { CurvePoint } from "./types.ts";
import { number, percent } from "./words.ts";

type Measured = CurvePoint & { accuracy: number };
const measured = (curve: CurvePoint[]) => curve.filter((point): point is Measured => point.accuracy !== null);

export function Spark({ curve }: { curve: CurvePoint[] }) {
  const points = measured(curve).slice(-40);
  if (points.length < 2) return null;
  const [width, height] = [64, 20];
  const values = points.map((point) => point.accuracy);
  const low = Math.max(0, Math.min(...values) - 0.03);
  const high = Math.min(1, Math.max(...values) + 0.03);
  const x = (i: number) => 2 + (i * (width - 6)) / (points.length - 1);
  const y = (value: number) => height - 2 - ((value - low) / Math.max(high - low, 1e-9)) * (height - 4);
  const line = points.map((point, i) => `${x(i).toFixed(1)},${y(point.accuracy).toFixed(1)}`).join(" ");
  return (
    <svg class="spark" viewBox={`0 0 ${width} ${height}`} width={width} height={height} aria-hidden="true">
      <polyline points={line} />
      <circle cx={x(points.length - 1)} cy={y(values.at(-1) as number)} r="2.4" />
    </svg>
  );
}

export function BalanceBars({ classes }: { classes: { name: string; count: number }[] }) {
  const most = Math.max(1, ...classes.map(({ count }) => count));
  const shown = classes.slice(0, 24);
  const words = classes.map(({ name, count }) => `${name} ${count}`).join(", ");
  return (
    <svg
      class="balance"
      viewBox={`0 0 ${shown.length * 6} 20`}
      width={shown.length * 6}
      height={20}
      role="img"
      aria-label={`Labels by class: ${words}`}
    >
      <title>{`Labels by class\n${classes.map(({ name, count }) => `${name}: ${count}`).join("\n")}`}</title>
      {shown.map(({ count }, i) => {
        const tall = count === 0 ? 1 : 2 + (16 * count) / most;
        return <rect key={i} x={i * 6} y={19 - tall} width={4} height={tall} rx={1} />;
      })}
    </svg>
  );
}

function steps(most: number, width: number): number[] {
  const raw = most / (width < 500 ? 4 : 8);
  const power = 10 ** Math.floor(Math.log10(Math.max(raw, 1)));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) ?? power;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function ticks(floor: number): number[] {
  const step = floor < 0.5 ? 0.2 : floor < 0.8 ? 0.1 : 0.05;
  const found: number[] = [];
  for (let share = 1; share > floor - 1e-9; share -= step) found.push(share);
  return found;
}

export function Curve({ curve }: { curve: CurvePoint[] }) {
  const frame = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const watch = new ResizeObserver(() => setWidth(Math.round(element.clientWidth)));
    setWidth(Math.round(element.clientWidth));
    watch.observe(element);
    return () => watch.disconnect();
  }, []);
  return (
    <div ref={frame} class="curve-frame">
      {width > 0 && <CurveDrawing curve={curve} width={width} />}
    </div>
  );
}

function CurveDrawing({ curve, width }: { curve: CurvePoint[]; width: number }) {
  const points = measured(curve);
  if (points.length === 0) return null;
  const [height, left, right, top, bottom] = [width < 500 ? 210 : 280, 42, 10, 12, 36];
  const most = Math.max(10, ...points.map((point) => point.labels)) * 1.04;
  const lowest = Math.min(...points.map((point) => Math.min(point.low ?? point.accuracy, point.asked_accuracy ?? 1)));
  const floor = Math.max(0, Math.floor(lowest * 5) / 5);
  const x = (labels: number) => left + (labels / most) * (width - left - right);
  const y = (share: number) => top + (1 - (share - floor) / (1 - floor || 1)) * (height - top - bottom);
  const at = (labels: number, share: number) => `${x(labels).toFixed(1)},${y(share).toFixed(1)}`;
  const band = [
    ...points.map((point) => at(point.labels, point.high ?? point.accuracy)),
    ...[...points].reverse().map((point) => at(point.labels, point.low ?? point.accuracy)),
  ];
  const asked = points.filter((point) => point.asked_accuracy !== null);
  const shares = ticks(floor);
  const last = points.at(-1) as Measured;
  return (
    <svg
      class="curve"
      viewBox={`0 0 ${width} ${height}`}
      width={width}
      height={height}
      role="img"
      aria-label={`Accuracy by number of labels; at ${last.labels} labels ${percent(last.accuracy, 1)}`}
    >
      {shares.map((share) => (
        <g key={share} class="tick">
          <line x1={left} x2={width - right} y1={y(share)} y2={y(share)} />
          <text x={left - 8} y={y(share) + 4} text-anchor="end">
            {percent(share)}
          </text>
        </g>
      ))}
      {steps(most, width).map((labels) => (
        <text key={labels} class="tick" x={x(labels)} y={height - bottom + 18} text-anchor="middle">
          {number(labels)}
        </text>
      ))}
      <text class="tick" x={width - right} y={height - 2} text-anchor="end">
        labels
      </text>
      <polygon class="band" points={band.join(" ")} />
      {asked.length > 1 && (
        <polyline class="asked" points={asked.map((p) => at(p.labels, p.asked_accuracy as number)).join(" ")} />
      )}
      <polyline class="line" points={points.map((point) => at(point.labels, point.accuracy)).join(" ")} />
      {points.map((point, i) => (
        <g key={i}>
          {points.length === 1 && (
            <line
              class="whisker"
              x1={x(point.labels)}
              x2={x(point.labels)}
              y1={y(point.low ?? 0)}
              y2={y(point.high ?? 1)}
            />
          )}
          <circle class="dot" cx={x(point.labels)} cy={y(point.accuracy)} r="3.6">
            <title>{`${point.labels} labels: ${percent(point.accuracy, 1)} right on ${point.audited} audit items`}</title>
          </circle>
        </g>
      ))}
    </svg>
  );
}
