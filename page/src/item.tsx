import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { thumbnailOf } from "./api.ts";
import { prepare } from "./content.ts";
import type { Content } from "./content.ts";
import { classOfKey, keyOf } from "./keys.ts";
import { keyMap } from "./settings.ts";
import { classView, classes } from "./state.ts";
import type { Column } from "./types.ts";
import { STEP, panByKey, toggleZoom, zoomBy, zoomLevel, zoomable } from "./zoom.ts";

const TINY = 96; // pixels: images smaller than this are drawn with hard edges

/** How large a tiny image is drawn: a digit of 8 x 8 pixels across the whole screen is harder to read, not easier. */
const drawn = (pixels: number) => Math.max(288, 12 * pixels);

/** An item, large. The picture is the very element that was decoded ahead, so that nothing flashes. */
export function Item({
  content,
  item,
  id,
  testid = "item",
}: {
  content: Content;
  item: number;
  id: string;
  testid?: string;
}) {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    const stage = place.current;
    if (!stage) return;
    if (content.kind === "image") {
      const { image } = content;
      const tiny = Math.max(image.naturalWidth, image.naturalHeight) <= TINY;
      image.className = tiny ? "picture tiny" : "picture";
      const side = tiny ? `${drawn(Math.max(image.naturalWidth, image.naturalHeight))}px` : "";
      image.style.maxWidth = side;
      image.style.maxHeight = side;
      image.alt = `item ${id}`;
      stage.replaceChildren(image);
    } else {
      stage.replaceChildren();
      stage.scrollTop = 0;
    }
    stage.dataset.shownItem = String(item);
    stage.dataset.shownAt = String(performance.now());
    return content.kind === "image" ? zoomable(stage, content.image) : undefined;
  }, [content, item]);
  return (
    <>
      <div
        ref={place}
        class={content.kind === "image" ? "picture-frame" : "gone"}
        data-testid={content.kind === "image" ? testid : undefined}
        data-shown-item={item}
      />
      {content.kind === "text" && (
        <div
          class="text-frame"
          tabIndex={0}
          role="region"
          aria-label="Text of the item"
          data-testid={testid}
          data-shown-item={item}
        >
          <p>{content.text}</p>
        </div>
      )}
      {content.kind === "broken" && (
        <div class="broken" role="alert" data-testid={testid} data-shown-item={item}>
          <strong>This item cannot be shown.</strong>
          <span>{content.why}</span>
        </div>
      )}
    </>
  );
}

const LONG = 160; // characters of a value that are shown before "more"
const ADDRESS = /^https?:\/\/[^\s]+$/i;

function Value({ value }: { value: string }) {
  const [whole, setWhole] = useState(false);
  if (value === "") return <span class="faint">–</span>;
  if (ADDRESS.test(value))
    return (
      <a href={value} target="_blank" rel="noopener noreferrer">
        {value}
      </a>
    );
  if (value.length <= LONG) return <>{value}</>;
  return (
    <>
      {whole ? value : `${value.slice(0, LONG - 20).replace(/[\s.,;:!?]+$/, "")}…`}{" "}
      <button type="button" class="link" aria-expanded={whole} onClick={() => setWhole(!whole)}>
        {whole ? "less" : "more"}
      </button>
    </>
  );
}

/** What other columns of the table say of an item: for people only. */
export function Columns({ item, columns }: { item: number; columns: readonly Column[] }) {
  if (columns.length === 0) return null;
  return (
    <dl class="columns" data-testid="columns" tabIndex={0} aria-label="Other columns of the table">
      {columns.map(({ name, value }) => (
        <div key={`${item} ${name}`}>
          <dt>{name}</dt>
          <dd>
            <Value value={value} />
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** How large the image is, for a mouse and for fingers. */
export function ZoomControl() {
  const level = zoomLevel.value;
  return (
    <span class="zoom" role="group" aria-label="Zoom">
      <button
        type="button"
        data-testid="zoom-out"
        aria-label="Zoom out"
        title="Zoom out (-)"
        disabled={level === null}
        onClick={() => zoomBy(1 / STEP)}
      >
        −
      </button>
      <button
        type="button"
        class="zoom-level"
        data-testid="zoom-level"
        title="The whole image, or pixel by pixel (z, double click)"
        onClick={toggleZoom}
      >
        {level === null ? "Fit" : `${Math.round(level * 100)} %`}
      </button>
      <button type="button" data-testid="zoom-in" aria-label="Zoom in" title="Zoom in (+)" onClick={() => zoomBy(STEP)}>
        +
      </button>
    </span>
  );
}

/** Zoom or pan with this key, unless it is a class's. */
export function zoomByKey(key: string): boolean {
  const map = keyMap.value;
  if (classOfKey(key, classes.value, map, classView.value) !== null) return false;
  if (key === keyOf("zoom", map)) toggleZoom();
  else if (key === keyOf("larger", map) || key === "=") zoomBy(STEP);
  else if (key === keyOf("smaller", map)) zoomBy(1 / STEP);
  else return panByKey(key);
  return true;
}

/** An item that is loaded where it stands: the review's. */
export function LoadedItem({
  shown,
  testid,
}: {
  shown: { item: number; id: string; kind: string; text: string | null };
  testid?: string;
}) {
  const [content, setContent] = useState<Content | null>(null);
  useLayoutEffect(() => {
    let wanted = true;
    void prepare(shown).then((made) => wanted && setContent(made));
    return () => {
      wanted = false;
    };
  }, [shown.item]);
  return content ? (
    <Item content={content} item={shown.item} id={shown.id} testid={testid} />
  ) : (
    <div class="picture-frame" aria-busy="true" />
  );
}

function ShortText({ item, text }: { item: number; text: string | null }) {
  const [found, setFound] = useState(text);
  useLayoutEffect(() => {
    let wanted = true;
    if (text !== null) setFound(text);
    else
      void prepare({ item, kind: "text", text: null }).then(
        (content) => wanted && content?.kind === "text" && setFound(content.text),
      );
    return () => {
      wanted = false;
    };
  }, [item]);
  return <span class="thumb-text">{found?.slice(0, 300) ?? "…"}</span>;
}

/** An item, small: a thumbnail, or the first words. */
export function Thumb({
  item,
  kind,
  text = null,
  alt,
}: {
  item: number;
  kind: string;
  text?: string | null;
  alt: string;
}) {
  if (kind === "text") return <ShortText item={item} text={text} />;
  const sharpen = (image: HTMLImageElement | null) => {
    if (image?.complete) image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) <= TINY);
  };
  return (
    <img
      class="thumb"
      src={thumbnailOf(item)}
      alt={alt}
      loading="lazy"
      draggable={false}
      ref={sharpen}
      onLoad={(event) => sharpen(event.currentTarget)}
    />
  );
}
