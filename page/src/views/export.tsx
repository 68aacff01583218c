// Labels out, labels in.
import { useState } from "preact/hooks";
import { Failure, upload } from "../api.ts";
import { annotator, status } from "../state.ts";
import { number, plural } from "../words.ts";

const FORMATS: { format: string; name: string; holds: string; needs?: "model" }[] = [
  {
    format: "csv",
    name: "CSV",
    holds: "One line a label: item, class, who, when, why it was asked, model version. Opens in any spreadsheet.",
  },
  { format: "jsonl", name: "JSONL", holds: "The same, one JSON object a line, for programs." },
  { format: "parquet", name: "Parquet", holds: "The same with types, for data frames." },
  { format: "labelstudio", name: "Label Studio", holds: "The labels as Label Studio imports them." },
  { format: "prodigy", name: "Prodigy", holds: "The labels as Prodigy’s choice recipe writes them." },
  { format: "folders", name: "Class folders", holds: "A zip with a folder for each class, the items inside." },
  {
    format: "predictions-csv",
    name: "Predictions, CSV",
    holds: "The model’s probabilities for every item of the pool.",
    needs: "model",
  },
  {
    format: "predictions-jsonl",
    name: "Predictions, JSONL",
    holds: "The same, one JSON object a line.",
    needs: "model",
  },
  { format: "predictions-parquet", name: "Predictions, Parquet", holds: "The same with types.", needs: "model" },
  {
    format: "model",
    name: "Model",
    holds: "A zip with the trained weights (safetensors) and a small loader.",
    needs: "model",
  },
];

const IMPORTS: Record<string, string> = {
  csv: "csv",
  jsonl: "jsonl",
  ndjson: "jsonl",
  parquet: "parquet",
  json: "labelstudio",
  zip: "folders",
};
const WORDS: Record<string, string> = {
  unchanged: "already there",
  repeated: "said twice in the file",
  unlabelled: "without a label",
  new_classes: "new classes",
  unknown: "not in this pool",
  ambiguous: "fit more than one item",
  broken: "could not be read",
  no_text: "have no text",
};
const MOST = 20 * 1024 * 1024;

interface Tally {
  count: number;
  first: string[];
}

interface Result {
  good: boolean;
  lines: string[];
}

function inWords(file: string, answer: Record<string, unknown>): Result {
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

async function bring(file: File): Promise<Result> {
  const format = IMPORTS[file.name.split(".").at(-1)?.toLowerCase() ?? ""];
  if (!format)
    return {
      good: false,
      lines: [`${file.name} is none of CSV, JSONL, Parquet, Label Studio JSON or a zip of class folders.`],
    };
  if (file.size > MOST)
    return {
      good: false,
      lines: [`${file.name} is larger than 20 MiB. Use “understudy import” on the server’s machine.`],
    };
  try {
    const path = `api/import?format=${format}&annotator=${encodeURIComponent(annotator.value ?? "")}`;
    return inWords(file.name, await upload<Record<string, unknown>>(path, file, "application/octet-stream"));
  } catch (error) {
    return {
      good: false,
      lines: [`${file.name} was not imported: ${error instanceof Failure ? error.message : String(error)}`],
    };
  }
}

export function ExportView() {
  const [result, setResult] = useState<Result | null>(null);
  const [busy, setBusy] = useState(false);
  const [over, setOver] = useState(false);
  const take = async (files: FileList | null | undefined) => {
    const file = files?.[0];
    if (!file || busy) return;
    setBusy(true);
    setResult(await bring(file));
    setBusy(false);
  };
  const { model = null, trained_at: learnt = null } = status.value ?? {};
  const hasModel = model !== null;
  const ofModel = `From model ${model}${learnt === null ? "" : `, trained on ${plural(learnt, "label")}`}.`;
  return (
    <div class="view export">
      <header class="view-head">
        <h1>Export</h1>
        <p class="faint">
          Labels with who gave them, when, and why the item was asked. A download changes nothing here.
        </p>
      </header>
      <ul class="formats">
        {FORMATS.map(({ format, name, holds, needs }) => {
          const off = needs === "model" && !hasModel;
          return (
            <li key={format}>
              {off ? (
                <span class="format off" data-testid={`export-${format}`} aria-disabled="true">
                  <b>{name}</b>
                  <span>{holds} After the first training.</span>
                </span>
              ) : (
                <a class="format" data-testid={`export-${format}`} href={`api/export?format=${format}`} download>
                  <b>{name}</b>
                  <span>
                    {holds} {needs === "model" && <span class="of-model">{ofModel}</span>}
                  </span>
                </a>
              )}
            </li>
          );
        })}
      </ul>
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
          void take(event.dataTransfer?.files);
        }}
      >
        <input
          type="file"
          data-testid="import-file"
          accept=".csv,.jsonl,.ndjson,.parquet,.json,.zip"
          disabled={busy}
          onChange={(event) => {
            void take(event.currentTarget.files);
            event.currentTarget.value = "";
          }}
        />
        <b>{busy ? "Importing…" : "Drop a file here, or choose one"}</b>
        <span>CSV, JSONL, Parquet, Label Studio JSON, or a zip of class folders; at most 20 MiB</span>
      </label>
      <div role="status" data-testid="import-result">
        {result && (
          <ul class={result.good ? "result" : "result bad"}>
            {result.lines.map((line) => (
              <li key={line}>{line}</li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}
