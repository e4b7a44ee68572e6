// The answers of search_tools in another language, held to search_tools.json: `node search_tools.mjs` prints what differs.
import { readFileSync } from "node:fs";

class Refusal extends Error {
  constructor(text, remarks = text) {
    super(text);
    this.remarks = remarks;
  }
}

const DETAILS = ["minimal", "brief", "full"];
const bytes = (text) => Buffer.byteLength(text);
const tokens = (text) => Math.ceil(bytes(text) / 4);
const oneLine = (text) => text.replace(/[\p{C}\s]+/gu, " ").trim();
const few = (names, most = 20) =>
  names.slice(0, most).map((name) => shorten(name, 80)).join(", ") +
  (names.length > most ? `, ... and ${names.length - most} more` : "");

function shorten(text, most) {
  const characters = [...oneLine(text)];
  return characters.length <= most ? characters.join("") : characters.slice(0, most - 1).join("").trimEnd() + "…";
}

function read(given, servers) {
  const text = (member) => {
    const value = given[member] ?? "";
    if (typeof value !== "string") throw new Refusal(`Error: ${member} must be a text.`);
    return value.trim() || null;
  };
  const query = text("query");
  let server = text("server_name");
  let names = given.tool_names ?? [];
  if (typeof names === "string") names = names.trim().startsWith("[") ? JSON.parse(names) : names.split(",");
  if (!Array.isArray(names) || names.some((name) => typeof name !== "string"))
    throw new Refusal("Error: tool_names must be a list of names.");
  names = [...new Set(names.map((name) => name.trim()).filter(Boolean))];
  const detail = text("detail") ?? "brief";
  if (!DETAILS.includes(detail)) throw new Refusal(`Error: detail must be one of ${DETAILS.join(", ")}.`);
  if (!query && !server && !names.length)
    throw new Refusal("Error: Provide at least one of: query, server_name, or tool_names.");
  if (names.length > 100) throw new Refusal(`Error: tool_names has ${names.length} names; give at most 100 at once.`);
  const known = servers.map((one) => one.name);
  if (server && !known.includes(server)) {
    const alike = known.filter((name) => name.toLowerCase() === server.toLowerCase());
    const valid = `Valid servers: ${few(known, 100) || "none"}.`;
    if (alike.length !== 1)
      throw new Refusal(`Error: Unknown server '${shorten(server, 80)}'. ${valid}`, `Error: Unknown server. ${valid}`);
    server = alike[0];
  }
  return { query, server, names, detail };
}

const spellings = (tool) => [tool.full, tool.name, `${tool.server}:${tool.name}`];

// What is searched finds what the case states, in that order; ranking of what is listed is no part of the vectors.
function find({ query, server, names }, servers, limit) {
  const tools = (of, member) => of.flatMap((one) => (one[member] ?? []).map((tool) => asTool(one, tool)));
  const chosen = servers.filter((one) => !server || one.name === server);
  const unknown = chosen.flatMap((one) => one.unknown ?? []);
  if (names.length) {
    const finding = { tools: [], missing: [], closest: [] };
    for (const name of names) {
      const named = (of) => [...tools(of, "tools"), ...tools(of, "searched")].filter((one) => spellings(one).includes(name));
      const meant = named(chosen);
      if (meant.length > 0 && meant.length <= limit) finding.tools.push(...meant);
      else {
        finding.missing.push(name);
        finding.closest.push(...(meant.length ? meant : named(servers)).map((one) => one.full));
      }
    }
    if (finding.tools.length || !query) return finding;
    return { ...finding, tools: tools(chosen, "searched").slice(0, limit), unknown, instead: true };
  }
  if (query) return { tools: tools(chosen, "searched").slice(0, limit), unknown };
  const [own] = chosen;
  if (own.failure) return { tools: tools(chosen, "tools"), failed: { [server]: own.failure } };
  const all = [...tools(chosen, "tools"), ...tools(chosen, "searched")];
  const size = own.searched ? Math.max(own.size ?? 0, all.length) : all.length;
  return size > 100 ? { tools: [], tooMany: size } : { tools: all };
}

const asTool = (server, tool) => ({ ...tool, server: server.name, full: `${server.name}__${tool.name}`, isLoaded: !server.defer_loading });

function type(schema, depth = 0) {
  if (typeof schema !== "object" || schema === null || depth > 3) return "any";
  if (typeof schema.type === "string") return schema.type;
  if (Array.isArray(schema.type)) return schema.type.join("|");
  const choices = schema.anyOf ?? schema.oneOf;
  return choices ? [...new Set(choices.map((one) => type(one, depth + 1)))].join("|") : "any";
}

function parameters(schema) {
  const stated = Object.entries(schema.properties ?? {});
  const shown = stated.map(
    ([name, one]) => `${shorten(name, 80)} (${type(one)}${(schema.required ?? []).includes(name) ? ", required" : ""})`,
  );
  const more = shown.length > 25 ? `, ... and ${shown.length - 25} more` : "";
  return shown.length ? shown.slice(0, 25).join(", ") + more : "none";
}

function described(tool, detail) {
  const line = `- ${tool.server}:${tool.name}`;
  const purpose = (tool.description ?? tool.title ?? "").trim();
  if (detail === "minimal" || (detail === "brief" && tool.isLoaded)) return line;
  if (detail === "brief")
    return `${line}\n  ${shorten(purpose.split("\n\n")[0], 300) || "(no description)"}\n  Parameters: ${parameters(tool.inputSchema)}`;
  const schema = `Parameters (JSON Schema): ${JSON.stringify(tool.inputSchema)}`;
  return `${line}\n  ${purpose.replaceAll("\n", "\n  ") || "(no description)"}\n  ${schema}`;
}

function admit(tools, texts, isBounded, { max_tools: mostTools, max_search_tokens: mostTokens }, loaded) {
  const admission = { loaded: [], had: [], leftOut: [], noRoom: [] };
  let spent = 0;
  tools.forEach((tool, place) => {
    const definition = { name: tool.full, description: tool.description ?? tool.title ?? "", parameters: tool.inputSchema };
    const cost = tokens(JSON.stringify(definition)) + tokens(texts[place]);
    if (tool.isLoaded) admission.had.push(tool.full);
    else if (isBounded && mostTokens && spent + cost > mostTokens) admission.leftOut.push(tool.full);
    else {
      spent += cost;
      const isFull = mostTools && loaded + admission.loaded.length >= mostTools;
      (isFull ? admission.noRoom : admission.loaded).push(tool.full);
    }
  });
  return admission;
}

function answer(request, finding, texts, admission) {
  const where = request.server ? ` in server '${request.server}'` : "";
  const { tools, missing = [], closest = [], failed = {} } = finding;
  const said = [];
  let remarks = [];
  if (finding.tooMany) {
    said.push(
      `Error: Server '${request.server}' has ${finding.tooMany} tools, too many to load at once. ` +
        "Add a query to find the best of them, or name the ones to load with tool_names.",
    );
    remarks.push(...said);
  } else if (missing.length) {
    const near = closest.length ? ` Closest matches: ${few([...new Set(closest)])}.` : "";
    const instead = finding.instead ? " These are the results of the query instead." : "";
    const error = tools.length || finding.instead ? "" : "Error: ";
    said.push(`${error}Not found${where}: ${few(missing)}.${near}${instead}`);
    const counted = `Not found${where}: ${missing.length} of the names that were asked for.${near}`;
    remarks.push(counted + (tools.length ? instead : ""));
  }
  if (tools.length) {
    const shown = texts.filter((_, place) => !admission.leftOut.includes(tools[place].full));
    said.push(`Found ${tools.length} tool${tools.length === 1 ? "" : "s"}${shown.length ? ":" : "."}`, ...shown);
  } else if (finding.instead || !(missing.length || finding.tooMany || Object.keys(failed).length)) {
    const advice = request.query ? " Try a different query: other words for what the tool does, or fewer of them." : "";
    const matching = request.query ? ` matching '${shorten(request.query, 100)}'` : "";
    said.push(`No tools found${matching}${where}.${advice}`);
    remarks = [[...remarks, `No tools found${where}.${advice}`].join(" ")];
  }
  if (finding.unknown?.length) said.push(`None of the tools found mentions: ${few(finding.unknown)}.`);
  if (admission.loaded.length) {
    const [are, its] = admission.loaded.length === 1 ? ["This tool is", "Its name"] : ["These tools are", "Their names"];
    said.push(`${are} now loaded and available to call.\n${its} to call: ${few(admission.loaded, admission.loaded.length)}`);
  }
  const after = [
    [admission.had, "Already loaded", " Call what fits directly, without searching for it again."],
    [admission.leftOut, "Not loaded, because that would cost too much", " Load those that you need with tool_names."],
    [admission.noRoom, "Not loaded, because no more tools fit", ""],
  ];
  for (const [names, why, advice] of after)
    if (names.length) [said, remarks].forEach((one) => one.push(`${why}: ${few(names)}.${advice}`));
  const gone = Object.entries(failed);
  if (gone.length) {
    said.push(`Not reachable at present: ${gone.map(([name, why]) => `${name} (${shorten(why, 300)})`).join("; ")}.`);
    remarks.push(`Not reachable at present: ${few(Object.keys(failed))}.`);
  }
  const isError = !tools.length && Boolean(missing.length || finding.tooMany || gone.length);
  return { text: said.join("\n\n"), remarks: remarks.join("\n\n"), is_error: isError, loaded: admission.loaded };
}

function searchTools({ servers, tool_discovery: options = {}, arguments: given }) {
  try {
    const request = read(given, servers);
    const finding = find(request, servers, options.max_search_results ?? 5);
    const texts = finding.tools.map((tool) => described(tool, request.detail));
    const isBounded = !request.names.length || finding.instead;
    const first = servers.flatMap((one) => (one.defer_loading ? [] : (one.tools ?? []))).length + 1; // and search_tools
    return answer(request, finding, texts, admit(finding.tools, texts, isBounded, options, first));
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { text: error.message, remarks: error.remarks, is_error: true, loaded: [] };
  }
}

const { cases } = JSON.parse(readFileSync(new URL("search_tools.json", import.meta.url), "utf8"));
const sorted = (value) => JSON.stringify(value, ["is_error", "loaded", "remarks", "text"]);
const differing = cases.filter((one) => sorted(searchTools(one)) !== sorted(one.expected));
for (const one of differing) console.log(`${one.name}: ${JSON.stringify(searchTools(one))}`);
console.log(`${cases.length - differing.length} of ${cases.length} cases agree`);
process.exitCode = differing.length ? 1 : 0;
