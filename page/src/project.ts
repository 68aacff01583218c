// What changes the project for everybody: its settings, and what its folders are taken for.
import { Failure, get, post, randomKey } from "./api.ts";
import { askNext, forget } from "./desk.ts";
import { allowed, annotator, say, take } from "./state.ts";
import type { ProjectSettings, SourceLook, Status } from "./types.ts";
import { percent, plural, sentence } from "./words.ts";

const wordsOf = (error: unknown) => sentence(error instanceof Failure ? error.message : String(error));

function note(found: ProjectSettings): ProjectSettings {
  const suggestions = found.settings.find(({ name }) => name === "suggestions")?.value !== false;
  const copies = found.settings.find(({ name }) => name === "copies")?.value === "ask";
  allowed.value = { suggestions, copies };
  return found;
}

export const fetchSettings = () => get<ProjectSettings>("api/settings").then(note);

/** Change settings; what came of it in sentences. */
export async function changeSettings(changes: Record<string, unknown>): Promise<ProjectSettings> {
  const body = { annotator: annotator.value, key: randomKey(), ...changes };
  const found = note(await post<ProjectSettings>("api/settings", body, 60_000));
  if ("show" in changes) await askNext(); // the item on the screen again, with what is shown beside it now
  return found;
}

/** Assign a person a share of the pool, classes and a number of labels; null takes each away. */
export const assign = (person: string, values: { share: number | null; classes: number[]; quota: number | null }) =>
  post("api/people/assign", { annotator: annotator.value, key: randomKey(), person, ...values });

export async function raiseAuditShare(share: number): Promise<void> {
  try {
    const { notes } = await changeSettings({ audit_share: share });
    say(notes[0] ?? `The audit share is ${percent(share)} now.`);
  } catch (error) {
    say(wordsOf(error), "bad");
  }
}

/** Have it looked whether there are new files, or new rows in the table. */
export async function lookForItems(): Promise<void> {
  try {
    const found = await post<SourceLook>("api/items/look", { annotator: annotator.value }, 60_000);
    const joins = found.new === 1 ? "it joins" : "they join";
    const news = found.new > 0 ? `${plural(found.new, "new item")}: ${joins} in a moment.` : "There are no new items.";
    say([news, ...found.notes.map(sentence)].join(" "));
  } catch (error) {
    say(wordsOf(error), "bad");
  }
}

/** Folders are classes, or only folders. The project begins anew, so the first question is another. */
export async function decideFolders(labels: boolean): Promise<void> {
  try {
    const fresh = await post<Status>("api/folders", { annotator: annotator.value, labels }, 120_000);
    forget();
    take(fresh);
    take(await get<Status>("api/status"));
    await askNext();
  } catch (error) {
    say(wordsOf(error), "bad");
  }
}
