// Searches a server that speaks tools/search with the TypeScript SDK v1, calls the best hit, and prints one JSON object.
// Usage: node search.mjs '{"url": "…"} or {"command": "…", "args": […]}' legacy QUERY
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { z } from 'zod';

const EXTENSION_ID = 'io.github.tools-search/tools-search';
const SearchToolsResult = z.looseObject({
    tools: z.array(z.looseObject({ name: z.string(), inputSchema: z.looseObject({}) })),
    nextCursor: z.string().optional()
});

const [, , target, , query] = process.argv;
const { url, ...stdio } = JSON.parse(target);
const transport = url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(stdio);
const client = new Client(
    { name: 'interop-typescript-v1', version: '1.0.0' },
    { capabilities: { extensions: { [EXTENSION_ID]: {} } } }
);
await client.connect(transport);

const capabilities = client.getServerCapabilities() ?? {};
const search = params => client.request({ method: 'tools/search', params }, SearchToolsResult);

const names = [];
let cursor;
do {
    const page = await search({ query, limit: 2, ...(cursor === undefined ? {} : { cursor }) });
    names.push(...page.tools.map(tool => tool.name));
    cursor = page.nextCursor;
} while (cursor !== undefined && names.length < 20);

let refusal;
try {
    await search({ query, limit: 0 });
} catch (error) {
    refusal = error.code;
}
const call = await client.callTool({ name: names[0], arguments: {} });
console.log(
    JSON.stringify({
        era: 'legacy',
        advertised: capabilities.extensions?.[EXTENSION_ID] ?? null,
        advertisedExperimental: capabilities.experimental?.[EXTENSION_ID] ?? null,
        names,
        refusal,
        called: call.content?.length > 0
    })
);
await client.close();
