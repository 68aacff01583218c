import { effect, signal } from "@preact/signals";
import { render } from "preact";
import { Failure, get, post } from "./api.ts";
import { askNext, back, forget, open, refreshIfStale, screen } from "./desk.ts";
import { listen } from "./live.ts";
import { fetchSettings, raiseAuditShare } from "./project.ts";
import { name } from "./settings.ts";
import {
  announcement,
  annotator,
  dialog,
  liveAway,
  locked,
  lockedWords,
  may,
  me,
  part,
  partOf,
  query,
  queryOf,
  say,
  status,
  take,
  toast,
  view,
  viewOf,
  viewShown,
} from "./state.ts";
import type { View } from "./state.ts";
import "./css/colours.css";
import "./css/parts.css";
import "./css/bar.css";
import "./css/windows.css";
import "./css/label.css";
import "./css/disputes.css";
import "./css/cards.css";
import "./css/pages.css";
import "./css/projects.css";
import "./css/browse.css";
import "./css/map.css";
import "./css/narrow.css";
import type { Me, Status } from "./types.ts";
import { sentence } from "./words.ts";
import { BrowseView } from "./views/browse.tsx";
import { ClassWindow } from "./views/class_window.tsx";
import { ExportView } from "./views/export.tsx";
import { GridView } from "./views/grid.tsx";
import { LabelView } from "./views/label.tsx";
import { MapView } from "./views/map.tsx";
import { PeopleWindow } from "./views/people_window.tsx";
import { ProgressView } from "./views/progress.tsx";
import { ReviewView } from "./views/review.tsx";
import { ProjectsView } from "./views/projects.tsx";
import { Banner, Nav, TopBar } from "./views/topbar.tsx";
import { Locked, Preparing, Welcome } from "./views/welcome.tsx";
import { Help, RefusedWindow, SettingsWindow } from "./views/windows.tsx";

const PAGES: Record<View, () => preact.JSX.Element | null> = {
  label: LabelView,
  browse: BrowseView,
  grid: GridView,
  review: ReviewView,
  progress: ProgressView,
  export: ExportView,
  map: MapView,
};

const trouble = signal<{ heading: string; words: string } | null>(null);
const started = signal(false);
const entering = signal(false); // a name that is known from before is being said to the server: nobody is asked for one

addEventListener("hashchange", () => {
  if (view.value === viewOf(location.hash) && view.value === "browse") return; // another list of the same view
  view.value = viewOf(location.hash);
  part.value = partOf(location.hash);
  query.value = queryOf(location.hash);
  dialog.value = null;
  document.getElementById("main")?.focus({ preventScroll: true });
});

function App() {
  const who = me.value;
  const now = status.value;
  if (trouble.value)
    return (
      <main class="welcome">
        <div class="card" role="alert" data-testid="trouble">
          <h1>{trouble.value.heading}</h1>
          <p>{trouble.value.words}</p>
        </div>
      </main>
    );
  if (!who || entering.value) return null;
  if (who.several === "list")
    return who.login ? <Welcome login onReady={() => first()} /> : <ProjectsView onLogin={() => askAgain(who)} />;
  if (annotator.value === null || (locked.value && who.login))
    return <Welcome login={who.login} onReady={begin} />;
  if (locked.value && !who.login) return <Locked />;
  if (!now) return null;
  if (now.phase === "preparing") return <Preparing />;
  const Page = PAGES[viewShown.value];
  return (
    <>
      <a
        class="jump"
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          document.getElementById("main")?.focus();
        }}
      >
        To the item
      </a>
      <TopBar />
      <Banner />
      <main id="main" tabIndex={-1} data-view={viewShown.value}>
        <Page />
      </main>
      <Nav below />
      {toast.value && (
        <div class={`toast ${toast.value.tone}`} data-testid="toast">
          {toast.value.words}
        </div>
      )}
      {dialog.value === "help" && <Help />}
      {dialog.value === "settings" && <SettingsWindow onLeave={() => void leave()} />}
      {dialog.value === "refused" && <RefusedWindow />}
      {dialog.value === "classes" && <ClassWindow />}
      {dialog.value === "people" && may("owner") && <PeopleWindow />}
    </>
  );
}

async function begin(given: string, raise = false): Promise<void> {
  if (locked.value || me.value?.login) me.value = await get<Me>("api/me").catch(() => me.value);
  locked.value = false;
  if (me.value && !me.value.fixed) me.value = await get<Me>(`api/me?annotator=${encodeURIComponent(given)}`);
  const called = me.value?.annotator ?? given; // the name may have been changed since it was last typed here
  name.value = called;
  annotator.value = called;
  entering.value = false;
  if (!status.value) take(await get<Status>("api/status"));
  const better = status.value?.audit?.raise_to;
  if (raise && better != null) await raiseAuditShare(better); // before anything is asked: the sample is of all items
  listen(called, () => void back());
  if (status.value?.phase === "ready") await openDesk();
}

/** The name that was typed here once cannot be used any more: another one has to be chosen. */
function refuseName(error: unknown): void {
  if (!(error instanceof Failure) || error.trouble !== "refused" || me.value?.fixed) throw error;
  name.value = "";
  say(sentence(error.message), "bad");
}

async function openDesk(): Promise<void> {
  if (!status.value) return;
  if (!started.value) {
    started.value = true;
    fetchSettings().catch(() => undefined); // only to hide what the project does not allow
    await open(status.value.project);
  } else await askNext();
}

async function leave(): Promise<void> {
  dialog.value = null;
  const who = annotator.value;
  forget();
  annotator.value = null;
  if (who !== null) await post("api/release", { annotator: who }).catch(() => undefined);
  if (!me.value?.fixed) return;
  await post("api/logout", {}).catch(() => undefined);
  location.reload();
}

/** The list of projects lacks some: give the password once more, which is that of all. */
function askAgain(who: Me): void {
  me.value = { ...who, login: true };
}

function inTheWay(failure: Failure | null, error: unknown): { heading: string; words: string } {
  if (failure?.trouble === "locked")
    return {
      heading: "You need your personal link",
      words:
        "Everybody who labels here has a link of their own. Please open the one that you were sent. " +
        "If you cannot find it, ask the person who sent it for a new one.",
    };
  if (failure?.trouble === "away")
    return { heading: "The server does not answer", words: "This page tries again by itself." };
  return { heading: "This page cannot start", words: sentence(failure?.message ?? String(error)) };
}

async function first(): Promise<void> {
  try {
    const who = await get<Me>("api/me");
    if (who.several === "list") {
      me.value = who;
      trouble.value = null;
      return;
    }
    const known = who.annotator ?? (who.login ? null : name.value || null);
    if (!who.login || who.annotator !== null) take(await get<Status>("api/status"));
    entering.value = known !== null;
    me.value = who;
    trouble.value = null;
    if (known !== null) await begin(known).catch(refuseName);
  } catch (error) {
    const failure = error instanceof Failure ? error : null;
    trouble.value = inTheWay(failure, error);
    if (failure?.trouble === "away") setTimeout(() => void first(), 1000);
  } finally {
    entering.value = false;
  }
}

// The pool became ready, or somebody gave an item back while there was nothing to ask.
let again = 0;
effect(() => {
  const now = status.value;
  if (!now || annotator.value === null || now.phase !== "ready" || liveAway.value) return;
  if (!started.value) void openDesk();
  else if (screen.peek()?.question.item === null) {
    clearTimeout(again);
    again = window.setTimeout(() => screen.peek()?.question.item === null && void askNext(), 700);
  }
});
effect(() => {
  if (locked.value)
    void get<Me>("api/me").then(
      (fresh) => (me.value = fresh),
      (error: unknown) => (lockedWords.value = error instanceof Failure ? error.message : ""),
    ); // is it a password that is wanted?
});
effect(() => {
  const now = status.value;
  document.title = now ? `${now.labelled} · ${now.project} · Understudy` : "Understudy";
});
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refreshIfStale());

// Words for those who listen rather than look.
const live = document.createElement("div");
live.className = "unseen";
live.setAttribute("aria-live", "polite");
live.setAttribute("data-testid", "announcer");
document.body.append(live);
effect(() => {
  live.textContent = announcement.value;
});
effect(() => {
  const question = screen.value?.question;
  if (question?.item != null)
    announcement.value = `${announcement.peek().replace(/ Next item\.$/, "")} Next item.`.trim();
});

const page = document.getElementById("page");
if (page) render(<App />, page);
void first();
