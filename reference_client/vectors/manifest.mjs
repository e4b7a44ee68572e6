// The manifest in another language, held to manifest.json: `node manifest.mjs` prints what differs.
import { readFileSync } from "node:fs";

const bytes = (text) => Buffer.byteLength(text);
const oneLine = (text) => text.replace(/[\p{C}\s]+/gu, " ").trim();
const clean = (text) => oneLine(text.replace(/[<>]/g, " "));
const tools = (count) => `${count} tool${count === 1 ? "" : "s"}`;
const cut = (text, most) => ([...text].length <= most ? text : [...text].slice(0, most - 3).join("").trimEnd() + "...");

function firstSentence(text) {
  const line = oneLine(text.slice(0, 1600).trim().split("\n\n")[0]);
  const end = line.indexOf(". ");
  return end < 0 ? line : line.slice(0, end + 1);
}

function summary(server) {
  const own = clean(firstSentence(server.instructions ?? "")).replaceAll('"', "'");
  if (own) return `"${cut(own, 78)}"`;
  const sentences = new Set();
  for (const tool of server.tools ?? []) {
    sentences.add(clean(firstSentence(tool.description ?? tool.title ?? "")));
    if ([...sentences].join("").length > 80) break;
  }
  const ended = [...sentences].filter(Boolean).map((text) => (/[.!?:;。]$/.test(text) ? text : `${text};`));
  return cut(ended.join(" ").replace(/;$/, ""), 80);
}

function entry(server, mostNames) {
  const listed = server.searched === undefined;
  const names = listed ? (server.tools ?? []).map((tool) => tool.name) : (server.topics ?? []);
  let size = server.size === undefined ? "to be searched" : `about ${tools(server.size)}`;
  if (listed) size = tools(names.length);
  if (server.failure !== undefined) size = "not reachable at present";
  let text = `- ${clean(server.name).slice(0, 64) || "tools"} (${size})`;
  let most = mostNames ?? 10;
  if (most === 10 && names.length > 10) most = 4;
  const shown = names.slice(0, most).filter((name) => name.length <= 64 && name === clean(name));
  if (shown.length) {
    text += `: ${listed ? "" : "topics "}${shown.join(", ")}`;
    if (shown.length < names.length) text += most >= 4 ? `, ... and ${names.length - shown.length} more` : ", ...";
  }
  const said = mostNames === null ? summary(server) : "";
  return said ? `${text}\n  ${said}` : text;
}

function within(entries, most) {
  let left = most + 1;
  const kept = [];
  for (const one of entries) {
    left -= bytes(one) + 1;
    if (left < 0) break;
    kept.push(one);
  }
  return kept;
}

function manifest(servers, most = 3250) {
  for (const mostNames of [null, 10, 4, 3, 2, 1, 0]) {
    const entries = within(servers.map((server) => entry(server, mostNames)), most);
    if (entries.length === servers.length) return entries.join("\n");
  }
  const more = (count) => `... and ${count} more server${count === 1 ? "" : "s"}`;
  const room = most - bytes(more(servers.length)) - 1;
  const shown = within(servers.map((server) => entry(server, 0)), room);
  return [...shown, more(servers.length - shown.length)].join("\n");
}

const { cases } = JSON.parse(readFileSync(new URL("manifest.json", import.meta.url), "utf8"));
const differing = cases.filter((one) => manifest(one.servers, one.most_bytes) !== one.expected);
for (const one of differing) console.log(`${one.name}: ${JSON.stringify(manifest(one.servers, one.most_bytes))}`);
console.log(`${cases.length - differing.length} of ${cases.length} cases agree`);
process.exitCode = differing.length ? 1 : 0;
