// A driver of the TypeScript SDK v2 (see ../../DRIVER.md): a host that adds tools/search to its Client.
//
//     npm install && tools-search-conformance client -- node driver.mjs
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createInterface } from 'node:readline';
import { z } from 'zod';

const EXTENSION_ID = 'io.github.tools-search/tools-search';
const Page = z.looseObject({
    tools: z.array(z.looseObject({ name: z.string(), inputSchema: z.looseObject({}) })),
    nextCursor: z.string().nullish()
});

// The SDK says through console.debug what it does, which Node.js writes to stdout, where only answers may stand.
console.log = console.info = console.debug = console.error;

let client;
let modern;

async function connect({ target, era }) {
    modern = era === '2026-07-28';
    const { transport: kind, url, command, args, env } = target;
    const transport =
        kind === 'http'
            ? new StreamableHTTPClientTransport(new URL(url))
            : new StdioClientTransport({ command, args, env: { ...process.env, ...env } });
    client = new Client(
        { name: 'typescript-driver', version: '1.0.0' },
        { capabilities: { extensions: { [EXTENSION_ID]: {} } }, versionNegotiation: { mode: modern ? 'auto' : 'legacy' } }
    );
    await client.connect(transport);
    return {};
}

const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value);

function offered() {
    const capabilities = client.getServerCapabilities() ?? {};
    const places = modern ? [capabilities.extensions] : [capabilities.extensions, capabilities.experimental];
    return places.some(place => isObject(place?.[EXTENSION_ID]));
}

async function page(params, options) {
    return await client.request({ method: 'tools/search', params }, Page, options);
}

async function allPages(query) {
    const tools = [];
    const seen = new Set();
    let cursor;
    do {
        const found = await page(cursor === undefined ? { query } : { query, cursor });
        tools.push(...found.tools);
        cursor = found.nextCursor ?? undefined;
        if (cursor !== undefined && seen.has(cursor)) throw Object.assign(new Error('a circle'), { circle: true });
        seen.add(cursor);
    } while (cursor !== undefined);
    return tools;
}

async function listed() {
    const tools = [];
    let cursor;
    do {
        const found = await client.listTools(cursor === undefined ? {} : { cursor });
        tools.push(...found.tools);
        cursor = found.nextCursor;
    } while (cursor !== undefined);
    return tools;
}

function ranked(query, tools) {
    const words = text => new Set(text.toLowerCase().match(/[\p{L}\p{Nd}]+/gu) ?? []);
    const wanted = [...words(query)];
    const score = tool => {
        const held = words(`${tool.name} ${tool.title ?? ''} ${tool.description ?? ''}`);
        return wanted.filter(word => held.has(word)).length;
    };
    return tools.filter(score).sort((a, b) => score(b) - score(a));
}

/** The code of an error, which the SDK leaves in the body of an HTTP response where the status is none that it knows. */
function codeOf(error) {
    try {
        return JSON.parse(error.data.text).error.code;
    } catch {
        return error.code;
    }
}

async function find(query, search) {
    if (offered()) {
        try {
            return await search();
        } catch (error) {
            // Errors with a number come from the server, all others from the SDK, for an answer that is no result.
            const code = codeOf(error);
            const said = typeof code === 'number' && ![-32601, -32021].includes(code);
            if (said || error.circle) throw error;
        }
    }
    return ranked(query, await listed());
}

const begun = new Map();

const search = async ({ query, limit }, options) => ({
    tools: (
        await find(query, async () => (await page(limit ? { query, limit } : { query }, options)).tools)
    ).slice(0, limit)
});

const operations = {
    hello: async () => ({
        sdk: '@modelcontextprotocol/client',
        version: '2.4.0',
        features: ['stdio', 'http', 'concurrent', 'cancel']
    }),
    connect,
    search,
    begin: async ({ as: name, query }) => {
        const controller = new AbortController();
        const outcome = search({ query }, { signal: controller.signal });
        outcome.catch(() => undefined); // `await` reports it
        begun.set(name, { controller, outcome });
        return {};
    },
    await: ({ of: name }) => begun.get(name).outcome,
    cancel: async ({ of: name }) => {
        begun.get(name).controller.abort();
        return {};
    },
    search_all: async ({ query }) => ({ tools: await find(query, () => allPages(query)) }),
    list_tools: async () => ({ tools: await listed() }),
    // `callTool` would validate the result against what was listed last, which need not be what was found.
    call: async ({ name, arguments: given }) => ({
        result: await client.request({ method: 'tools/call', params: { name, arguments: given } }, z.looseObject({}))
    }),
    close: async () => {
        await client?.close();
        return {};
    },
    bye: async () => ({})
};

for await (const line of createInterface({ input: process.stdin })) {
    const { id, op, ...members } = JSON.parse(line);
    let outcome;
    try {
        outcome = op in operations ? { ok: await operations[op](members) } : { unsupported: true };
    } catch (error) {
        outcome = { error: { message: String(error.message ?? error) } };
    }
    process.stdout.write(`${JSON.stringify({ id, ...outcome })}\n`);
    if (op === 'bye') process.exit(0);
}
