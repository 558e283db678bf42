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

/** The tabs of the demo: each has an address of its own, at which the same page opens with this tab (src/demo/tabs.ts). */
const TABS = ["market", "portfolio", "chat", "twins", "traffic", "playground"];

function pageOfEachTab(): Plugin {
  const root = 'data-root="./"';
  return {
    name: "page-of-each-tab",
    // After the page itself is complete.
    enforce: "post",
    generateBundle(_options, bundle) {
      const page = bundle["index.html"];
      if (page?.type !== "asset" || typeof page.source !== "string" || !page.source.includes(root)) {
        this.error(`page-of-each-tab: index.html is missing, or has no ${root}`);
      }
      const oneUp = page.source.replaceAll('="./', '="../');
      for (const tab of TABS) this.emitFile({ type: "asset", fileName: `${tab}/index.html`, source: oneUp });
    },
    configureServer(server) {
      server.middlewares.use((request: { url?: string }, _response, next) => {
        if (TABS.some((tab) => request.url?.split("?")[0] === `/${tab}/`)) request.url = "/index.html";
        next();
      });
    },
  };
}

export default defineConfig({
  base: "./",
  plugins: [timerWorkerAsFile(), pageOfEachTab()],
  server: {
    // The page shows sources of the server's demo adapters.
    fs: { allow: [".."] },
    proxy: {
      "/lightstreamer": { target: "http://127.0.0.1:8080", ws: true },
      "/demo.json": { target: "http://127.0.0.1:8080" },
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
