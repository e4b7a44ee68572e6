// A Tool Search server on the TypeScript SDK v2, for protocol revisions 2026-07-28 (modern) and 2025-11-25 (legacy).
//
// It serves the file that TOOLS_SEARCH_CATALOG names, {"tools": [Tool, ...]}, as conformance/README.md describes:
//
//   npm install
//   TOOLS_SEARCH_CATALOG=catalog.json node server.mjs                        # stdio
//   TOOLS_SEARCH_CATALOG=catalog.json node server.mjs --http 127.0.0.1:3000  # Streamable HTTP
//
// It only uses the SDK's public interface. Comments say where that needs care.

import { localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
    CLIENT_CAPABILITIES_META_KEY,
    createMcpHandler,
    MissingRequiredClientCapabilityError,
    ProtocolError,
    Server
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';

const EXTENSION = 'io.github.tools-search/tools-search';
const MODERN = '2026-07-28';
const INVALID_PARAMS = -32602;
const MAX_QUERY = 1024; // code points
const MAX_PAGE = 50;
const DEFAULT_PAGE = 10;
const CACHING = { ttlMs: 60_000, cacheScope: 'public' };
const RELATED = 0.25; // the share of the weight of a query that a match has to hold

if (!process.env.TOOLS_SEARCH_CATALOG) throw new Error('TOOLS_SEARCH_CATALOG has to name a file of tools');
const { tools: catalog } = JSON.parse(readFileSync(process.env.TOOLS_SEARCH_CATALOG, 'utf8'));
const cursorKey = process.env.TOOLS_SEARCH_CURSOR_KEY || randomBytes(32);

const isObject = value => typeof value === 'object' && value !== null && !Array.isArray(value);
const invalid = (field, reason) =>
    new ProtocolError(INVALID_PARAMS, `Invalid params: ${field} ${reason}`, { field, reason });

// ---- Ranking: the rarer the terms of the query that a tool holds, the better ----

// ECMAScript has no case folding. Code point by code point, because toLowerCase of "ΣΑΣ" has two kinds of sigma.
const fold = text => Array.from(text, c => c.toLowerCase().toUpperCase().toLowerCase()).join('');
const terms = text => new Set(fold(text.normalize('NFKC')).match(/[\p{L}\p{M}\p{Nd}]+/gu) ?? []);
const trim = text => text.replace(/^\p{White_Space}+|\p{White_Space}+$/gu, ''); // not trim(), which takes U+FEFF

/** Return a function from a query to all its matches, best first. */
function searcher(tools) {
    const held = tools.map(({ name, title = '', description = '' }) => terms(`${name} ${title} ${description}`));
    const holders = new Map();
    for (const each of held) for (const term of each) holders.set(term, (holders.get(term) ?? 0) + 1);
    const rarity = term => Math.log(2 + tools.length / (holders.get(term) ?? 1));
    return query => {
        const wanted = [...terms(query)];
        const weight = some => some.reduce((sum, term) => sum + rarity(term), 0);
        const total = weight(wanted);
        const same = tools.findIndex(({ name }) => name === query);
        const trimmed = trim(query);
        const exact = same >= 0 ? same : tools.findIndex(({ name }) => name === trimmed);
        const scored = tools.map((tool, place) => {
            const score = place === exact ? Infinity : weight(wanted.filter(term => held[place].has(term)));
            return { tool, score };
        });
        const matches = scored.filter(({ score }) => score > 0 && score >= RELATED * total);
        return matches.sort((a, b) => (a.score === b.score ? 0 : b.score - a.score)).map(({ tool }) => tool);
    };
}

// ---- What each era is shown, and its pages ----

// In legacy results the SDK wraps an `outputSchema` that is no object's, but of `tools/list` only, by the name of the
// method. What is found has to be what is listed, so such schemas are left out here, before the SDK sees them.
function shown(tool, era) {
    const { outputSchema, ...rest } = tool;
    return era === 'modern' || outputSchema?.type === 'object' ? tool : rest;
}

function view(era) {
    const tools = catalog.map(tool => shown(tool, era));
    const digest = createHash('sha256').update(JSON.stringify(tools)).digest('base64url');
    return { tools, digest, find: searcher(tools) };
}
const views = { modern: view('modern'), legacy: view('legacy') };

/** A position with a code that binds it to method, query and tools. JSON keeps unpaired surrogates apart. */
function cursorFor(method, query, digest, start) {
    const code = createHmac('sha256', cursorKey).update(JSON.stringify([method, query, digest, start]));
    return `${start}.${code.digest('base64url')}`;
}

function page(all, limit, method, query, digest, cursor) {
    let start = 0;
    if (cursor !== undefined) {
        if (typeof cursor !== 'string') throw invalid('cursor', 'must be a string');
        start = Number.parseInt(cursor, 10);
        const [given, issued] = [cursor, cursorFor(method, query, digest, start)].map(text => Buffer.from(text));
        if (given.length !== issued.length || !timingSafeEqual(given, issued)) {
            throw invalid('cursor', 'is not one that this server honors for this request');
        }
    }
    const end = start + limit;
    const more = end < all.length ? { nextCursor: cursorFor(method, query, digest, end) } : {};
    return { tools: all.slice(start, end), ...more, ...CACHING };
}

// ---- The server; the SDK asks for one for each connection or request ----

// A schema would refuse a request before the handler sees it: without `data`, and before the declaration is checked.
const anything = { '~standard': { version: 1, vendor: 'example', validate: value => ({ value }) } };

function build({ era }) {
    const { tools, digest, find } = views[era];
    const advertised = { [EXTENSION]: { maxLimit: MAX_PAGE, catalogSize: tools.length } };
    const capabilities = { tools: {}, extensions: advertised };
    if (era === 'legacy') capabilities.experimental = advertised; // clients whose SDK drops `extensions` look there
    const server = new Server({ name: 'typescript-example', version: '1.0.0' }, { capabilities });

    server.setRequestHandler('tools/list', ({ params }) =>
        page(tools, MAX_PAGE, 'tools/list', '', digest, params?.cursor)
    );

    server.setRequestHandler('tools/call', ({ params: { name, arguments: given = {} } }) => {
        const tool = tools.find(each => each.name === name);
        if (!tool) throw new ProtocolError(INVALID_PARAMS, 'Unknown tool');
        const echo = { name, arguments: given };
        const content = [{ type: 'text', text: JSON.stringify(echo) }];
        return tool.outputSchema ? { content, structuredContent: echo } : { content };
    });

    // Ranking does not wait for anything, so one search at a time is run.
    server.setRequestHandler('tools/search', { params: anything }, ({ query, limit = DEFAULT_PAGE, cursor }, ctx) => {
        const declared = ctx.mcpReq.envelope?.[CLIENT_CAPABILITIES_META_KEY]?.extensions?.[EXTENSION];
        if (era === 'modern' && !isObject(declared)) {
            const requiredCapabilities = { extensions: { [EXTENSION]: {} } };
            throw new MissingRequiredClientCapabilityError({ requiredCapabilities });
        }
        if (typeof query !== 'string') throw invalid('query', 'must be a string');
        if ([...query].length > MAX_QUERY) throw invalid('query', `must have at most ${MAX_QUERY} characters`);
        if (trim(query) === '') throw invalid('query', 'must contain a character that is not white space');
        const whole = Number.isInteger(limit) || limit === Infinity; // which JSON.parse makes of 1e400
        if (!whole || limit < 1) throw invalid('limit', 'must be an integer of at least 1');
        return page(find(query), Math.min(limit, MAX_PAGE), 'tools/search', query, digest, cursor);
    });
    return server;
}

if (process.argv[2] === '--http') {
    const handler = createMcpHandler(build, { responseMode: 'json' });
    // An error of a handler comes with status 200; for -32602, modern revisions recommend 400.
    const fetch = async (request, options) => {
        const response = await handler.fetch(request, options);
        if (response.status !== 200 || request.headers.get('mcp-protocol-version') !== MODERN) return response;
        if (!response.headers.get('content-type')?.startsWith('application/json')) return response;
        const text = await response.text();
        const status = JSON.parse(text).error?.code === INVALID_PARAMS ? 400 : 200;
        return new Response(text, { status, headers: response.headers });
    };
    const serve = toNodeHandler({ fetch });
    const isLocal = localhostOriginValidation();
    const [host, port] = process.argv[3].split(':');
    const listener = createServer((request, response) => {
        if (!isLocal(request, response)) return undefined;
        return request.url === '/mcp' ? serve(request, response) : response.writeHead(404).end();
    });
    listener.listen(Number(port), host, () => {
        console.log(JSON.stringify({ url: `http://${host}:${listener.address().port}/mcp` }));
    });
} else {
    serveStdio(build);
}
