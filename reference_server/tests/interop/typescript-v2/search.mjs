// Searches a server that speaks tools/search with the TypeScript SDK v2, calls the best hit, and prints one JSON object.
// Usage: node search.mjs '{"url": "…"} or {"command": "…", "args": […]}' auto|legacy QUERY
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { z } from 'zod';

const EXTENSION_ID = 'io.github.tools-search/tools-search';
const SearchToolsResult = z.looseObject({
    tools: z.array(z.looseObject({ name: z.string(), inputSchema: z.looseObject({}) })),
    nextCursor: z.string().optional()
});

const [, , target, mode, query] = process.argv;
const { url, ...stdio } = JSON.parse(target);
const transport = url ? new StreamableHTTPClientTransport(new URL(url)) : new StdioClientTransport(stdio);
const client = new Client(
    { name: 'interop-typescript-v2', version: '1.0.0' },
    { capabilities: { extensions: { [EXTENSION_ID]: {} } }, versionNegotiation: { mode } }
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
        era: client.getProtocolEra(),
        advertised: capabilities.extensions?.[EXTENSION_ID] ?? null,
        advertisedExperimental: capabilities.experimental?.[EXTENSION_ID] ?? null,
        names,
        refusal,
        called: call.content?.length > 0
    })
);
await client.close();
