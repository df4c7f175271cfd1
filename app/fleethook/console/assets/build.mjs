// Bundles the scripts and styles of the console: `node app/fleethook/console/assets/build.mjs [OUTPUT]`.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const assets = dirname(fileURLToPath(import.meta.url));
const output = resolve(process.argv[2] ?? join(assets, "..", "static"));
mkdirSync(join(output, "pages"), { recursive: true });
const common = { bundle: true, minify: true, target: "es2022", legalComments: "linked", outdir: output, logLevel: "warning" };
const styles = readdirSync(join(assets, "pages")).filter((name) => name.endsWith(".css")).map((name) => join(assets, "pages", name));
// Pages load large libraries by import(), so that a page gets only the chunks that it needs.
await build({ ...common, entryPoints: [join(assets, "main.js")], format: "esm", splitting: true, chunkNames: "chunks/[name]-[hash]" });
await build({ ...common, entryPoints: [join(assets, "theme.js")], format: "iife" });
await build({ ...common, entryPoints: [join(assets, "style.css")] });
if (styles.length > 0) await build({ ...common, entryPoints: styles, outdir: join(output, "pages") });
copyFileSync(join(assets, "icon.svg"), join(output, "icon.svg"));
