import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";
import { builtFrom } from "./built-from.ts";

const here = fileURLToPath(new URL(".", import.meta.url)).replace(/\/$/, "");
const out = fileURLToPath(new URL("../src/understudy/web/static", import.meta.url));

export default defineConfig({
  root: here,
  base: "./",
  plugins: [builtFrom(here, out)],
  build: {
    outDir: out,
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0, // the content security policy allows no data: addresses
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: true,
  },
  server: { proxy: { "/api": process.env.UNDERSTUDY ?? "http://127.0.0.1:8000" } },
});
