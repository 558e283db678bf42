// How the page is built: where it goes, and what keeps it free of inline code and of foreign addresses.
// Not here: anything that runs in the browser (src/).
// Read next: README.md.

import { defineConfig, type Plugin } from "vite";

// The client library starts its timer worker from a blob: address, which `default-src 'self'` forbids; without that worker
// none of its timers would ever fire. So the worker's source becomes a file of its own, served like every other asset.
function timerWorkerAsFile(): Plugin {
  const library = /lightstreamer-core\.esm\.js$/;
  const source = /const worker = `([^`]*)`;/;
  const start = /const blob = new Blob\(\[worker\].*;\s*const url = URL\.createObjectURL\(blob\);/;
  const release = /setTimeout\(\(\) => URL\.revokeObjectURL\(url\)\);/;
  return {
    name: "timer-worker-as-file",
    apply: "build",
    transform(code, id) {
      if (!library.test(id)) return null;
      const worker = source.exec(code)?.[1];
      if (worker === undefined || worker.includes("\\") || !start.test(code) || !release.test(code)) {
        this.error("timer-worker-as-file: lightstreamer-client-web starts its timer worker in another way; read its source and adapt");
      }
      const file = this.emitFile({ type: "asset", name: "timers.js", source: worker });
      const changed = code
        .replace(source, "const worker = null;")
        .replace(start, `const url = import.meta.ROLLUP_FILE_URL_${file};`)
        .replace(release, "");
      return { code: changed, map: null };
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [timerWorkerAsFile()],
  server: {
    proxy: {
      "/lightstreamer": { target: "http://127.0.0.1:8080", ws: true },
      "/api/admin": { target: "http://127.0.0.1:8081" },
    },
  },
  build: {
    outDir: "../src/penstock/pages",
    emptyOutDir: true,
    // A data: address would need its own permission in the content security policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "licenses.md" },
    rolldownOptions: { input: ["index.html", "dashboard/index.html", "notify/index.html"], output: { comments: { legal: true } } },
    chunkSizeWarningLimit: 400, // kB; the client library is one class graph and cannot be split
  },
});
