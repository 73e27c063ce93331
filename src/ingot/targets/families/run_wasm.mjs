// Runs a program for WebAssembly under Node: its standard input and output are this process's.
import { readFileSync, readSync, writeSync } from "node:fs";

let memory;
const move = (go) => (file, at, count) => go(file, new Uint8Array(memory.buffer, at, count));
const once = (go) => (file, bytes) => {
  for (;;) {
    try {
      return go(file, bytes);
    } catch (error) {
      if (error.code === "EOF") return 0;
      if (error.code !== "EAGAIN") throw error;
    }
  }
};
const env = { ingot_transfer_in: move(once(readSync)), ingot_transfer_out: move(once(writeSync)) };
const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), { env });
memory = instance.exports.memory;
process.exitCode = instance.exports.main();
