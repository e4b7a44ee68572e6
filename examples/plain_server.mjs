// A Tool Search server in plain JavaScript: no SDK, no dependencies, Node 20 or later.
//
// Written from spec/draft/tools-search.md, for protocol revisions 2026-07-28 (modern) and 2025-11-25 (legacy). It
// serves the file that TOOLS_SEARCH_CATALOG names, {"tools": [Tool, ...]}, as conformance/README.md describes:
//
//   TOOLS_SEARCH_CATALOG=catalog.json node examples/plain_server.mjs                        # stdio
//   TOOLS_SEARCH_CATALOG=catalog.json node examples/plain_server.mjs --http 127.0.0.1:3000  # Streamable HTTP
//
// Replicas behind one address accept each other's cursors if they share a secret, TOOLS_SEARCH_CURSOR_KEY.

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

const EXTENSION = "io.github.tools-search/tools-search";
const [MODERN, LEGACY] = ["2026-07-28", ["2025-11-25", "2025-06-18"]];
const VERSION_KEY = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities";
const SERVER_INFO = { name: "plain-server", version: "1.0.0" };
const MAX_QUERY = 1024; // code points
const MAX_PAGE = 50;
const DEFAULT_PAGE = 10;
const MAX_SEARCHES = 64; // at once
const MAX_BODY = 4 * 1024 * 1024; // bytes
const RETRY_AFTER_MS = 1000;

const catalogFile = process.env.TOOLS_SEARCH_CATALOG;
if (!catalogFile) throw new Error("TOOLS_SEARCH_CATALOG must name a catalog file");
const catalog = JSON.parse(readFileSync(catalogFile, "utf8"));
const cursorKey = process.env.TOOLS_SEARCH_CURSOR_KEY || randomBytes(32);
const caching = { ttlMs: 60_000, cacheScope: catalog.hidden ? "private" : "public" };

const refusal = (code, message, data) => Object.assign(new Error(message), { answer: { code, message, data } });
const invalid = (field, reason) => refusal(-32602, `Invalid params: ${field} ${reason}`, { field, reason });
const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

// ---- Ranking: BM25 over the tools that one caller sees; no other tool enters its statistics ----

const STOP_WORDS = new Set("a an and are as at by for from i in is it me my of on or that the to with".split(" "));
// The share of the weight of a query that a match has to hold. More would find less that is unrelated, and miss more.
const RELATED = 0.25;

// ECMAScript has no case folding. Code point by code point, because toLowerCase of "ΣΑΣ" has two kinds of sigma.
const fold = (text) => Array.from(text, (c) => c.toLowerCase().toUpperCase().toLowerCase()).join("");
const stem = (word) => (/^[a-z]{2,}[a-rt-z]s$/.test(word) ? word.slice(0, -1) : word);
const terms = (text) => (fold(text.normalize("NFKC")).match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? []).map(stem);
const trim = (text) => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, ""); // not trim(), which takes U+FEFF

function termWeights({ name, title = "", description = "", inputSchema }) {
  const parameters = Object.keys(inputSchema?.properties ?? {}).join(" ");
  const words = `${name} ${parameters}`.replace(/(\p{Ll})(\p{Lu})/gu, "$1 $2"); // also the words of camelCase
  const weights = new Map();
  for (const [text, weight] of [[name, 3], [title, 3], [description, 1], [words, 0.5]]) {
    const counts = new Map();
    for (const term of terms(text)) counts.set(term, Math.min((counts.get(term) ?? 0) + 1, 4)); // stuffing stops at 4
    for (const [term, count] of counts) weights.set(term, (weights.get(term) ?? 0) + weight * count);
  }
  return weights;
}

/** Return a function from a query to all its matches, best first, as pairs of a tool and a score from 0 to 1. */
function searcher(tools) {
  const postings = new Map(); // term -> pairs of a tool's position and the weight of the term in that tool
  const lengths = [];
  tools.forEach((tool, position) => {
    const weights = termWeights(tool);
    lengths.push([...weights.values()].reduce((sum, weight) => sum + weight, 0));
    for (const [term, weight] of weights) {
      if (!postings.has(term)) postings.set(term, []);
      postings.get(term).push([position, weight]);
    }
  });
  const averageLength = lengths.reduce((sum, length) => sum + length, 0) / tools.length || 1;

  return (query) => {
    const all = [...new Set(terms(query))];
    const telling = all.filter((term) => !STOP_WORDS.has(term));
    const [scores, shares] = [new Map(), new Map()];
    let total = 0;
    for (const term of telling.length ? telling : all) {
      const holders = postings.get(term) ?? [];
      const rarity = Math.log(2 + tools.length / (holders.length || 1));
      total += rarity;
      for (const [position, weight] of holders) {
        const norm = 1.2 * (0.25 + (0.75 * lengths[position]) / averageLength);
        scores.set(position, (scores.get(position) ?? 0) + (rarity * weight) / (weight + norm));
        shares.set(position, (shares.get(position) ?? 0) + rarity);
      }
    }
    const best = Math.max(...scores.values());
    const found = new Map();
    for (const [position, score] of scores) {
      if (shares.get(position) >= RELATED * total) found.set(position, score / best);
    }
    const same = tools.findIndex(({ name }) => name === query);
    const trimmed = trim(query);
    const exact = same >= 0 ? same : tools.findIndex(({ name }) => name === trimmed);
    if (exact >= 0) found.set(exact, 1);
    const order = (a, b) => (b[0] === exact) - (a[0] === exact) || b[1] - a[1] || a[0] - b[0];
    return [...found].sort(order).map(([position, score]) => [tools[position], score]);
  };
}

// ---- What a caller sees, and its pages ----

const views = new Map();

function viewOf({ token, modern }) {
  const hidden = (Object.hasOwn(catalog.hidden ?? {}, token) && catalog.hidden[token]) || [];
  const key = JSON.stringify([hidden, modern]);
  if (!views.has(key)) {
    const tools = new Map();
    for (const tool of catalog.tools) {
      const { outputSchema, ...rest } = tool; // legacy revisions know schemas of objects only
      if (!hidden.includes(tool.name)) tools.set(tool.name, modern || outputSchema?.type === "object" ? tool : rest);
    }
    const list = [...tools.values()];
    const digest = createHash("sha256").update(JSON.stringify(list)).digest("base64url");
    views.set(key, { tools, list, digest, find: searcher(list) });
  }
  return views.get(key);
}

/** A position with a code that binds it to method, query and visible tools. JSON keeps unpaired surrogates apart. */
function cursorFor(method, query, view, start) {
  const code = createHmac("sha256", cursorKey).update(JSON.stringify([method, query, view.digest, start]));
  return `${start}.${code.digest("base64url")}`;
}

function page(all, limit, method, query, view, cursor) {
  let start = 0;
  if (cursor !== undefined) {
    if (typeof cursor !== "string") throw invalid("cursor", "must be a string");
    start = Number.parseInt(cursor, 10);
    const [given, issued] = [cursor, cursorFor(method, query, view, start)].map((text) => Buffer.from(text));
    if (given.length !== issued.length || !timingSafeEqual(given, issued)) {
      throw invalid("cursor", "is not one that this server honors for this request");
    }
  }
  const end = start + limit;
  const more = end < all.length ? { nextCursor: cursorFor(method, query, view, end) } : {};
  return { tools: all.slice(start, end), ...more, ...caching };
}

// ---- Methods ----

let searching = 0;

async function search({ query, limit = DEFAULT_PAGE, cursor }, caller) {
  if (caller.modern && !isObject(caller.capabilities.extensions?.[EXTENSION])) {
    const data = { requiredCapabilities: { extensions: { [EXTENSION]: {} } } };
    throw refusal(-32021, `Declare ${EXTENSION} in clientCapabilities.extensions to use tools/search`, data);
  }
  if (typeof query !== "string") throw invalid("query", "must be a string");
  if ([...query].length > MAX_QUERY) throw invalid("query", `must have at most ${MAX_QUERY} characters`);
  if (trim(query) === "") throw invalid("query", "must contain a character that is not white space");
  if (!Number.isInteger(limit) || limit < 1) throw invalid("limit", "must be an integer of at least 1");
  if (searching >= MAX_SEARCHES) {
    const message = `Too many searches at once; search again in ${RETRY_AFTER_MS} ms`;
    throw refusal(-32603, message, { retryAfterMs: RETRY_AFTER_MS });
  }
  searching += 1;
  try {
    // Other messages get their turn here, among them the cancellation of this one. Tests make the wait longer.
    await sleep(Number(process.env.TOOLS_SEARCH_DELAY_MS ?? 0), undefined, { signal: caller.signal });
    const view = viewOf(caller);
    const result = page(view.find(query), Math.min(limit, MAX_PAGE), "tools/search", query, view, cursor);
    const hit = ([tool, score]) => ({ ...tool, _meta: { ...tool._meta, [EXTENSION]: { score } } });
    return { ...result, tools: result.tools.map(hit) };
  } finally {
    searching -= 1;
  }
}

function list({ cursor }, caller) {
  const view = viewOf(caller);
  return page(view.list, MAX_PAGE, "tools/list", "", view, cursor);
}

function call({ name, arguments: given = {} }, caller) {
  const tool = viewOf(caller).tools.get(name); // a tool that the caller does not see is not called either
  if (!tool) throw refusal(-32602, "Unknown tool");
  if (!isObject(given)) throw invalid("arguments", "must be an object");
  const echo = { name, arguments: given };
  const content = [{ type: "text", text: JSON.stringify(echo) }];
  return tool.outputSchema ? { content, structuredContent: echo } : { content };
}

const settings = { maxLimit: MAX_PAGE, ...(catalog.hidden ? {} : { catalogSize: catalog.tools.length }) };
const advertised = { [EXTENSION]: settings };

const discover = () => ({
  supportedVersions: [MODERN],
  capabilities: { tools: {}, extensions: advertised },
  ttlMs: caching.ttlMs,
  cacheScope: "public",
});
const initialize = ({ protocolVersion }) => ({
  protocolVersion: LEGACY.includes(protocolVersion) ? protocolVersion : LEGACY[0],
  capabilities: { tools: {}, extensions: advertised, experimental: advertised },
  serverInfo: SERVER_INFO,
});

const shared = [["tools/list", list], ["tools/call", call], ["tools/search", search]];
const modernMethods = new Map([...shared, ["server/discover", discover]]);
const legacyMethods = new Map([...shared, ["initialize", initialize], ["ping", () => ({})]]);

// ---- Messages ----

/** Answer one request; `connection` has the token of the caller, a signal, and whether requests may be legacy ones. */
async function answer(message, connection) {
  const id = typeof message?.id === "string" || Number.isSafeInteger(message?.id) ? message.id : undefined;
  try {
    const { jsonrpc, method, params = {} } = message ?? {};
    const valid = id !== undefined && jsonrpc === "2.0" && typeof method === "string";
    if (!valid) throw refusal(-32600, "Invalid Request");
    if (!isObject(params)) throw refusal(-32602, "Invalid params: must be an object");
    const requested = params._meta?.[VERSION_KEY];
    const modern = requested !== undefined || !(connection.legacy || method === "initialize");
    const caller = { ...connection, modern, capabilities: params._meta?.[CAPABILITIES_KEY] };
    if (modern) {
      if (typeof requested !== "string") throw invalid("_meta", `must have ${VERSION_KEY}`);
      connection.checkHeaders?.(method, params, caller);
      const data = { supported: [MODERN], requested };
      if (requested !== MODERN) throw refusal(-32022, "Unsupported protocol version", data);
      if (!isObject(caller.capabilities)) throw invalid("_meta", `must have ${CAPABILITIES_KEY}`);
    }
    const serve = (modern ? modernMethods : legacyMethods).get(method);
    if (!serve) throw refusal(-32601, "Method not found");
    const result = await serve(params, caller);
    const added = { resultType: "complete", _meta: { "io.modelcontextprotocol/serverInfo": SERVER_INFO } };
    return { jsonrpc: "2.0", id, result: modern ? { ...result, ...added } : result };
  } catch (error) {
    if (connection.signal.aborted) return undefined;
    if (!error.answer) console.error(error);
    return { jsonrpc: "2.0", id, error: error.answer ?? { code: -32603, message: "Internal error" } };
  }
}

function parse(text) {
  try {
    return { message: JSON.parse(text) };
  } catch {
    return { failure: { jsonrpc: "2.0", error: { code: -32700, message: "Parse error" } } };
  }
}

const isNotification = (message) => isObject(message) && message.id === undefined && typeof message.method === "string";

// ---- stdio ----

function serveStdio() {
  const running = new Map(); // id -> AbortController
  const send = (message) => message && process.stdout.write(`${JSON.stringify(message)}\n`);
  let legacy = false;
  let rest = "";

  async function receive(line) {
    const { message, failure } = parse(line);
    if (failure) return send(failure);
    if (isNotification(message)) {
      return message.method === "notifications/cancelled" && running.get(message.params?.requestId)?.abort();
    }
    legacy ||= message?.method === "initialize";
    const controller = new AbortController();
    running.set(message?.id, controller);
    send(await answer(message, { legacy, token: "", signal: controller.signal }));
    return running.get(message?.id) === controller && running.delete(message?.id);
  }

  process.stdout.on("error", () => process.exit(0));
  process.stdin.setEncoding("utf8").on("data", (chunk) => {
    const lines = (rest + chunk).split("\n"); // not node:readline, which splits at U+2028 as well
    rest = lines.pop();
    for (const line of lines) if (line.trim()) receive(line).catch(console.error);
  });
}

// ---- Streamable HTTP ----

/** Headers that mirror arguments of a call, and these arguments. */
function* mirrored(schema, value) {
  for (const [key, property] of Object.entries(schema?.properties ?? {})) {
    const argument = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
    const name = property?.["x-mcp-header"];
    if (typeof name === "string") yield [`mcp-param-${name.toLowerCase()}`, argument ?? undefined];
    yield* mirrored(property, argument);
  }
}

function checkHeaders(headers, method, params, caller) {
  const tool = method === "tools/call" ? viewOf(caller).tools.get(params.name) : undefined;
  const wanted = [["mcp-protocol-version", params._meta[VERSION_KEY]], ["mcp-method", method]];
  if (method === "tools/call") wanted.push(["mcp-name", params.name], ...mirrored(tool?.inputSchema, params.arguments));
  for (const [header, value] of wanted) {
    const given = headers[header];
    const [, coded] = /^=\?base64\?(.*)\?=$/.exec(given ?? "") ?? [];
    const text = coded === undefined ? given : Buffer.from(coded, "base64").toString();
    const body = typeof value === "boolean" ? `${value}` : value;
    const same = typeof body === "number" ? text !== undefined && Number(text) === body : text === body;
    if (!same || /[^\t\x20-\x7e]/.test(given ?? "")) {
      throw refusal(-32020, `Header mismatch: ${header} differs from the body`);
    }
  }
}

async function serveHttp(request, response) {
  const { headers } = request;
  const finish = (status, body, more = {}) => {
    response.writeHead(status, body ? { "Content-Type": "application/json" } : more);
    response.end(body && JSON.stringify(body));
  };
  if (!/^(https?:\/\/(localhost|127\.0\.0\.1|\[::1\])(:\d+)?)?$/.test(headers.origin ?? "")) return finish(403);
  if (request.url !== "/mcp") return finish(404);
  if (request.method !== "POST") return finish(405, undefined, { Allow: "POST" });
  const chunks = [];
  let size = 0;
  for await (const chunk of request) {
    size += chunk.length;
    if (size > MAX_BODY) return finish(413, undefined, { Connection: "close" });
    chunks.push(chunk);
  }
  const { message, failure } = parse(Buffer.concat(chunks).toString());
  if (failure) return finish(400, failure);
  if (isNotification(message)) return finish(202);

  const legacy = LEGACY.includes(headers["mcp-protocol-version"]);
  const token = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? "";
  const controller = new AbortController();
  if (!legacy) response.on("close", () => controller.abort()); // how a modern client cancels
  const check = (...body) => checkHeaders(headers, ...body);
  const reply = await answer(message, { legacy, token, signal: controller.signal, checkHeaders: check });
  if (!reply) return undefined;
  return finish(legacy || !reply.error ? 200 : ({ [-32601]: 404, [-32603]: 200 }[reply.error.code] ?? 400), reply);
}

if (process.argv[2] === "--http") {
  const [host, port] = process.argv[3].split(":");
  const onRequest = (request, response) => serveHttp(request, response).catch(() => response.destroy());
  const server = createServer({ keepAliveTimeout: 60_000 }, onRequest).listen(Number(port), host, () => {
    console.log(JSON.stringify({ url: `http://${host}:${server.address().port}/mcp` }));
  });
} else {
  serveStdio();
}
