"""The pydantic types accept what the schema accepts, and what they write the schema accepts.

Values are drawn here by hand, member by member, from what the schema allows and from what it does not. Members that the
base protocol defines, such as those of `Tool`, are the SDK's: they are drawn valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mcp_ext_search_primitives as primitives
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.types import (
    TOOLS,
    WHITE_SPACE,
    BusyData,
    ClientSettings,
    HitMetadata,
    SearchToolsRequest,
    SearchToolsRequestParams,
    SearchToolsResult,
    ServerSettings,
)
from mcp_types import Tool
from pydantic import BaseModel, ValidationError
from tools_search_spec import EXTENSION_ID, PRIMITIVES, Example, Primitive, examples

Accepts = Callable[[str, object], bool]
Members = dict[str, st.SearchStrategy[Any]]

texts = st.text(max_size=12)
integers = st.integers(-3, 5) | st.integers() | st.sampled_from([3.0, -1.0, 0.0, 1e300, 10**400])
scalars = st.none() | st.booleans() | integers | st.floats(allow_nan=False, allow_infinity=False) | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)
white_space = st.text(st.sampled_from(WHITE_SPACE), max_size=4)
queries = white_space | st.text(st.sampled_from("\x1c\x1f\u200b \n\0\u202ea"), max_size=4) | texts

EDGES: list[Any] = [
    *[None, True, False, -1, 0, 1, 2, 10**400, -0.01, 0.5, 1.0, 1.01, 2.5, 3.0, 1e300],
    *["", "3", "x", "complete", "input_required", "public", "shared", "\x1c", "\u200b", *WHITE_SPACE, WHITE_SPACE],
    *[[], ["x"], [None], [1], [{}], {}, {"x": 1}],
]

tools: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "name": texts,
        "inputSchema": st.dictionaries(texts, json_values, max_size=2).map(
            lambda more: {key: value for key, value in more.items() if key != "$schema"} | {"type": "object"}
        ),
    },
    optional={
        "title": texts,
        "description": texts,
        "outputSchema": st.just({"type": "object", "properties": {}}),
        "annotations": st.fixed_dictionaries({}, optional={"readOnlyHint": st.booleans(), "title": texts}),
        "icons": st.just([{"src": "https://example.com/icon.png", "sizes": ["48x48"], "theme": "dark"}]),
        "_meta": st.fixed_dictionaries({}, optional={EXTENSION_ID: st.just({"score": 0.5}), "com.example/x": scalars}),
    },
)
annotations = st.fixed_dictionaries(
    {}, optional={"audience": st.just(["user"]), "priority": st.floats(0, 1), "lastModified": texts}
)
metadata = st.fixed_dictionaries({}, optional={EXTENSION_ID: st.just({"score": 0.5}), "com.example/x": scalars})
described: Members = {"title": texts, "description": texts, "_meta": metadata}
resources: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"uri": texts, "name": texts},
    optional=described | {"mimeType": texts, "size": st.integers(min_value=0), "annotations": annotations},
)
templates: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"uriTemplate": texts, "name": texts}, optional=described | {"mimeType": texts, "annotations": annotations}
)
arguments = st.fixed_dictionaries({"name": texts}, optional={"description": texts, "required": st.booleans()})
prompts: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"name": texts}, optional=described | {"arguments": st.lists(arguments, max_size=2)}
)
cursors = st.sampled_from(["", "eyJvIjo1fQ"])
of_each: Members = {
    "catalogSize": st.integers(min_value=0) | st.just(1200.0),
    "topics": st.lists(texts, max_size=3),
    "maxLimit": st.integers(min_value=1) | st.just(50.0),
}
of_resources = of_each | {"contents": st.booleans(), "unlisted": st.booleans()}


def results(member: str, items: st.SearchStrategy[Any]) -> Members:
    return {
        member: st.lists(items, max_size=3),
        "nextCursor": cursors,
        "resultType": st.just("complete"),
        "ttlMs": st.integers(min_value=0) | st.just(60_000.0),
        "cacheScope": st.sampled_from(["public", "private"]),
    }


valid: dict[str, Members] = {
    "ServerSettings": of_each,
    "PrimitiveSettings": of_each,
    "ResourcesSettings": of_resources,
    "PrimitivesServerSettings": of_each
    | {
        "resources": st.fixed_dictionaries({}, optional=of_resources),
        "prompts": st.fixed_dictionaries({}, optional=of_each),
    },
    "ClientSettings": {},
    "BusyData": {"retryAfterMs": st.integers(min_value=0) | st.just(1000.0)},
    "HitMetadata": {"score": st.floats(0, 1) | st.sampled_from([0, 1]), "matched": st.lists(texts), "group": texts},
    "SearchToolsRequestParams": {
        "query": queries.filter(lambda query: query.strip(WHITE_SPACE)),
        "limit": st.integers(min_value=1) | st.sampled_from([3.0, 1e300]),
        "cursor": cursors,
    },
    "SearchToolsResult": results("tools", tools),
    "SearchResourcesResult": results("resources", resources),
    "SearchResourceTemplatesResult": results("resourceTemplates", templates),
    "SearchPromptsResult": results("prompts", prompts),
}
required = {
    "BusyData": {"retryAfterMs"},
    "SearchToolsRequestParams": {"query"},
    "SearchToolsResult": {"tools", "resultType", "ttlMs", "cacheScope"},
    "SearchResourcesResult": {"resources", "resultType", "ttlMs", "cacheScope"},
    "SearchResourceTemplatesResult": {"resourceTemplates", "resultType", "ttlMs", "cacheScope"},
    "SearchPromptsResult": {"prompts", "resultType", "ttlMs", "cacheScope"},
}
models: dict[str, type[BaseModel]] = {
    "ServerSettings": ServerSettings,
    "ClientSettings": ClientSettings,
    "BusyData": BusyData,
    "HitMetadata": HitMetadata,
    "SearchToolsRequestParams": SearchToolsRequestParams,
    "SearchToolsResult": SearchToolsResult,
    "PrimitiveSettings": primitives.PrimitiveSettings,
    "ResourcesSettings": primitives.ResourcesSettings,
    "PrimitivesServerSettings": primitives.PrimitivesServerSettings,
    "SearchResourcesResult": primitives.SearchResourcesResult,
    "SearchResourceTemplatesResult": primitives.SearchResourceTemplatesResult,
    "SearchPromptsResult": primitives.SearchPromptsResult,
}
of_results = [name for name in models if name.endswith("Result")]
requests: dict[str, type[BaseModel]] = {
    "SearchToolsRequest": SearchToolsRequest,
    "SearchResourcesRequest": primitives.SearchResourcesRequest,
    "SearchResourceTemplatesRequest": primitives.SearchResourceTemplatesRequest,
    "SearchPromptsRequest": primitives.SearchPromptsRequest,
}


def model_accepts(model: type[BaseModel], value: object) -> bool:
    try:
        model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return False
    return True


def objects(name: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects of the type, with members that it does not know among them."""
    members = valid[name] | {"later": json_values}
    needed = {member: members.pop(member) for member in required.get(name, ())}
    return st.fixed_dictionaries(needed, optional=members)


def strained(name: str) -> st.SearchStrategy[Any]:
    """Return objects of the type with one member that may be anything or missing, and now and then no object at all."""
    ruined = dict.fromkeys(valid[name], queries | json_values)
    one_ruined = [
        st.tuples(objects(name), anything, st.booleans()).map(
            lambda drawn, member=member: without(drawn[0], member) | ({member: drawn[1]} if drawn[2] else {})
        )
        for member, anything in ruined.items()
    ]
    return st.one_of(*one_ruined, objects(name), json_values)


def without(value: dict[str, Any], member: str) -> dict[str, Any]:
    return {key: kept for key, kept in value.items() if key != member}


@pytest.mark.parametrize("name", models)
@settings(deadline=None)
@given(data=st.data())
def test_what_the_schema_allows_the_type_accepts_and_writes_so_that_both_read_it_back(
    name: str, accepts: Accepts, data: st.DataObject
):
    value = data.draw(objects(name))
    assert accepts(name, value)
    model = models[name].model_validate(value, by_alias=True, by_name=False)
    written = model.model_dump(by_alias=True, mode="json", exclude_none=True)
    assert accepts(name, written)
    assert models[name].model_validate(written, by_alias=True, by_name=False) == model


@pytest.mark.parametrize(("name", "member"), [(name, member) for name in models for member in valid[name]])
def test_type_and_schema_draw_every_line_in_the_same_place(name: str, member: str, accepts: Accepts):
    sound: dict[str, Any] = {"query": "x", "tools": [], "resultType": "complete", "ttlMs": 0, "cacheScope": "public"}
    sound |= {"retryAfterMs": 0, "resources": [], "resourceTemplates": [], "prompts": []}
    whole = {kept: sound[kept] for kept in required.get(name, set[str]())}
    for edge in EDGES:
        value = whole | {member: edge}
        assert model_accepts(models[name], value) == accepts(name, value), (member, edge)


@pytest.mark.parametrize("name", [name for name in models if name not in of_results])
@settings(deadline=None)
@given(data=st.data())
def test_the_type_accepts_exactly_what_the_schema_accepts(name: str, accepts: Accepts, data: st.DataObject):
    value = data.draw(strained(name))
    assert model_accepts(models[name], value) == accepts(name, value)


@pytest.mark.parametrize("name", of_results)
@settings(deadline=None)
@given(data=st.data())
def test_the_type_of_a_result_refuses_what_the_schemas_of_both_eras_refuse(
    name: str, accepts: Accepts, data: st.DataObject
):
    """One type reads both eras, so it also accepts a modern result that lacks what a legacy one need not have."""
    value = data.draw(strained(name))
    accepted = model_accepts(models[name], value)
    assert accepted or not accepts(name, value)
    assert not accepted or accepts(f"Legacy{name}", value)


@pytest.mark.parametrize("name", requests)
@settings(deadline=None)
@given(
    params=strained("SearchToolsRequestParams"),
    method=st.sampled_from([*(primitive.method for primitive in PRIMITIVES), "tools/list", "", None, 5]),
)
def test_the_type_of_a_request_accepts_exactly_what_the_schema_accepts(
    name: str, accepts: Accepts, params: Any, method: object
):
    value = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    assert model_accepts(requests[name], value) == accepts(name, value)


@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda primitive: primitive.method)
def test_the_implementation_describes_each_method_as_the_draft_does(primitive: Primitive):
    own = [TOOLS, primitives.RESOURCES, primitives.RESOURCE_TEMPLATES, primitives.PROMPTS]
    (described,) = [search for search in own if search.method == primitive.method]
    names = (described.list_method, described.member, described.key, described.setting, described.item.__name__)
    assert names == (primitive.list_method, primitive.member, primitive.key, primitive.setting, primitive.items)
    assert described.request.__name__ == f"Search{primitive.items}sRequest"
    assert described.result.__name__ == f"Search{primitive.items}sResult"


@settings(deadline=None)
@given(
    query=queries.filter(lambda query: query.strip(WHITE_SPACE)),
    limit=st.none() | st.integers(min_value=1),
    cursor=st.none() | texts,
)
def test_a_request_built_in_python_is_one_of_the_schema(
    accepts: Accepts, query: str, limit: int | None, cursor: str | None
):
    more = {name: member for name, member in {"limit": limit, "cursor": cursor}.items() if member is not None}
    params = SearchToolsRequestParams.model_validate({"query": query, **more})
    written = SearchToolsRequest(params=params).model_dump(by_alias=True, mode="json", exclude_none=True)
    assert accepts("SearchToolsRequest", {"jsonrpc": "2.0", "id": 1, **written})


@settings(deadline=None)
@given(names=st.lists(texts, max_size=3), ttl_ms=st.integers(min_value=0), cursor=st.none() | texts)
def test_a_result_built_in_python_is_one_of_the_schema(
    accepts: Accepts, names: list[str], ttl_ms: int, cursor: str | None
):
    found = [Tool(name=name, input_schema={"type": "object"}) for name in names]
    result = SearchToolsResult(tools=found, ttl_ms=ttl_ms, cache_scope="public")
    if cursor is not None:
        result.next_cursor = cursor
    assert accepts("SearchToolsResult", result.model_dump(by_alias=True, mode="json", exclude_none=True))


def modeled() -> list[Example]:
    """Return the examples of the types that have a model for one era or for both alike."""
    names = {*models, *requests} - {*of_results}
    return [example for example in examples() if example.type in names]


@pytest.mark.parametrize("example", modeled(), ids=lambda example: f"{example.type}-{example.name}")
def test_the_type_agrees_with_every_example_file(example: Example):
    model = requests.get(example.type) or models[example.type]
    envelope = {"id-missing", "id-null", "jsonrpc-missing"}
    assert model_accepts(model, example.value) == (example.valid or example.name in envelope)
