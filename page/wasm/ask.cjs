// The planner of build/page from the command line: answers the questions of standard input, one JSON object a line, with
// one line each: {"answer": "…", "seconds": …}. Seconds are the call's own.
//
//   echo '{"tool": "plan", "arguments": {"devices": 8, "model": "llama3-8b"}}' | node page/wasm/ask.cjs build/page
const fs = require('fs');
const path = require('path');
const readline = require('readline');

async function main() {
  const folder = path.resolve(process.argv[2] || 'build/page');
  const createNest = require(path.join(folder, 'nest.js'));
  const nest = await createNest({ wasmBinary: fs.readFileSync(path.join(folder, 'nest.wasm')) });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    if (!line.trim()) continue;
    const begin = process.hrtime.bigint();
    const answer = nest.call(line);
    const seconds = Number(process.hrtime.bigint() - begin) / 1e9;
    process.stdout.write(JSON.stringify({ answer, seconds }) + '\n');
  }
}

main().catch((error) => {
  process.stderr.write(`page/wasm/ask.cjs: ${error.message}\n`);
  process.exit(1);
});
