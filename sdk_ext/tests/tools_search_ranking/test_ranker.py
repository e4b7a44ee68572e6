from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from mcp_ext_tools_search.ranking import Hit, ToolIndex
from mcp_types import Tool
from tools_search_ranking import FieldedRanker

_MailSchema = {
    "type": "object",
    "properties": {
        "recipient": {"type": "string", "description": "Address of the mailbox"},
        "priority": {"enum": ["urgent", "normal"]},
    },
}


@pytest.fixture(scope="module")
def index(make_tool: Callable[..., Tool]) -> ToolIndex:
    tools = [
        make_tool("send_mail", "Send a message to somebody.", title="Send mail", schema=_MailSchema),
        make_tool("getUserInfo", "Returns the profile of an account."),
        make_tool("files.read-text", "Read a file from disk. Large files are cut at one megabyte."),
        make_tool("delete_issue", "Delete an issue of a repository."),
        make_tool("create_issue", "Open an issue in a repository."),
        make_tool("sha256sum", "Compute the checksum of a string."),
        make_tool("weather_forecast", "Weather for the next days.", published={"group": "meteo", "tags": ["rain"]}),
        make_tool("translate_text", "Translate text between languages.", published={"aliases": ["interpreter"]}),
        make_tool("train_schedule", "Departure times of trains at a station."),
        make_tool("who_is", "Look up the owner of a domain."),
        make_tool("查询天气", "查询指定城市的天气预报"),
        make_tool("maps_geo", "将地址转换为经纬度坐标"),
        make_tool("invia_fattura", "Invia la fattura elettronica al cliente è già pronta."),
        make_tool("найти_рейс", "Поиск авиабилетов и рейсов на дату."),
        make_tool("بحث_كتاب", "البحث عن كِتاب في المكتبة"),
        make_tool("로그_검색", "서버 로그를 검색합니다"),
        make_tool("レシピ検索", "材料から料理のレシピを探す"),
        make_tool("तापमान", "शहर का वर्तमान तापमान बताता है"),
        make_tool("ค้นหาโรงแรม", "ค้นหาและจองโรงแรมในเมือง"),
    ]
    return FieldedRanker()(tools)


def _names(hits: Sequence[Hit]) -> list[str]:
    return [hit.name for hit in hits]


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("user info", "getUserInfo"),
        ("GETUSERINFO", "getUserInfo"),
        ("get_user_info", "getUserInfo"),
        ("read text files", "files.read-text"),
        ("files.read", "files.read-text"),
        ("sha 256 checksums", "sha256sum"),
        ("Could you please open a new issue?", "create_issue"),
        ("remove the issue", "delete_issue"),
        ("erasing issues", "delete_issue"),
        ("e-mail an urgent note", "send_mail"),
        ("recipients", "send_mail"),
        ("config of my repo", "create_issue"),
        ("tickets", "create_issue"),
        ("meteo", "weather_forecast"),
        ("will there be rain?", "weather_forecast"),
        ("I need an interpreter", "translate_text"),
        ("wether forcast", "weather_forecast"),
        ("tranlsate this txt", "translate_text"),
        ("deprature times", "train_schedule"),
        ("上海明天天气怎么样", "查询天气"),
        ("把地址转换成坐标", "maps_geo"),
        ("fattura elettronica gia pronta", "invia_fattura"),
        ("ФАТТУРА рейсы на дату", "найти_рейс"),
        ("рейсов", "найти_рейс"),
        ("كتاب", "بحث_كتاب"),
        ("서버 로그", "로그_검색"),
        ("料理を探したい", "レシピ検索"),
        ("तापमान", "तापमान"),
        ("โรงแรม", "ค้นหาโรงแรม"),
    ],
)
def test_the_right_tool_comes_first(index: ToolIndex, query: str, best: str):
    assert index.search(query)[0].name == best


@pytest.mark.parametrize("query", ["zxqv", "?!", "qqqq wwww jjjj", "量子", "\u200b", "🚀"])
def test_a_query_without_a_known_word_finds_nothing(index: ToolIndex, query: str):
    assert list(index.search(query)) == []


def test_stop_words_find_nothing_beside_other_words(index: ToolIndex):
    assert _names(index.search("the station")) == ["train_schedule"]


def test_stop_words_alone_are_words(index: ToolIndex):
    assert index.search("who is")[0].name == "who_is"


def test_the_first_hit_scores_one_and_none_scores_more_than_the_one_before(index: ToolIndex):
    scores = [hit.score for hit in index.search("read the text of an issue")]
    assert scores[0] == 1.0
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


@pytest.mark.parametrize(
    ("query", "matched"),
    [
        ("mailbox", ("inputSchema",)),
        ("mail", ("name", "title", "description")),  # where it is called a message
        ("somebody", ("description",)),
        ("mail somebody urgent", ("name", "title", "description", "inputSchema")),
    ],
)
def test_a_hit_tells_the_members_that_matched(index: ToolIndex, query: str, matched: tuple[str, ...]):
    assert index.search(query)[0] == Hit("send_mail", 1.0, matched)


def test_published_labels_match_as_meta(index: ToolIndex):
    assert index.search("meteo")[0].matched == ("_meta",)


def test_equal_tools_are_ordered_by_name(make_tool: Callable[..., Tool]):
    names = ["c_x", "b_x", "f_x", "e_x"]
    index = FieldedRanker()([make_tool(name, "Same thing.") for name in names])
    assert _names(index.search("same thing")) == sorted(names)


def test_repeating_a_word_gains_less_than_having_another(make_tool: Callable[..., Tool]):
    stuffed = make_tool("stuffed", "invoice " * 12_000)
    honest = make_tool("honest", "Send an invoice to a customer.")
    index = FieldedRanker()([stuffed, honest, make_tool("other", "Something else entirely.")])
    assert _names(index.search("invoice a customer")) == ["honest", "stuffed"]


def test_words_that_are_said_apart_find_what_is_written_as_one(make_tool: Callable[..., Tool]):
    index = FieldedRanker()([make_tool("login_user"), make_tool("logout_user")])
    assert _names(index.search("log the user out"))[0] == "login_user"
    assert _names(index.search("log out the user"))[0] == "logout_user"


def test_an_abbreviation_finds_what_it_is_short_for(make_tool: Callable[..., Tool]):
    tools = [make_tool("create_pull_request"), make_tool("create_merge_request"), make_tool("create_page")]
    index = FieldedRanker()(tools)
    assert _names(index.search("create pr"))[0] == "create_pull_request"
    assert _names(index.search("create mr"))[0] == "create_merge_request"


def test_an_empty_catalog_finds_nothing():
    assert list(FieldedRanker()([]).search("anything")) == []


def test_seeing_nothing_finds_nothing(index: ToolIndex):
    assert list(index.search("weather", visible=())) == []
    assert list(index.search("weather", visible={"unknown_tool"})) == []


def test_a_hidden_tool_is_not_found(index: ToolIndex):
    visible = {"send_mail", "create_issue"}
    assert _names(index.search("issue repository", visible=visible)) == ["create_issue"]


def test_more_sets_of_visible_tools_than_are_kept_are_served(index: ToolIndex):
    names = _names(index.search("text file issue weather trains owner"))
    for _ in range(2):
        for number in range(40):
            visible = {*names[:2], f"tool-{number}"}
            assert set(_names(index.search("text file issue weather", visible=visible))) <= visible


def test_threads_that_search_at_once_get_what_one_would(index: ToolIndex):
    names = sorted(hit.name for hit in index.search("text file issue weather trains owner message account"))

    def search(place: int) -> list[Hit]:
        return list(index.search("issue file weather text", visible=frozenset(names[place % len(names) :])))

    expected = [search(place) for place in range(80)]
    with ThreadPoolExecutor(max_workers=4) as threads:
        assert list(threads.map(search, range(80))) == expected


@pytest.fixture(scope="module")
def chinese(make_tool: Callable[..., Tool]) -> ToolIndex:
    tools = [
        make_tool("get_weather", "查询指定城市的天气预报"),
        make_tool("search_notes", "根据关键词搜索笔记"),
        make_tool("delete_note", "删除指定的笔记。删除后不可恢复"),
        make_tool("update_note", "修改已有笔记的标题或正文"),
        make_tool("send_message", "发送消息给指定用户"),
        make_tool("recall_message", "撤回一条已发送的消息"),
        make_tool("create_chat", "创建群聊并邀请成员"),
        make_tool("help", "提供帮我写作的示例。想一个开头"),
    ]
    return FieldedRanker()(tools)


@pytest.mark.parametrize(
    ("query", "best"),
    [
        ("找笔记", "search_notes"),
        ("请帮我把笔记删了", "delete_note"),
        ("笔记改一下", "update_note"),
        ("拉个群", "create_chat"),
        ("我想请你帮我撤回消息。谢谢", "recall_message"),
        ("查", "get_weather"),
        ("請幫我傳送訊息給大家", "send_message"),
        ("預報", "get_weather"),
    ],
)
def test_a_chinese_request_finds_what_says_the_same_in_other_words(chinese: ToolIndex, query: str, best: str):
    assert chinese.search(query)[0].name == best


def test_a_korean_noun_of_one_syllable_is_found_behind_a_particle(make_tool: Callable[..., Tool]):
    tools = [make_tool("rain", "비 예보를 조회합니다"), make_tool("roads", "도로 상황을 조회합니다")]
    assert FieldedRanker()(tools).search("내일 비가 올까?")[0].name == "rain"


def test_a_filler_counts_less_than_what_is_asked_for(chinese: ToolIndex):
    assert chinese.search("帮我查天气")[0].name == "get_weather"
    assert chinese.search("帮我")[0].name == "help"


def test_characters_make_a_tool_no_longer(make_tool: Callable[..., Tool]):
    tools = [make_tool("report_one", "report 报告"), make_tool("report_two", "report 报 告")]
    one, two = FieldedRanker()(tools).search("report")
    assert (one.name, two.name) == ("report_two", "report_one")
    assert one.score > two.score


def test_a_long_chinese_request_is_read_to_its_end(chinese: ToolIndex):
    chatter = "".join(chr(code) for code in range(ord("鸟"), ord("鸟") + 100))
    assert chinese.search(f"{chatter}。撤回消息")[0].name == "recall_message"


def test_a_slip_is_corrected_behind_many_unknown_chinese_words(index: ToolIndex):
    assert index.search("鸟鸠鸡鸢鸣鸤鸥鸦鸧鸨鸩鸪鸫鸬鸭 wether")[0].name == "weather_forecast"


def test_a_hidden_tool_that_writes_two_words_as_one_changes_no_score(make_tool: Callable[..., Tool]):
    seen = [make_tool("dial", "Lookups of numbers."), make_tool("watch", "Look at the numbers.")]
    index = FieldedRanker()([*seen, make_tool("hidden", "A lookup.")])
    visible = {tool.name for tool in seen}
    assert list(index.search("look up numbers", visible=visible)) == list(
        FieldedRanker()(seen).search("look up numbers")
    )
