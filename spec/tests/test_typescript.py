"""`schema.ts` is what the schema says, and the draft shows nothing else."""

from __future__ import annotations

import re
from pathlib import Path

from sentences import fences
from tools_search_spec.typescript import declaration, declared_names, typescript


def test_the_committed_schema_ts_is_the_generated_one(spec_folder: Path):
    committed = (spec_folder / "tools_search_spec" / "schema.ts").read_text(encoding="utf-8")
    assert committed == typescript(), "run: python -m tools_search_spec.typescript > spec/tools_search_spec/schema.ts"


def test_every_typescript_block_of_the_draft_consists_of_declarations_of_schema_ts(pages: dict[str, str]):
    blocks = [fence.text for text in pages.values() for fence in fences(text) if fence.language == "typescript"]
    declarations = {declaration(name) for name in declared_names()}
    shown = [part if part.endswith("\n") else f"{part}\n" for block in blocks for part in split_declarations(block)]
    assert len(shown) >= 7
    assert not [part for part in shown if part not in declarations]


def split_declarations(block: str) -> list[str]:
    return block.replace("\n\ninterface ", "\n\x00interface ").replace("\n\ntype ", "\n\x00type ").split("\x00")


def test_the_shapes_of_every_message_of_the_extension_stand_in_the_draft(draft: str):
    shown = "".join(fence.text for fence in fences(draft) if fence.language == "typescript")
    messages = ["SearchToolsRequest", "SearchToolsRequestParams", "SearchToolsResult", "LegacySearchToolsResult"]
    shapes = [*messages, "ServerSettings", "HitMetadata", "InvalidParamsData", "BusyData"]
    assert not [name for name in shapes if declaration(name) not in shown]


def test_a_request_is_declared_with_its_parents_its_bounds_and_its_optional_members():
    text = declaration("SearchToolsRequestParams")
    assert text.startswith("interface SearchToolsRequestParams extends PaginatedRequestParams {\n")
    assert "   * @minimum 1\n   */\n  limit?: number;\n" in text
    assert "  query: string;\n" in text


def test_members_with_unusual_names_are_quoted():
    text = declaration("AdvertisingServerCapabilities")
    assert '    "io.github.tools-search/tools-search": ServerSettings;\n' in text


def test_every_name_that_is_used_is_declared_once_those_of_the_base_protocol_last():
    text = re.sub(r"/\*.*?\*/", "", typescript(), flags=re.DOTALL)
    declared = re.findall(r"^export (?:interface|type) (\w+)", text, re.MULTILINE)
    used = set(re.findall(r"\b[A-Z]\w+", re.sub(r'"[^"]*"', "", text)))
    assert (len(declared), set(declared)) == (len(used), used)
    assert declared[: len(declared_names())] == declared_names()


def test_shapes_of_the_base_protocol_are_declared_as_typescript_has_them():
    assert declaration("RequestId") == "type RequestId = string | number;\n"
    assert declaration("MetaObject") == "type MetaObject = JSONObject;\n"
    assert '  theme?: "dark" | "light";\n' in declaration("Icon")
    schema = '  inputSchema: {\n    $schema?: string;\n    type: "object";\n    [key: string]: unknown;\n  };\n'
    assert schema in declaration("Tool")
