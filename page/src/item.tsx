import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { thumbnailOf } from "./api.ts";
import { prepare } from "./content.ts";
import type { Content } from "./content.ts";

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
