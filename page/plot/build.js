// Bundles the plotting library into one script that a page can hold, with the licences of all that is in it.
import { existsSync, readFileSync } from "node:fs";
import { build } from "esbuild";

const OUT = "../../src/understudy/experiments/static/plot.js";
const options = { entryPoints: ["plot.js"], bundle: true, minify: true, format: "iife", globalName: "Plot", target: "es2020" };

function packagesIn(metafile) {
  const found = Object.keys(metafile.inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  return [...new Set(found.filter(Boolean))].sort();
}

function licenceOf(name) {
  const { version, license } = JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8"));
  const file = ["LICENSE", "LICENSE.md", "LICENSE.txt"].map((each) => `node_modules/${name}/${each}`).find(existsSync);
  return { named: `${name} ${version} (${license})`, text: file ? readFileSync(file, "utf8").trim() : "" };
}

const { metafile } = await build({ ...options, write: false, metafile: true });
const byText = new Map();
for (const { named, text } of packagesIn(metafile).map(licenceOf)) byText.set(text, [...(byText.get(text) ?? []), named]);
const licences = [...byText].map(([text, names]) => `${names.join(", ")}\n\n${text.replaceAll("*/", "* /")}`);
const banner = `/*!\n${licences.join("\n\n---\n\n")}\n*/`.replaceAll(/https?:\/\//g, "");
await build({ ...options, banner: { js: banner }, legalComments: "none", outfile: OUT });
