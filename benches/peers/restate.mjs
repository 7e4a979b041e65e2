// A workflow of ten steps in Restate: the server beside this process, the steps in it. Takes lines `steps AT_ONCE ROUNDS` and says
// steps per second.
import http from "node:http";
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import * as restate from "@restatedev/restate-sdk";

// The SDK asks for it, and the node of Debian has none yet.
Promise.withResolvers ??= function withResolvers() {
  const made = {};
  made.promise = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const STEPS = 10;
const [folder, port] = [process.argv[2], Number(process.argv[3])];
const [services, ingress, admin] = [port, port + 1, port + 2];

const steps = restate.service({
  name: "steps",
  handlers: {
    run: async (ctx) => {
      for (let at = 0; at < STEPS; at += 1) {
        await ctx.run(`s${at}`, () => ({ done: true }));
      }
    },
  },
});
await restate.endpoint().bind(steps).listen(services);

// The program itself: what npm puts before it would not take it along when it is ended.
const program = `node_modules/@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`;
const server = spawn(program, ["--base-dir", folder], {
  cwd: new URL(".", import.meta.url).pathname,
  stdio: "ignore",
  env: {
    ...process.env,
    RESTATE_INGRESS__BIND_ADDRESS: `127.0.0.1:${ingress}`,
    RESTATE_ADMIN__BIND_ADDRESS: `127.0.0.1:${admin}`,
    RESTATE_BIND_ADDRESS: `127.0.0.1:${port + 3}`,
    RESTATE_ADVERTISED_ADDRESS: `http://127.0.0.1:${port + 3}`,
    RESTATE_LOG_FILTER: "off",
    RESTATE_DISABLE_TELEMETRY: "true",
    DO_NOT_TRACK: "1",
  },
});
process.on("exit", () => server.kill("SIGKILL"));
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(1));

const agent = new http.Agent({ keepAlive: true, maxSockets: 1024 });
const post = (to, path, body) =>
  new Promise((resolve, reject) => {
    const headers = { "content-type": "application/json" };
    const request = http.request({ host: "127.0.0.1", port: to, path, method: "POST", agent, headers }, (answer) => {
      let text = "";
      answer.on("data", (part) => (text += part));
      answer.on("end", () =>
        answer.statusCode < 300 ? resolve(text) : reject(new Error(`${path}: ${answer.statusCode} ${text}`)));
    });
    request.on("error", reject);
    request.end(body);
  });

const until = Date.now() + 60_000;
for (;;) {
  try {
    await post(admin, "/deployments", JSON.stringify({ uri: `http://127.0.0.1:${services}` }));
    await post(ingress, "/steps/run", "{}");
    break;
  } catch (error) {
    if (Date.now() > until) throw error;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

console.log("ready");
for await (const line of createInterface({ input: process.stdin })) {
  const [, atOnce, rounds] = line.split(" ").map(Number);
  const begun = process.hrtime.bigint();
  for (let round = 0; round < rounds; round += 1) {
    await Promise.all(Array.from({ length: atOnce }, () => post(ingress, "/steps/run", "{}")));
  }
  const seconds = Number(process.hrtime.bigint() - begun) / 1e9;
  console.log((atOnce * rounds * STEPS) / seconds);
}
process.exit(0);
