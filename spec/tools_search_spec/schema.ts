/**
 * Shapes of the tools/search extension, draft.
 * Extension identifier: io.github.tools-search/tools-search (provisional and unofficial)
 *
 * Generated from schema.json, which is the source. Do not edit.
 */

import type {
  CacheableResult,
  Cursor,
  JSONObject,
  JSONRPCErrorResponse,
  JSONRPCRequest,
  JSONRPCResultResponse,
  MetaObject,
  PaginatedRequestParams,
  PaginatedResult,
  RequestId,
  Tool,
} from "./spec.types.js"; // base protocol, revision 2026-07-28

/**
 * What a server says of its search when it advertises this extension. Every member is optional.
 */
export interface ServerSettings {
  /**
   * Approximate number of tools that can be found. Left out when it would differ from caller to
   * caller.
   *
   * @minimum 0
   */
  catalogSize?: number;

  /**
   * Short phrases naming what can be found, for a host to tell its model when searching is worth it.
   */
  topics?: string[];

  /**
   * The largest number of tools that this server ever returns in one page, with or without `limit`.
   *
   * @minimum 1
   */
  maxLimit?: number;
}

/**
 * What a client declares. This revision defines no members.
 */
export type ClientSettings = JSONObject;

/**
 * Parameters of a `tools/search` request.
 */
export interface SearchToolsRequestParams extends PaginatedRequestParams {
  /**
   * What is needed, in natural language or keywords. Never empty or only white space; repeated
   * unchanged with every cursor.
   */
  query: string;

  /**
   * Upper bound of this page, an integer of at least 1. The server may return fewer tools.
   *
   * @minimum 1
   */
  limit?: number;

  /**
   * The `nextCursor` of an earlier page of the same query.
   */
  cursor?: Cursor;
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
   * Where the next page begins. Absent on the last page.
   */
  nextCursor?: Cursor;
}

/**
 * Why a tool is among the results, at the extension identifier in the `_meta` of a found tool. Every
 * member is optional.
 */
export interface HitMetadata {
  /**
   * Relevance from 0 to 1, comparable only within one result.
   *
   * @TJS-type number
   * @minimum 0
   * @maximum 1
   */
  score?: number;

  /**
   * Names of the members of the definition that matched, such as `name`, `title`, `description` or
   * `inputSchema`.
   */
  matched?: string[];

  /**
   * The part of the catalogue that the tool belongs to.
   */
  group?: string;
}

/**
 * The `data` of an error -32602 that answers a `tools/search` request.
 */
export interface InvalidParamsData {
  /**
   * Name of the member of `params` that is at fault.
   */
  field: string;

  /**
   * What is wrong with it, in words.
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
 * A tool as revision 2025-11-25 has it: the root of an output schema is an object.
 */
export interface LegacyTool extends Tool {
  outputSchema?: {
    type: "object";
  };
}
