// The worker of the adapter graphile.py: node graphile.mjs migrate|drain|latency|crash. The witness is as in witness.py.

import fs from "node:fs";
import path from "node:path";
import { run, runMigrations } from "graphile-worker";

const connectionString = process.env.BENCH_URL;
const folder = process.env.BENCH_FOLDER;
const purpose = process.argv[2];
const NAP = 5;

let counts, offset;
let counted = 0n;
const number = Buffer.alloc(8);

function count() {
  if (counts === undefined) {
    const taken = fs.openSync(path.join(folder, "taken"), "a");
    fs.writeSync(taken, ".");
    offset = 8 * (fs.fstatSync(taken).size - 1);
    fs.closeSync(taken);
    counts = fs.openSync(path.join(folder, "counts"), "r+");
  }
  counted += 1n;
  number.writeBigUInt64LE(counted);
  fs.writeSync(counts, number, 0, 8, offset);
}

function append(name, line) {
  fs.appendFileSync(path.join(folder, name), line);
}

const now = () => (performance.timeOrigin + performance.now()) / 1000;

const taskList = {
  noop: async () => count(),
  stamp: async ({ argument }) => append("stamps", `${(now() - argument).toFixed(9)}\n`),
  slow: async ({ argument }) => {
    append("begun", `${argument}\n`);
    await new Promise((done) => setTimeout(done, NAP));
    append("marks", `${argument} ${now().toFixed(6)}\n`);
  },
};

if (purpose === "migrate") {
  await runMigrations({ connectionString });
} else {
  const batches = { localQueue: { size: 500 }, completeJobBatchDelay: 1, failJobBatchDelay: 1 };
  const runner = await run({
    taskList,
    preset: {
      worker: {
        connectionString,
        concurrentJobs: purpose === "latency" ? 1 : 24,
        maxPoolSize: 10,
        ...(purpose === "latency" ? {} : batches),
      },
    },
  });
  await runner.promise;
}
