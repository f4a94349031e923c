// A client on the official TypeScript SDK: `node typescript_client.mjs NODE_MODULES CWD PROGRAM ARGUMENT…`.
// It drives the agent through its methods, answers what it is asked, and prints what it found as JSON.
import { spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [modules, cwd, ...command] = process.argv.slice(2);
const acp = await import(
  pathToFileURL(join(modules, "@agentclientprotocol", "sdk", "dist", "v1", "unstable", "acp.js")).href
);
const { agent: agentMethods, client: clientMethods } = acp.methods;

const updates = [];
const asked = [];
const found = {};
let decide = "allow_once";

const process_ = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(process_.stdin), Readable.toWeb(process_.stdout));

const text = (from = 0) =>
  updates
    .slice(from)
    .filter((update) => update.sessionUpdate === "agent_message_chunk")
    .map((update) => update.content.text)
    .join("");

await acp
  .client({ name: "tests" })
  .onRequest(clientMethods.session.requestPermission, ({ params }) => {
    asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: decide } };
  })
  .onRequest(clientMethods.fs.readTextFile, async ({ params }) => ({
    content: await readFile(params.path, "utf8"),
  }))
  .onRequest(clientMethods.fs.writeTextFile, async ({ params }) => {
    await writeFile(params.path, params.content);
    return {};
  })
  .onNotification(clientMethods.session.update, ({ params }) => {
    updates.push(params.update);
  })
  .connectWith(stream, async (ctx) => {
    const initialized = await ctx.request(agentMethods.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
      clientInfo: { name: "tests", version: "0" },
    });
    found.version = initialized.protocolVersion;
    found.agent = initialized.agentInfo.name;

    const place = { cwd, mcpServers: [] };
    const { sessionId, configOptions } = await ctx.request(agentMethods.session.new, place);
    found.options = configOptions.map((option) => option.id);
    const prompt = (words) =>
      ctx.request(agentMethods.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });

    found.stopped = (await prompt("write through.txt: by the editor")).stopReason;
    decide = "reject_once";
    found.denied = (await prompt("run touch denied.txt")).stopReason;
    const set = { sessionId, configId: "mode", value: "plan" };
    const options = (await ctx.request(agentMethods.session.setConfigOption, set)).configOptions;
    found.mode = options.find((option) => option.id === "mode").currentValue;
    await ctx.request(agentMethods.session.setMode, { sessionId, modeId: "default" });

    const counting = prompt("count to 1000 slowly");
    const begun = updates.length;
    while (!text(begun).includes("3")) await new Promise((resolve) => setTimeout(resolve, 20));
    await ctx.notify(agentMethods.session.cancel, { sessionId });
    found.cancelled = (await counting).stopReason;

    const before = updates.length;
    await ctx.request(agentMethods.session.load, { sessionId, ...place });
    found.replayed = updates.slice(before).map((update) => update.sessionUpdate);
    const fork = await ctx.request(agentMethods.session.fork, { sessionId, ...place });
    found.forked = fork.sessionId !== sessionId;
    const listed = await ctx.request(agentMethods.session.list, { cwd });
    found.listed = listed.sessions.length;
    await ctx.request(agentMethods.session.close, { sessionId });
    await ctx.request(agentMethods.session.resume, { sessionId, ...place });
    found.resumed = (await prompt("say back again")).stopReason;
    await ctx.request(agentMethods.session.delete, { sessionId: fork.sessionId });
    found.error = await ctx
      .request(agentMethods.session.prompt, { sessionId: "gone", prompt: [{ type: "text", text: "x" }] })
      .catch((error) => error.code);
    found.text = text();
    found.asked = asked;
    found.kinds = [...new Set(updates.map((update) => update.sessionUpdate))];
  });
process_.stdin.end();
found.exit = await new Promise((resolve) => process_.on("exit", resolve));
console.log(JSON.stringify(found));
