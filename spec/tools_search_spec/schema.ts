/**
 * Shapes of the tools/search extension, draft.
 * Extension identifier: io.github.tools-search/tools-search (provisional and unofficial)
 *
 * Generated from schema.json, which is the source. Do not edit.
 */

/**
 * What a server says about its search when it advertises this extension.
 */
export interface ServerSettings {
  /**
   * Approximate number of tools visible to the caller.
   *
   * @minimum 0
   */
  catalogSize?: number;

  /**
   * Short phrases describing what the caller's visible tools cover. Hosts can use them to tell their
   * model when to search.
   */
  topics?: string[];

  /**
   * Maximum number of tools that the server returns in one page.
   *
   * @minimum 1
   */
  maxLimit?: number;
}

/**
 * What a client declares. This revision defines no fields.
 */
export type ClientSettings = JSONObject;

/**
 * Parameters of a `tools/search` request.
 */
export interface SearchToolsRequestParams extends PaginatedRequestParams {
  /**
   * Description of the needed capability, in natural language or keywords. Not blank, and the same for
   * every page of a search.
   */
  query: string;

  /**
   * Maximum number of tools to return in this page.
   *
   * @minimum 1
   */
  limit?: number;
}

/**
 * Sent from a host's client to find the tools of a server that fit a need.
 */
export interface SearchToolsRequest extends JSONRPCRequest {
  method: "tools/search";
  params: SearchToolsRequestParams;
}

/**
 * One page of matching tools on a modern connection.
 */
export interface SearchToolsResult extends PaginatedResult, CacheableResult {
  /**
   * The tools of this page, best match first, as `tools/list` defines them.
   */
  tools: Tool[];
  resultType: "complete";
}

/**
 * One page of matching tools on a legacy connection.
 */
export interface LegacySearchToolsResult {
  _meta?: MetaObject;

  /**
   * The tools of this page, best match first, as `tools/list` defines them.
   */
  tools: LegacyTool[];

  /**
   * Opaque token for retrieving the next page. Absent on the last page.
   */
  nextCursor?: Cursor;
}

/**
 * Why a tool was found, at the extension identifier in its `_meta`.
 */
export interface HitMetadata {
  /**
   * Relevance score, comparable only within one page.
   *
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  score?: number;

  /**
   * Names of the fields of the definition that matched, such as `name` or `inputSchema`.
   */
  matched?: string[];

  /**
   * Human-readable name of the part of the catalog that the tool belongs to.
   */
  group?: string;
}

/**
 * The `data` of an error -32602 that answers a `tools/search` request.
 */
export interface InvalidParamsData {
  /**
   * Name of the invalid field in `params`.
   */
  field: string;

  /**
   * Human-readable description of the problem.
   */
  reason: string;
}

/**
 * The `data` of an error -32021 that answers a `tools/search` request.
 */
export interface MissingExtensionData {
  /**
   * Client capabilities that the request lacked.
   */
  requiredCapabilities: {
    extensions: {
      "io.github.tools-search/tools-search": JSONObject;
    };
  };
}

/**
 * The `data` of an error -32603 that answers a `tools/search` request of a server that is too busy.
 */
export interface BusyData {
  /**
   * Number of milliseconds to wait before searching again.
   *
   * @minimum 0
   */
  retryAfterMs: number;
}

/**
 * A successful response to `tools/search` on a modern connection.
 */
export interface SearchToolsResultResponse extends JSONRPCResultResponse {
  result: SearchToolsResult;
}

/**
 * A successful response to `tools/search` on a legacy connection.
 */
export interface LegacySearchToolsResultResponse {
  jsonrpc: "2.0";
  id: RequestId;
  result: LegacySearchToolsResult;
}

/**
 * The response to a `tools/search` request whose parameters are not valid. Its `data` is recommended.
 */
export interface InvalidSearchParamsResponse extends JSONRPCErrorResponse {
  error: {
    code: -32602;
    message: string;
    data?: InvalidParamsData;
  };
}

/**
 * The response to a modern `tools/search` request whose client did not declare this extension.
 */
export interface MissingExtensionResponse extends JSONRPCErrorResponse {
  error: {
    code: -32021;
    message: string;
    data: MissingExtensionData;
  };
}

/**
 * The response of a server that is too busy to search at the moment.
 */
export interface BusyResponse extends JSONRPCErrorResponse {
  error: {
    code: -32603;
    message: string;
    data: BusyData;
  };
}

/**
 * The capabilities of a server that advertises this extension on a modern connection.
 */
export interface AdvertisingServerCapabilities {
  tools: JSONObject;
  extensions: {
    "io.github.tools-search/tools-search": ServerSettings;
  };
}

/**
 * The capabilities of a server that advertises this extension on a legacy connection.
 */
export interface LegacyAdvertisingServerCapabilities extends AdvertisingServerCapabilities {
  /**
   * Holds, at the extension identifier, an object equal to the one in `extensions`.
   */
  experimental: {
    "io.github.tools-search/tools-search": ServerSettings;
  };
}

/**
 * The capabilities of a client that declares this extension.
 */
export interface DeclaringClientCapabilities {
  extensions: {
    "io.github.tools-search/tools-search": ClientSettings;
  };
}

/**
 * What a server says when it searches more than tools.
 */
export interface PrimitivesServerSettings extends ServerSettings {
  /**
   * Present if the server serves `resources/search` and `resources/templates/search`.
   */
  resources?: ResourcesSettings;

  /**
   * Present if the server serves `prompts/search`.
   */
  prompts?: PrimitiveSettings;
}

/**
 * What a server says about its search of one kind of items other than tools.
 */
export interface PrimitiveSettings {
  /**
   * Approximate number of resources, or of prompts, visible to the caller.
   *
   * @minimum 0
   */
  catalogSize?: number;

  /**
   * Short phrases describing what the caller's visible resources or prompts cover.
   */
  topics?: string[];

  /**
   * Maximum number of items that the server returns in one page.
   *
   * @minimum 1
   */
  maxLimit?: number;
}

/**
 * What a server says about its search of resources and resource templates.
 */
export interface ResourcesSettings extends PrimitiveSettings {
  /**
   * Whether `resources/search` also searches the content of resources.
   */
  contents?: boolean;

  /**
   * Whether `resources/search` may return resources that `resources/list` omits.
   */
  unlisted?: boolean;
}

/**
 * Sent from a host's client to find the resources of a server that fit a need.
 */
export interface SearchResourcesRequest extends JSONRPCRequest {
  method: "resources/search";
  params: SearchToolsRequestParams;
}

/**
 * One page of matching resources on a modern connection.
 */
export interface SearchResourcesResult extends PaginatedResult, CacheableResult {
  /**
   * The resources of this page, best match first, as `resources/list` defines them.
   */
  resources: Resource[];
  resultType: "complete";
}

/**
 * One page of matching resources on a legacy connection.
 */
export interface LegacySearchResourcesResult {
  _meta?: MetaObject;

  /**
   * The resources of this page, best match first, as `resources/list` defines them.
   */
  resources: Resource[];

  /**
   * Opaque token for retrieving the next page. Absent on the last page.
   */
  nextCursor?: Cursor;
}

/**
 * A successful response to `resources/search` on a modern connection.
 */
export interface SearchResourcesResultResponse extends JSONRPCResultResponse {
  result: SearchResourcesResult;
}

/**
 * A successful response to `resources/search` on a legacy connection.
 */
export interface LegacySearchResourcesResultResponse {
  jsonrpc: "2.0";
  id: RequestId;
  result: LegacySearchResourcesResult;
}

/**
 * Sent from a host's client to find the resource templates of a server that fit a need.
 */
export interface SearchResourceTemplatesRequest extends JSONRPCRequest {
  method: "resources/templates/search";
  params: SearchToolsRequestParams;
}

/**
 * One page of matching resource templates on a modern connection.
 */
export interface SearchResourceTemplatesResult extends PaginatedResult, CacheableResult {
  /**
   * The resource templates of this page, best match first, as `resources/templates/list` defines them.
   */
  resourceTemplates: ResourceTemplate[];
  resultType: "complete";
}

/**
 * One page of matching resource templates on a legacy connection.
 */
export interface LegacySearchResourceTemplatesResult {
  _meta?: MetaObject;

  /**
   * The resource templates of this page, best match first, as `resources/templates/list` defines them.
   */
  resourceTemplates: ResourceTemplate[];

  /**
   * Opaque token for retrieving the next page. Absent on the last page.
   */
  nextCursor?: Cursor;
}

/**
 * A successful response to `resources/templates/search` on a modern connection.
 */
export interface SearchResourceTemplatesResultResponse extends JSONRPCResultResponse {
  result: SearchResourceTemplatesResult;
}

/**
 * A successful response to `resources/templates/search` on a legacy connection.
 */
export interface LegacySearchResourceTemplatesResultResponse {
  jsonrpc: "2.0";
  id: RequestId;
  result: LegacySearchResourceTemplatesResult;
}

/**
 * Sent from a host's client to find the prompts of a server that fit a need.
 */
export interface SearchPromptsRequest extends JSONRPCRequest {
  method: "prompts/search";
  params: SearchToolsRequestParams;
}

/**
 * One page of matching prompts on a modern connection.
 */
export interface SearchPromptsResult extends PaginatedResult, CacheableResult {
  /**
   * The prompts of this page, best match first, as `prompts/list` defines them.
   */
  prompts: Prompt[];
  resultType: "complete";
}

/**
 * One page of matching prompts on a legacy connection.
 */
export interface LegacySearchPromptsResult {
  _meta?: MetaObject;

  /**
   * The prompts of this page, best match first, as `prompts/list` defines them.
   */
  prompts: Prompt[];

  /**
   * Opaque token for retrieving the next page. Absent on the last page.
   */
  nextCursor?: Cursor;
}

/**
 * A successful response to `prompts/search` on a modern connection.
 */
export interface SearchPromptsResultResponse extends JSONRPCResultResponse {
  result: SearchPromptsResult;
}

/**
 * A successful response to `prompts/search` on a legacy connection.
 */
export interface LegacySearchPromptsResultResponse {
  jsonrpc: "2.0";
  id: RequestId;
  result: LegacySearchPromptsResult;
}

/**
 * A tool as defined by revision 2025-11-25, where the root of an output schema is an object.
 */
export interface LegacyTool extends Tool {
  outputSchema?: {
    type: "object";
  };
}

/*
 * The rest repeats revision 2026-07-28 of the base protocol, as far as the shapes above need it.
 */

export interface Tool {
  _meta?: MetaObject;
  name: string;
  title?: string;
  description?: string;
  icons?: Icon[];
  annotations?: ToolAnnotations;
  inputSchema: {
    $schema?: string;
    type: "object";
    [key: string]: unknown;
  };
  outputSchema?: {
    $schema?: string;
    [key: string]: unknown;
  };
}

export interface Resource {
  _meta?: MetaObject;
  uri: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  size?: number;
  icons?: Icon[];
  annotations?: Annotations;
}

export interface ResourceTemplate {
  _meta?: MetaObject;
  uriTemplate: string;
  name: string;
  title?: string;
  description?: string;
  mimeType?: string;
  icons?: Icon[];
  annotations?: Annotations;
}

export interface Prompt {
  _meta?: MetaObject;
  name: string;
  title?: string;
  description?: string;
  arguments?: PromptArgument[];
  icons?: Icon[];
}

export interface PromptArgument {
  name: string;
  title?: string;
  description?: string;
  required?: boolean;
}

export interface Annotations {
  audience?: Role[];

  /**
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  priority?: number;
  lastModified?: string;
}

export type Role = "assistant" | "user";

export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

export interface Icon {
  src: string;
  mimeType?: string;
  sizes?: string[];
  theme?: "dark" | "light";
}

export type MetaObject = JSONObject;

export type Cursor = string;

export type RequestId = string | number;

export interface PaginatedRequestParams {
  _meta?: MetaObject;
  cursor?: Cursor;
}

export interface PaginatedResult {
  _meta?: MetaObject;
  resultType: string;
  nextCursor?: Cursor;
}

export interface CacheableResult {
  _meta?: MetaObject;
  resultType: string;

  /**
   * @minimum 0
   */
  ttlMs: number;
  cacheScope: "private" | "public";
}

export interface JSONRPCRequest {
  jsonrpc: "2.0";
  id: RequestId;
  method: string;
  params?: JSONObject;
}

export interface JSONRPCResultResponse {
  jsonrpc: "2.0";
  id: RequestId;
  result: JSONObject;
}

export interface JSONRPCErrorResponse {
  jsonrpc: "2.0";
  id?: RequestId;
  error: {
    code: number;
    message: string;
    [key: string]: unknown;
  };
}

export type JSONObject = { [key: string]: any };
