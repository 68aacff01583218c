// The list of projects, where one server has several.
import { useEffect, useState } from "preact/hooks";
import { Failure, get } from "../api.ts";
import { locked } from "../state.ts";
import type { ListedProject, ProjectList } from "../types.ts";
import { number, percent, sentence } from "../words.ts";

const EVERY = 3000; // ms between two looks, while the page is seen

function Numbers({ project }: { project: ListedProject }) {
  const { labelled, total, accuracy, interval, online } = project;
  return (
    <>
      <span class="meter" aria-hidden="true">
        <span style={{ width: percent(total > 0 ? labelled / total : 0, 1) }} />
      </span>
      <p class="project-numbers">
        <span>
          <b>{number(labelled)}</b> of {number(total)} labelled
        </span>
        {accuracy !== null && (
          <span>
            <b>{percent(accuracy, 1)}</b> right
            {interval && (
              <span class="faint">
                {" "}
                ({(100 * interval[0]).toFixed(0)}–{(100 * interval[1]).toFixed(0)})
              </span>
            )}
          </span>
        )}
        {online.length > 0 && (
          <span>
            <span class="dot-online" aria-hidden="true" /> {online.join(", ")}
          </span>
        )}
      </p>
      {project.to_do.length > 0 && <p class="project-to-do">{sentence(project.to_do.join("; "))}</p>}
    </>
  );
}

function State({ project }: { project: ListedProject }) {
  if (project.phase === "failed")
    return (
      <>
        <p class="trouble">This project could not be opened.</p>
        <p class="small">{sentence(project.reason ?? "")}</p>
      </>
    );
  if (project.phase === "waiting") return <p class="faint">Waits to be prepared.</p>;
  if (project.phase === "preparing")
    return (
      <p class="faint">
        <span class="busy-dot" aria-hidden="true" /> Being prepared: {number(project.done)} of {number(project.total)}{" "}
        items
      </p>
    );
  return <Numbers project={project} />;
}

function Card({ project }: { project: ListedProject }) {
  const inside = (
    <>
      <h2>
        {project.name} <small>{project.kind === "text" ? "texts" : "images"}</small>
      </h2>
      <State project={project} />
    </>
  );
  const given = { class: `project-card ${project.phase}`, "data-testid": "project", "data-phase": project.phase };
  return <li>{project.phase === "failed" ? <div {...given}>{inside}</div> : <a {...given} href={project.address}>{inside}</a>}</li>;
}

export function ProjectsView({ onLogin }: { onLogin: () => void }) {
  const [list, setList] = useState<ProjectList | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    document.title = "Projects · Understudy";
    const look = async () => {
      try {
        setList(await get<ProjectList>("api/projects", EVERY));
        setTrouble("");
      } catch (error) {
        if (error instanceof Failure && error.trouble === "locked") locked.value = true;
        setTrouble(sentence(error instanceof Failure ? error.message : String(error)));
      }
    };
    const seen = () => document.visibilityState === "visible" && void look();
    void look();
    const timer = setInterval(seen, EVERY);
    document.addEventListener("visibilitychange", seen);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", seen);
    };
  }, []);
  return (
    <main id="main" data-view="projects">
      <div class="view projects-view">
        <header class="projects-head">
          <svg class="logo" viewBox="0 0 32 32" width="32" height="32" aria-hidden="true">
            <rect width="32" height="32" rx="8" />
            <path d="M9 8v9a7 7 0 0 0 14 0V8" />
            <circle cx="16" cy="15" r="2.4" />
          </svg>
          <h1>Projects</h1>
        </header>
        {trouble && (
          <p class="trouble" role="alert" data-testid="projects-trouble">
            {trouble}
          </p>
        )}
        {list && (
          <ul class="projects">
            {list.projects.map((project) => (
              <Card key={project.address} project={project} />
            ))}
          </ul>
        )}
        {list?.more && (
          <p class="row">
            <button type="button" onClick={onLogin} data-testid="more-projects">
              There are other projects: log in to all
            </button>
          </p>
        )}
      </div>
    </main>
  );
}
