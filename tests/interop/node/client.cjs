// client.cjs FOLDER: the published Node.js client in FOLDER/node_modules, driven by lines on standard input and output.
// Read next: ../drivers/javascript_client.js, which says what the lines mean.
"use strict";

const { createRequire } = require("node:module");
const path = require("node:path");
const readline = require("node:readline");
require("../drivers/javascript_client.js");

const library = createRequire(path.resolve(process.argv[2]) + path.sep)("lightstreamer-client-node");
const take = globalThis.driveClient(library, (line) => process.stdout.write(line + "\n"));
readline
  .createInterface({ input: process.stdin })
  .on("line", take)
  // Clients in the middle of something would keep the process alive.
  .on("close", () => process.exit(0));
