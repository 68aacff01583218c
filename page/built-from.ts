// Writes built-from.txt beside the built files: a digest of all sources, and one of every file made from them.
// tests/web/test_page_is_built.py computes the same without Node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

const SOURCES = [
  "built-from.ts",
  "index.html",
  "package-lock.json",
  "package.json",
  "src",
  "tsconfig.json",
  "vite.config.ts",
];

function files(root: string, name: string): string[] {
  const found = readdirSync(join(root, name), { withFileTypes: true });
  return found.flatMap((each) => (each.isDirectory() ? files(root, `${name}/${each.name}`) : [`${name}/${each.name}`]));
}

const sha256 = (data: Buffer | string) => createHash("sha256").update(data).digest("hex");

export function digestOfSources(root: string): string {
  const names = SOURCES.flatMap((name) => (name === "src" ? files(root, name) : [name])).sort();
  return sha256(names.map((name) => `${sha256(readFileSync(join(root, name)))}  ${name}\n`).join(""));
}

export function builtFrom(root: string, out: string): Plugin {
  return {
    name: "built-from",
    apply: "build",
    closeBundle() {
      const made = readdirSync(out, { recursive: true, withFileTypes: true })
        .filter((each) => each.isFile() && each.name !== "built-from.txt")
        .map((each) =>
          join(each.parentPath, each.name)
            .slice(out.length + 1)
            .replaceAll("\\", "/"),
        )
        .sort();
      const lines = made.map((name) => `${sha256(readFileSync(join(out, name)))}  ${name}\n`);
      writeFileSync(join(out, "built-from.txt"), `${digestOfSources(root)}  page\n${lines.join("")}`);
    },
  };
}
