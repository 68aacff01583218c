// Labels out, labels in.
import { useEffect, useState } from "preact/hooks";
import { Failure, get, upload } from "../api.ts";
import { annotator, status } from "../state.ts";
import type { FormatCard } from "../types.ts";
import { number, plural, sentence } from "../words.ts";
import { type Outcome, OutcomeList } from "./outcome.tsx";

const WORDS: Record<string, string> = {
  unchanged: "already there",
  repeated: "said twice in the file",
  unlabelled: "without a label",
  new_classes: "new classes",
  unknown: "not in this pool",
  ambiguous: "fit more than one item",
  broken: "could not be read",
  no_text: "are not the name of one class",
};
const MOST = 20 * 1024 * 1024;

interface Tally {
  count: number;
  first: string[];
}

function inWords(file: string, answer: Record<string, unknown>): Outcome {
  const lines: string[] = [];
  for (const [field, value] of Object.entries(answer)) {
    const words = WORDS[field] ?? field.replaceAll("_", " ");
    if (typeof value === "number") {
      if (value > 0 || field === "added")
        lines.push(field === "added" ? `${plural(value, "label")} added from ${file}.` : `${number(value)} ${words}.`);
    } else if (Array.isArray(value) && value.length > 0) {
      lines.push(`${words}: ${value.slice(0, 8).map(String).join(", ")}${value.length > 8 ? " …" : ""}.`);
    } else if (value !== null && typeof value === "object" && "count" in value && (value as Tally).count > 0) {
      const { count, first } = value as Tally;
      lines.push(
        `${number(count)} ${words}${first.length > 0 ? `: ${first.join(", ")}${count > first.length ? " …" : ""}` : ""}.`,
      );
    }
  }
  return { good: true, lines };
}

const readable = (formats: FormatCard[]) => formats.filter(({ suffixes }) => suffixes.length > 0);

const listed = (formats: FormatCard[]) => {
  const titles = readable(formats).map(({ title }) => title);
  return titles.length > 1 ? `${titles.slice(0, -1).join(", ")} or ${titles.at(-1)}` : (titles[0] ?? "");
};

async function bring(file: File, formats: FormatCard[], alike: boolean, insist: () => void): Promise<Outcome> {
  const lower = file.name.toLowerCase();
  const format = formats.find(({ suffixes }) => suffixes.some((suffix) => lower.endsWith(suffix)))?.format;
  if (!format) return { good: false, lines: [`${file.name} is none of ${listed(formats)}.`] };
  if (file.size > MOST)
    return {
      good: false,
      lines: [`${file.name} is larger than 20 MiB. Use “understudy import” on the server’s machine.`],
    };
  try {
    const path = `api/import?format=${format}&annotator=${encodeURIComponent(annotator.value ?? "")}${alike ? "&alike=true" : ""}`;
    return inWords(file.name, await upload<Record<string, unknown>>(path, file, "application/octet-stream"));
  } catch (error) {
    return {
      good: false,
      lines: [`${file.name} was not imported: ${error instanceof Failure ? error.message : String(error)}`],
      insist: !alike && error instanceof Failure && error.message.includes("easily taken") ? insist : undefined,
    };
  }
}

/** The address of a download, with what was asked for beside its format. */
function addressOf(format: string, raw: boolean, prefix: string): string {
  const asked = new URLSearchParams({ format });
  if (raw) asked.set("raw", "true");
  if (prefix.trim() !== "") asked.set("prefix", prefix.trim());
  return `api/export?${asked.toString()}`;
}

export function ExportView() {
  const [formats, setFormats] = useState<FormatCard[] | null>(null);
  const [trouble, setTrouble] = useState("");
  const [raw, setRaw] = useState(false);
  const [prefix, setPrefix] = useState("");
  const [result, setResult] = useState<Outcome | null>(null);
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  useEffect(
    () =>
      void get<FormatCard[]>("api/formats").then(setFormats, (error: unknown) =>
        setTrouble(sentence(error instanceof Failure ? error.message : String(error))),
      ),
    [],
  );
  const take = async (file: File | undefined, alike = false) => {
    if (!file || busy || !formats) return;
    setBusy(true);
    setResult(await bring(file, formats, alike, () => void take(file, true)));
    setBusy(false);
  };
  const { model = null, trained_at: learnt = null, kind = "image" } = status.value ?? {};
  const hasModel = model !== null;
  const ofModel = `From model ${model}${learnt === null ? "" : `, trained on ${plural(learnt, "label")}`}.`;
  if (!formats)
    return (
      <p class="centre faint" role="status">
        {trouble || "Looking up the formats…"}
      </p>
    );
  const cards = (wanted: FormatCard[]) => (
    <ul class="formats">
      {wanted.map(({ format, title, holds, is_of_model: needsModel }) => (
        <li key={format}>
          {needsModel && !hasModel ? (
            <span class="format off" data-testid={`export-${format}`} aria-disabled="true">
              <b>{title}</b>
              <span>{sentence(holds)} After the first training.</span>
            </span>
          ) : (
            <a
              class="format"
              data-testid={`export-${format}`}
              href={addressOf(format, raw && needsModel, format === "labelstudio" ? prefix : "")}
              download
            >
              <b>{title}</b>
              <span>
                {sentence(holds)} {needsModel && <span class="of-model">{ofModel}</span>}
              </span>
            </a>
          )}
        </li>
      ))}
    </ul>
  );
  return (
    <div class="view export">
      <header class="view-head">
        <h1>Export</h1>
        <p class="faint">
          Labels with who gave them, when, and why the item was asked. A download changes nothing here.
        </p>
      </header>
      {cards(formats.filter((card) => !card.is_of_model))}
      {kind === "image" && formats.some(({ format }) => format === "labelstudio") && (
        <label class="option">
          <span>
            For Label Studio: images begin with
            <small>Where it finds them: an address, or /data/local-files/?d=photos/; empty: as they are named here</small>
          </span>
          <input
            class="field"
            type="text"
            data-testid="export-prefix"
            spellcheck={false}
            value={prefix}
            onInput={(event) => setPrefix(event.currentTarget.value)}
          />
        </label>
      )}
      <header class="view-head">
        <h2>Predictions and the model</h2>
        <p class="faint">{status.value?.calibration?.sentence ?? "After the first training."}</p>
      </header>
      {cards(formats.filter((card) => card.is_of_model))}
      <label class="check">
        <input
          type="checkbox"
          data-testid="export-raw"
          checked={raw}
          onChange={(event) => setRaw(event.currentTarget.checked)}
        />
        <span>
          Raw probabilities
          <small>As the model gives them, not calibrated: usually too sure</small>
        </span>
      </label>
      <header class="view-head">
        <h2>Import</h2>
        <p class="faint">
          Labels you have already, matched by the names of the items. They count as yours, and every one can be seen in
          the log.
        </p>
      </header>
      <label
        class={over ? "drop over" : "drop"}
        onDragOver={(event) => {
          event.preventDefault();
          setOver(true);
        }}
        onDragLeave={() => setOver(false)}
        onDrop={(event) => {
          event.preventDefault();
          setOver(false);
          void take(event.dataTransfer?.files[0]);
        }}
      >
        <input
          type="file"
          data-testid="import-file"
          accept={readable(formats).flatMap(({ suffixes }) => suffixes).join(",")}
          disabled={busy}
          onChange={(event) => {
            void take(event.currentTarget.files?.[0]);
            event.currentTarget.value = "";
          }}
        />
        <b>{busy ? "Importing…" : "Drop a file here, or choose one"}</b>
        <span>{listed(formats)}; at most 20 MiB</span>
      </label>
      <OutcomeList outcome={result} testid="import-result" />
    </div>
  );
}
